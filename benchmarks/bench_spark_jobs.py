"""Jobs of the pipeline beside each other: archives by both writers, stores read with and without their broker.

    python -m benchmarks.bench_spark_jobs [messages]
    python -m benchmarks.bench_spark_jobs resend [messages] [lane]

Messages have 1 KiB, and the broker runs on the same machine. An archive is a whole run, the start of its query and the
names of its files included. ``spark_bench`` says how CPU is counted.

``resend``: replays and redrives from the driver and from executors, whole runs with their looks for what was sent
before; messages of 1 KiB.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench_spark import BODY
from benchmarks.measure import machine
from benchmarks.spark_bench import (
    SEND_BATCH,
    TICKS,
    TOPIC,
    bench_session,
    broker,
    cpu_of,
    cpu_of_work,
    fill,
    print_figure,
)
from pyromq import Admin

ROUNDS = 5
FEW = "few"
TASKS, SPARKS, THROUGH_BROKER, FROM_FILES, ALL_THROUGH_BROKER, ALL_FROM_FILES = (
    *("archive, written in tasks", "archive, Spark's writer"),
    *("12 columns through the broker", "the same from store files"),
    *("19 columns through the broker", "those from store files"),
)
STARTS = {TASKS: "a few, written in tasks", SPARKS: "a few, Spark's writer"}
BESIDE = {  # what each is compared with, and the goal
    TASKS: (SPARKS, "≥ 2 ×"), FROM_FILES: (THROUGH_BROKER, "≥ 1.3 ×"), ALL_FROM_FILES: (ALL_THROUGH_BROKER, "≥ 1.3 ×"),
}  # fmt: skip


def main() -> None:
    from pyromq.pipeline import read_store
    from pyromq.pipeline.jobs import ArchiveWriterKind, Selection, archive

    count = (int(sys.argv[1]) if len(sys.argv) > 1 else 600_000) // SEND_BATCH * SEND_BATCH
    print(machine())
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as name, broker(Path(name)) as (nameserver, _):
        folder, made = Path(name), iter(range(1_000_000))
        fill(nameserver, count)
        fill(nameserver, SEND_BATCH, FEW)
        spark = bench_session()

        def archived(writer: ArchiveWriterKind, topic: str = TOPIC) -> int:
            group, selection = f"bench-{next(made)}", Selection(topics=(topic,), nameserver=nameserver)
            done = archive(spark, selection, str(folder / group), group=group, writer=writer)
            assert done.messages == (count if topic == TOPIC else SEND_BATCH), f"{done.messages} of {count} messages"
            return done.messages

        def counted(frame: Any) -> int:
            frame.write.format("noop").mode("overwrite").save()
            return count

        cases: dict[str, Callable[[], int]] = {
            TASKS: lambda: archived(ArchiveWriterKind.TASK),
            SPARKS: lambda: archived(ArchiveWriterKind.SPARK),
            STARTS[TASKS]: lambda: archived(ArchiveWriterKind.TASK, FEW),
            STARTS[SPARKS]: lambda: archived(ArchiveWriterKind.SPARK, FEW),
            THROUGH_BROKER: lambda: counted(_read(spark, nameserver, BODY)),
            FROM_FILES: lambda: counted(read_store(spark, _store(folder), topics=[TOPIC], columns=BODY)),
            ALL_THROUGH_BROKER: lambda: counted(_read(spark, nameserver)),
            ALL_FROM_FILES: lambda: counted(read_store(spark, _store(folder), topics=[TOPIC])),
        }
        _print(_measured(spark, folder, cases), count)
        spark.stop()


def _measured(spark: Any, folder: Path, cases: dict[str, Callable[[], int]]) -> dict[str, tuple[float, float]]:
    """Best rate and least CPU of each. In turns, so that a busy minute of the machine spoils no case alone."""
    found: dict[str, list[tuple[float, float]]] = {title: [] for title in cases}
    for turn in range(ROUNDS + 1):
        for title, work in cases.items():
            taken = cpu_of_work(spark, work)
            for archive in folder.glob("bench-*"):  # gigabytes that wait for the disk slow down those who write next
                shutil.rmtree(archive)
            if turn:  # the first is for the JVM to compile
                found[title].append(taken)
    return {title: (max(rate for rate, _ in some), min(us for _, us in some)) for title, some in found.items()}


def _print(found: dict[str, tuple[float, float]], count: int) -> None:
    print(f"\n{'':32} {'messages/s':>12} {'CPU µs':>8}")
    for title, (rate, us) in found.items():
        print(f"  {title:30} {rate:12,.0f} {us:8.2f}")
    for title, (other, goal) in BESIDE.items():
        print_figure(f"{title} / {other}", f"{found[title][0] / found[other][0]:.2f} × the rate", goal)
    seconds = {title: count / found[title][0] - SEND_BATCH / found[few][0] for title, few in STARTS.items()}
    print_figure(
        "both archives without the start of a query", f"{seconds[SPARKS] / seconds[TASKS]:.2f} × the rate", "≥ 2 ×"
    )


# --- sent again ---


def resend(count: int, lane: str) -> None:
    """Replays with and without a name, and redrives, from executors; a tenth of it from the driver."""
    from pyromq.pipeline.jobs import Selection, redrive, replay
    from pyromq.pipeline.jobs.resending import executors

    count = count // SEND_BATCH * SEND_BATCH
    few = count // 10 // SEND_BATCH * SEND_BATCH
    print(machine(), f"lane {lane}, load {os.getloadavg()[0]:.1f}", sep="; ")
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as name, broker(Path(name)) as (nameserver, pid):
        fill(nameserver, count)
        fill(nameserver, few, FEW)
        with Admin(nameserver) as admin:
            for topic in ("to", "named", "revived"):
                admin.topics.create(topic, queues=8)
        spark = bench_session()
        spark.conf.set("spark.pyromq.lane", lane)

        def replayed(topic: str, to: str, run: str = "") -> int:
            done = replay(spark, Selection(topics=(topic,), nameserver=nameserver), to, name=run, dry_run=False)
            assert done.sent + done.sent_before == done.found > 0, done
            return done.found

        def redriven(group: str, dead: int) -> Callable[[], int]:
            _bury(nameserver, group, dead)

            def work() -> int:
                done = redrive(spark, group, nameserver=nameserver, dry_run=False)
                assert (done.found, done.sent) == (dead, dead), done.found
                return dead

            return work

        runs: dict[str, Callable[[], int]] = {
            "the first, for the JVM to compile": lambda: replayed(TOPIC, "to"),
            "replay": lambda: replayed(TOPIC, "to"),
            "replay under a name": lambda: replayed(TOPIC, "named", "bench"),
            "the same again: all is there": lambda: replayed(TOPIC, "named", "bench"),
            "redrive": redriven("dead", count // 2),
        }
        print(f"\n{'from executors':34} {'messages/s':>12} {'CPU µs':>8} {'driver':>8} {'broker':>8}")
        _print_runs(spark, pid, runs)
        vars(executors)["FEW"] = 1 << 62
        print(f"{'from the driver':34} {'messages/s':>12} {'CPU µs':>8} {'driver':>8} {'broker':>8}")
        driver = {"replay": lambda: replayed(FEW, "to"), "replay under a name": lambda: replayed(FEW, "named", "few")}
        _print_runs(spark, pid, {**driver, "redrive": redriven("dead-few", few)})
        spark.stop()


def _print_runs(spark: Any, broker_pid: int, runs: dict[str, Callable[[], int]]) -> None:
    """CPU of JVM and workers, and of this process, which the driver's Python is."""
    for title, work in runs.items():
        own, theirs = time.process_time(), cpu_of(broker_pid)
        rate, us = cpu_of_work(spark, work)
        own, theirs = time.process_time() - own, (cpu_of(broker_pid) - theirs) / TICKS
        print(
            f"  {title:32} {rate:12,.0f} {us:8.1f} {own:6.1f} s {theirs:6.1f} s   load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


def _bury(nameserver: str, group: str, count: int) -> None:
    """Dead letters as brokers make them."""
    import pyarrow as pa

    from pyromq.model.names import dead_letter_topic
    from pyromq.operate.resend.outcomes import ItemStatus
    from pyromq.pipeline.jobs.resending.batches import CopyBatchSender
    from pyromq.pipeline.jobs.resending.packed import PackedRows

    dead = dead_letter_topic(group)
    with Admin(nameserver) as admin:
        admin.groups.create(group)
        admin.topics.create(dead, queues=2)
    letters = pa.record_batch(
        {
            "message_id": [f"{group}-{number}" for number in range(count)],
            "offset_message_id": [f"{group}-{number}" for number in range(count)],
            "keys": pa.nulls(count, pa.string()), "tags": pa.nulls(count, pa.string()),
            "flag": pa.nulls(count, pa.int32()),
            "properties": pa.array([[]] * count, pa.map_(pa.string(), pa.string())),
            "body": pa.array([bytes(1024)] * count, pa.binary()),
        }
    )  # fmt: skip
    packed = PackedRows(letters, Buried(dead), frozenset())
    sent = CopyBatchSender(nameserver, {}).send_rows([packed], Buried(dead), says_places=False)
    assert sum(each.status is ItemStatus.SENT for each in sent) == count


@dataclass(frozen=True)
class Buried:
    """Makes dead letters of rows."""

    dead: str
    is_checked = False
    mark_names = ("RETRY_TOPIC",)

    def __call__(self, row: Any) -> Any:
        raise RuntimeError(f"not a letter: {row}")

    def mark(self, place: str, origin: str) -> Any:
        from pyromq.pipeline.jobs.resending.packed import CopyMark

        return CopyMark(self.dead, place, (("RETRY_TOPIC", "revived"),))


def _read(spark: Any, nameserver: str, schema: str = "") -> Any:
    reader = spark.read.format("pyromq").options(nameserver=nameserver, topic=TOPIC)
    return (reader.schema(schema) if schema else reader).load()


def _store(folder: Path) -> Path:
    """The folder with the log in it."""
    return next((folder / "data").rglob("commitlog")).parent


if __name__ == "__main__":
    if sys.argv[1:2] == ["resend"]:
        resend(int(sys.argv[2]) if len(sys.argv) > 2 else 200_000, sys.argv[3] if len(sys.argv) > 3 else "auto")
    else:
        main()
