"""A driver whose write behind a shuffle is begun anew, because an executor with a part of the shuffle is killed.

``python -m tests.spark.repeated_stages MASTER NAMESERVER FOLDER LANE``: writes ``ROWS`` rows to topic ``out``. Of the
three tasks of the write one kills the executor of another and fails, as it cannot fetch any more; the third has fetched
everything and goes on, slowly, beside those that Spark begins anew.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.functions import expr

from pyromq.pipeline import session
from tests.spark import repeated_stages as importable
from tests.spark.cluster_driver import WAIT_S_MAX, parent_of, tell
from tests.spark.conftest import QUICK

KILLER, PLAIN, SLOW = range(3)
ROWS = {KILLER: 6_000, PLAIN: 6_000, SLOW: 150}
BODY_BYTES = {KILLER: 2_000, PLAIN: 2_000, SLOW: 10_000}  # a batch is more than Python keeps back
BATCH_ROWS = 10
PAUSES_S = {KILLER: 0.0, PLAIN: 0.01, SLOW: 0.0}  # of a batch
KILLS_AFTER, WAITS_AFTER = 30, 3  # batches


class Acting:
    """What tasks do with their rows, beside handing them on."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context, executor = TaskContext.get(), parent_of(os.getppid())
        assert context is not None
        for number, batch in enumerate(batches):
            part = batch.column("part")[0].as_py()
            if number == 0:
                (self.folder / f"begun-{part}-{context.attemptNumber()}-{context.taskAttemptId()}").touch()
            if part == SLOW and number == WAITS_AFTER and not self.is_killed():
                (self.folder / "slow").write_text(str(executor))
                await_that(lambda: len(list(self.folder.glob(f"begun-{SLOW}-*"))) > 1)
                time.sleep(2)  # the other one has no more to wait for, and could send everything
            if part == PLAIN and number == KILLS_AFTER:
                await_that(self.is_killed)  # it is its executor
            if part == KILLER and number == KILLS_AFTER and not self.is_killed():
                await_that(lambda: (self.folder / "slow").exists())
                self._kill_another(executor)
            time.sleep(PAUSES_S[part])
            yield batch.select(["body", "unique_key"])

    def is_killed(self) -> bool:
        return (self.folder / "killed").exists()

    def _kill_another(self, executor: int) -> None:
        time.sleep(0.5)  # so that rows are on their way to the sink
        (victim,) = executors_of(parent_of(executor)) - {executor, int((self.folder / "slow").read_text())}
        (self.folder / "killed").write_text(str(victim))
        os.kill(victim, signal.SIGKILL)


def await_that(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < deadline, "another task does not begin"
        time.sleep(0.05)


def with_a_pause(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """So that every executor gets some of the tasks before the shuffle."""
    time.sleep(0.3)
    yield from batches


def executors_of(worker: int) -> set[int]:
    found = set()
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if parent_of(int(each.name)) == worker and b"ExecutorBackend" in (each / "cmdline").read_bytes():
                found.add(int(each.name))
        except OSError:  # it has ended
            continue
    return found


def main(master: str, nameserver: str, folder: str, lane: str) -> None:
    spark = session(
        master, **{
            **QUICK, "spark.driver.host": "127.0.0.1", "spark.executor.cores": 1, "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK["spark.driver.extraJavaOptions"],
            "spark.sql.adaptive.enabled": False, "spark.sql.execution.arrow.maxRecordsPerBatch": BATCH_ROWS,
            "spark.shuffle.readHostLocalDisk": False, "spark.shuffle.io.maxRetries": 0,
            "spark.scheduler.minRegisteredResourcesRatio": 1, "spark.reducer.maxSizeInFlight": "2m",
        }
    )  # fmt: skip
    hashes = spark.range(50).selectExpr("cast(pmod(hash(id), 3) as int)", "id").collect()
    ids = dict(reversed(hashes))  # by partition of the shuffle
    numbers = spark.range(0, max(ROWS.values()), 1, 6)
    parts = [
        numbers.where(f"id < {count}")
        .selectExpr(f"cast({ids[part]} as bigint) as place", f"{part} as part", f"concat('{part}:', id) as unique_key")
        .withColumn("body", expr(f"rpad(unique_key, {BODY_BYTES[part]}, ' ')"))
        for part, count in ROWS.items()
    ]
    given = parts[0].unionAll(parts[1]).unionAll(parts[2])
    rows = given.mapInArrow(importable.with_a_pause, given.schema).repartition(3, "place")
    acting = importable.Acting(folder)  # by its name, which executors can import
    acted = rows.select("part", "body", "unique_key").mapInArrow(acting, "body string, unique_key string")
    writing = acted.write.format("pyromq").mode("append").option("nameserver", nameserver).option("topic", "out")
    writing = writing.option("lane", lane).option("mode", "idempotent").option("settleTime", "200ms")
    writing.option("sinkId", "repeated").save()
    tell("written", True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:5])
