"""The book of jobs: all that a folder knows, those of other processes and of earlier ones included."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import msgspec

from pyromq.clock import Clock
from pyromq.errors import ConfigError, MQError, NoSuchJobError
from pyromq.operate.admin import Admin
from pyromq.operate.jobs.files import JobFiles
from pyromq.operate.jobs.outcomes import ItemResult, Outcome
from pyromq.operate.jobs.record import JobRecord
from pyromq.operate.jobs.run import JobRun
from pyromq.operate.jobs.specs import Delete, JobSpec, Move, NewJob, ResetOffsets
from pyromq.operate.jobs.work import attempts_of

RUNNING_MAX: Final = 4
KEPT_MAX: Final = 500  # the oldest that are over go first


class TooManyJobsError(MQError):
    """So many jobs are under way already: wait for one, or cancel one."""


class Jobs:
    """``async with Jobs(admin, folder, clock) as jobs``. Without a folder, jobs are gone with the process.

    Without ``admin`` jobs can be looked at and steered, not started.
    """

    def __init__(self, admin: Admin | None, folder: Path | None, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._given = folder
        self._folder = folder or Path()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._records: dict[str, JobRecord] = {}  # those that are over, oldest first
        self._runs: dict[str, JobRun] = {}
        self._tasks: dict[str, asyncio.Task[JobRecord]] = {}

    async def __aenter__(self) -> Self:
        if self._given is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="pyromq-jobs-")
            self._folder = Path(self._scratch.name)
        self._refresh()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Jobs that run are interrupted, and say so."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._scratch is not None:
            self._scratch.cleanup()

    def _refresh(self) -> None:
        """Read what other processes did; jobs that are over do not change any more."""
        paths = [path for path in self._folder.iterdir() if path.is_dir()] if self._folder.is_dir() else []
        names = {path.name for path in paths}
        over = {name: record for name, record in self._records.items() if not record.is_active and name in names}
        unread = [path for path in paths if path.name not in over and path.name not in self._runs]
        found = [record for path in unread if (record := JobFiles(path).load()) is not None]
        both = sorted((*over.values(), *found), key=lambda record: record.created_ms)
        self._records = {record.id: record for record in both}

    # --- starting ---

    def start(self, new: NewJob, *, by: str, continues: str = "") -> JobRecord:
        """Start a job. Raises TooManyJobsError, JobFolderError, ConfigError."""
        assert self._admin is not None, "a book without a client starts nothing"
        new.spec.check()
        if len(self._runs) >= RUNNING_MAX:
            raise TooManyJobsError(f"{RUNNING_MAX} jobs are under way already: wait for one, or cancel one")
        job_id, now_ms = f"{self._clock.now_ms():x}-{secrets.token_hex(3)}", self._clock.now_ms()
        spec = new.spec if new.spec.run_id else msgspec.structs.replace(new.spec, run_id=job_id)
        record = JobRecord(
            id=job_id,
            spec=spec,
            pace=new.pace,
            dry_run=new.dry_run,
            by=by,
            continues=continues,
            created_ms=now_ms,
        )
        self._make_room()
        files = JobFiles(self._folder / job_id)
        files.create(record)
        run = JobRun(record, attempts_of(self._admin, spec, is_continued=bool(continues)), files, self._clock)
        self._runs[job_id] = run
        task = self._tasks[job_id] = asyncio.get_running_loop().create_task(run.run(), name=f"job {job_id}")
        task.add_done_callback(lambda _: self._over(job_id))
        return record

    def go_on(self, job_id: str, *, by: str) -> JobRecord:
        """A new job for what one that is over has left: what that one did is not done again. Raises ConfigError."""
        record = self.get(job_id)
        if record.is_active:
            raise ConfigError(f"job {job_id} is {record.state.value}: it goes on by itself, or with resume")
        new = NewJob(spec=self._left_of(record), pace=record.pace, dry_run=record.dry_run)
        return self.start(new, by=by, continues=job_id)

    def _left_of(self, record: JobRecord) -> JobSpec:
        """Without the moves and deletions that are confirmed; sends know by themselves. Raises ConfigError."""
        spec = record.spec
        if record.dry_run or not isinstance(spec, (ResetOffsets, Delete)):
            return spec
        done = {result.item for result in self.results(record.id, outcomes=frozenset((Outcome.CONFIRMED,)))}
        left: ResetOffsets | Delete
        if isinstance(spec, ResetOffsets):
            moves = tuple(each for each in spec.moves if f"{each.topic}@{each.broker}:{each.queue}" not in done)
            left, is_empty = msgspec.structs.replace(spec, moves=moves), not moves
        else:
            names = tuple(each for each in spec.names if each not in done)
            left, is_empty = msgspec.structs.replace(spec, names=names), not names
        if is_empty:
            raise ConfigError(f"job {record.id} has left nothing: all of it is confirmed")
        return left

    def undo(self, job_id: str, *, by: str) -> JobRecord:
        """A new job that moves each queue back to where it stood before a reset. Raises ConfigError where none can."""
        return self.start(NewJob(spec=self._undo_of(self.get(job_id))), by=by)

    def _undo_of(self, record: JobRecord) -> ResetOffsets:
        job_id = record.id
        if not isinstance(record.spec, ResetOffsets) or not record.can_undo:
            raise ConfigError(f"job {job_id} has nothing to undo: only a reset of offsets that is over can be undone")
        moves = {f"{move.topic}@{move.broker}:{move.queue}": move for move in record.spec.moves}
        back = [
            msgspec.structs.replace(moves[result.item], old=moves[result.item].new, new=int(result.undo))
            for result in self.results(job_id, outcomes=frozenset((Outcome.CONFIRMED, Outcome.UNKNOWN)))
            if result.undo and result.item in moves
        ]
        if not back:
            raise ConfigError(f"job {job_id} moved no queue that stood somewhere before: there is nothing to undo")
        return ResetOffsets(group=record.spec.group, moves=tuple[Move, ...](back), is_forced=True)

    def _over(self, job_id: str) -> None:
        run = self._runs.pop(job_id)
        run.close()
        del self._tasks[job_id]
        self._records[job_id] = run.record

    def _make_room(self) -> None:
        while len(self._records) >= KEPT_MAX:
            oldest = next((name for name, record in self._records.items() if not record.is_active), None)
            if oldest is None:
                return
            del self._records[oldest]
            JobFiles(self._folder / oldest).remove()

    # --- looking ---

    def all(self) -> list[JobRecord]:
        """Return all jobs, newest first."""
        self._refresh()
        found = [*self._records.values(), *(run.record for run in self._runs.values())]
        return sorted(found, key=lambda record: (record.created_ms, record.id), reverse=True)

    def count_running(self) -> int:
        """Count jobs of this process that run, or wait for a word."""
        return sum(run.record.is_active for run in self._runs.values())

    def get(self, job_id: str) -> JobRecord:
        """Return one job. Raises NoSuchJobError."""
        run = self._runs.get(job_id)
        record = run.record if run is not None else self._records.get(job_id)
        if record is None or (run is None and record.is_active):
            self._refresh()
            record = self._records.get(job_id)
        if record is None:
            raise NoSuchJobError(f"there is no job {job_id[:80]}: it has expired or never existed")
        return record

    def run_of(self, job_id: str) -> JobRun | None:
        """Return the run of a job that is under way in this process."""
        return self._runs.get(job_id)

    async def changed(self, job_id: str) -> None:
        """Wait until a job that runs here changes; jobs of other processes have to be looked at again."""
        if (run := self._runs.get(job_id)) is not None:
            await run.changed.wait()

    def ask(self, job_id: str, what: str) -> JobRecord:
        """``pause``, ``resume``, ``go`` or ``cancel``. Raises NoSuchJobError, ConfigError."""
        record = self.get(job_id)
        run = self._runs.get(job_id)
        if run is not None:
            run.ask(what)
            return run.record
        if what not in record.allowed():
            raise ConfigError(
                f"job {job_id} is {record.state.value}: it cannot {what} {'now' if record.is_active else 'any more'}"
            )
        JobFiles(self._folder / job_id).ask(what)
        return record

    def results(
        self, job_id: str, *, skip: int = 0, count_max: int = 0, outcomes: frozenset[Outcome] | None = None
    ) -> Iterator[ItemResult]:
        """What became of the items, in order. Raises NoSuchJobError."""
        self.get(job_id)
        return JobFiles(self._folder / job_id).results(skip=skip, count_max=count_max, outcomes=outcomes)

    async def page_of_results(
        self, job_id: str, *, skip: int = 0, count_max: int = 100, outcomes: frozenset[Outcome] | None = None
    ) -> list[ItemResult]:
        """Some of them, read on a thread: results may be long. Raises NoSuchJobError."""
        found = self.results(job_id, skip=skip, count_max=count_max, outcomes=outcomes)
        return await asyncio.to_thread(list, found)

    async def wait(self, job_id: str) -> JobRecord:
        """Until a job is over. Raises NoSuchJobError."""
        if (task := self._tasks.get(job_id)) is not None:
            await asyncio.wait([task])
        return self.get(job_id)


def describe(spec: JobSpec) -> str:
    return f"{spec.title}: {spec.text()}"
