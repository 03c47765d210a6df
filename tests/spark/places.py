"""Places in a micro-batch where the processes of a driver stop when they are told to, so that a kill hits them there.

    started      the query knows where it starts, Spark does not; no process is killed here
    planned      Spark has written the batch into its offset log; nothing is read
    reading      tasks have half of their rows
    writing      some rows are with their brokers (handled, staged), others are not
    staged       all of them are, as far as tasks go; nothing is decided
    committing   the sink is in the middle of its commit: decided, if that is a step, and brokers are not told
    committed    the sink's commit is done, Spark's commit log does not have the batch
    noted        Spark's commit log has it, the group has not heard of it

``install`` runs in every Python process of the driver and of its workers, as a ``sitecustomize`` on their path. The
folder that the environment names has a file ``at`` with the life it is for and the place to stop at; a process that
stops there leaves ``<who>.there``, and goes on when ``at`` says another place. At ``killing`` a worker kills itself
instead: once at reading, once at writing. The JVM stops nowhere: where it writes, tasks stop in a function of Python
(``held_value``), and its sink where it has Python move a marker. What brokers ask about prepared messages goes to the
file ``asked``, line by line, with the outcome.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import TaskContext

FOLDER, LIFE = "PYROMQ_TEST_PLACES", "PYROMQ_TEST_LIFE"
KILLING, NOWHERE, STARTED = "killing", "nowhere", "started"
PLACES = ("planned", "writing", "staged", "committing", "committed", "noted")
REQUESTS = 3  # of a task that are confirmed when it stops at writing
VALUES = 15  # that a task has given, or is about to give, to the JVM sink then; ten of them are there
_WAIT_S_MAX = 300


def reached(place: str, who: str) -> None:
    folder = Path(os.environ[FOLDER])
    wanted = _at(folder)
    if wanted == KILLING and place in ("reading", "writing"):
        mark = folder / f"{who}.{place}.killed"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    elif wanted == place:
        (folder / f"{who}.there").touch()
        deadline = time.monotonic() + _WAIT_S_MAX
        while _at(folder) == place and time.monotonic() < deadline:
            time.sleep(0.02)


def _at(folder: Path) -> str:
    life, place = (folder / "at").read_text().split()
    if life != os.environ[LIFE]:  # a worker that has not noticed yet that its driver is gone
        os._exit(1)
    return place


def go_to(folder: Path, life: int, place: str) -> None:
    """A process that stops elsewhere goes on."""
    for mark in (*folder.glob("*.there"), *folder.glob("*.begun")):
        mark.unlink()
    aside = folder / "at.new"
    aside.write_text(f"{life} {place}")
    aside.rename(folder / "at")


# --- what is wrapped -------------------------------------------------------------------------------------------------


def _source(module: Any) -> None:
    partitions, read = module.StreamReader.partitions, module.Reading.read

    def held_partitions(self: Any, start: Any, end: Any) -> Any:
        reached("planned", self._options.group)
        return partitions(self, start, end)

    def held_read(self: Any, partition: Any) -> Iterator[Any]:
        for batch in read(self, partition):
            middle = batch.num_rows // 2
            yield batch.slice(0, middle)
            reached("reading", self._options.group)
            yield batch.slice(middle)

    module.StreamReader.partitions, module.Reading.read = held_partitions, held_read


def held_value(value: bytes, who: str) -> str:
    """A function of Spark SQL: tasks stop in it when they have given the sink some of their rows.

    Values are made long, for workers write them through a buffer of 64 KiB.
    """
    task = TaskContext.get()
    assert task is not None
    count = _seen[task.taskAttemptId()] = _seen.get(task.taskAttemptId(), 0) + 1
    if count == VALUES and FOLDER in os.environ:
        time.sleep(0.3)  # so that those before it are with their brokers, or on their way
        reached("writing", who)
    return value.decode().ljust(8_000)


_seen: dict[int, int] = {}  # values of each task


def _jvm_writes(module: Any) -> None:
    partitions = module.WritePlanner.partitions

    def held_partitions(self: Any) -> Any:
        if self._question.commit is None:
            return partitions(self)
        reached("staged", self._given["topic"])
        reached("committing", self._given["topic"])
        found = partitions(self)
        reached("committed", self._given["topic"])
        return found

    module.WritePlanner.partitions = held_partitions


def _sender(module: Any) -> None:
    note = module.RequestSender._note

    def held_note(self: Any, *arguments: Any) -> None:
        note(self, *arguments)
        self.confirmed = getattr(self, "confirmed", 0) + 1
        if self.confirmed == REQUESTS:
            reached("writing", self._options.topic)

    module.RequestSender._note = held_note


def _sink(module: Any) -> None:
    commit, end_all = module.StreamWriter.commit, module.end_all

    def held_commit(self: Any, messages: Any, batchId: int) -> None:  # noqa: N803
        reached("staged", self._options.topic)
        if self._options.mode is not module.Mode.TRANSACTIONAL:
            reached("committing", self._options.topic)
        commit(self, messages, batchId)
        reached("committed", self._options.topic)

    def held_end_all(connected: Any, group: str, prepared: Any, outcome: Any) -> Any:
        reached("committing", prepared[0].topic if prepared else "")
        return end_all(connected, group, prepared, outcome)

    module.StreamWriter.commit, module.end_all = held_commit, held_end_all


def _transactions(module: Any) -> None:
    outcome = module.Decisions.outcome

    def noted_outcome(self: Any, key: str) -> Any:
        found = outcome(self, key)
        with open(Path(os.environ[FOLDER], "asked"), "a", encoding="utf-8") as file:
            file.write(f"{key} {found.name}\n")
        return found

    module.Decisions.outcome = noted_outcome


def _consume(module: Any) -> None:
    commit, send_back = module.ConsumeWriter.commit, module.RowSendBack.send_back

    def held_send_back(self: Any, judged: Any) -> None:
        send_back(self, judged)
        reached("writing", self._options.group)

    def held_commit(self: Any, messages: Any, batchId: int) -> None:  # noqa: N803
        reached("staged", "consume")
        reached("committing", "consume")
        commit(self, messages, batchId)
        reached("committed", "consume")

    module.ConsumeWriter.commit, module.RowSendBack.send_back = held_commit, held_send_back


def _archive_source(module: Any) -> None:
    rows_of = module.rows_of

    def held_rows(files: Any) -> Any:
        reached("writing", "archive")
        return rows_of(files)

    module.rows_of = held_rows


def _archive_files(module: Any) -> None:
    commit, decide = module.ArchiveFolder.commit, module.ArchiveFolder._decide

    def held_decide(self: Any, files: Any) -> None:
        decide(self, files)
        reached("committing", "archive")

    def held_commit(self: Any, files: Any) -> bool:
        reached("staged", "archive")
        done: bool = commit(self, files)
        reached("committed", "archive")
        return done

    module.ArchiveFolder._decide, module.ArchiveFolder.commit = held_decide, held_commit


def _stream(module: Any) -> None:
    begin, latest, tell = module.Stream.__init__, module.Stream.latest, module.Stream.tell

    def marked_begin(self: Any, options: Any, *arguments: Any, **more: Any) -> None:
        Path(os.environ[FOLDER], f"{options.group}.begun").touch()
        begin(self, options, *arguments, **more)

    def held_latest(self: Any, start: Any, **more: Any) -> Any:
        reached(STARTED, self._options.group)
        return latest(self, start, **more)

    def held_tell(self: Any, start: Any) -> None:
        _before_telling(self._options.group)
        tell(self, start)

    module.Stream.__init__, module.Stream.latest, module.Stream.tell = marked_begin, held_latest, held_tell


def _progress(module: Any) -> None:
    tell = module.ProgressListener._report

    def held_tell(self: Any, progress: Any) -> None:
        _before_telling(progress.group)
        tell(self, progress)

    module.ProgressListener._report = held_tell


def _before_telling(group: str) -> None:
    folder = Path(os.environ[FOLDER])
    if (checkpoint_of(folder, group) / "commits" / "0").exists():
        reached("noted", group)


def checkpoint_of(folder: Path, group: str) -> Path:
    return folder / "archive" / "_pyromq" / "checkpoint" if group == "archive" else folder / f"checkpoint-{group}"


_WRAPPERS: dict[str, Callable[[Any], None]] = {
    "pyromq.pipeline.spark.source": _source,
    "pyromq.pipeline.reading.stream": _stream,
    "pyromq.pipeline.spark.progress": _progress,
    "pyromq.pipeline.sink.sink": _sink,
    "pyromq.pipeline.spark.jvm.writes": _jvm_writes,
    "pyromq.pipeline.sink.sender": _sender,
    "pyromq.pipeline.sink.transactions": _transactions,
    "pyromq.pipeline.consuming.writer": _consume,
    "pyromq.pipeline.jobs.archiving.source": _archive_source,
    "pyromq.pipeline.jobs.archiving.files": _archive_files,
}


class _Finder(PathFinder):
    """Wraps modules when they are imported: most processes need few of them."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        wrap = _WRAPPERS.get(fullname)
        spec = super().find_spec(fullname, path, target) if wrap is not None else None
        if wrap is None or spec is None or spec.loader is None:
            return None
        inner = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            inner(module)
            wrap(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    if FOLDER in os.environ:
        sys.meta_path.insert(0, _Finder)
