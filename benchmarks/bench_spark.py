"""Topic → Spark → no-op sink and Parquet: rows per second of the best batch, CPU µs per row of JVM and Python workers.

``python -m benchmarks.bench_spark [messages]``. Two queues on two partitions, 1 KiB bodies, 200 000 rows a batch, a
broker with default settings in a process of its own whose files are in page cache. ``spark_bench`` says how CPU is
counted. Then the same number of rows from a topic that holds no more, and from the end of one with ten times as many.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import machine
from benchmarks.spark_bench import (
    TOPIC,
    Taken,
    bench_session,
    broker,
    cheapest,
    cpu_of_work,
    fill,
    print_figure,
    print_head,
    print_taken,
    watched,
)
from pyromq.model.queue import QueueId

BATCH = 200_000
ROUNDS = 3
HEAD = (
    "topic string, queue_id int, queue_offset bigint, born_time timestamp, store_time timestamp, delivery_attempt int"
)
BODY = f"{HEAD}, flag int, sys_flag int, body_crc int, commit_log_offset bigint, properties string, body binary"


class Case(NamedTuple):
    name: str
    schema: str = ""
    options: Mapping[str, str] = {}
    goal_us: float | None = None
    to_parquet: bool = False


CASES = (
    Case("12 columns with bodies", BODY, goal_us=5.5),
    Case("6 columns, no bodies", HEAD, goal_us=2.0),
    Case("all 19 columns, properties raw", options={"properties": "raw"}),
    Case("all 19 columns, properties map"),
    Case("12 columns → Parquet, Spark's", BODY, goal_us=8.0, to_parquet=True),
    Case("all 19 → Parquet, Spark's", to_parquet=True),
)
RATE_GOAL = 400_000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 600_000
    print(machine())
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as name, broker(Path(name)) as (nameserver, pid):
        queues = fill(nameserver, count)
        fill(nameserver, count // 10, "short")
        spark = bench_session()
        folder = Path(name)
        _sources(spark, nameserver, pid, folder, min(BATCH, count // 3))
        _history(spark, nameserver, queues, count)
        spark.stop()


def _sources(spark: Any, nameserver: str, broker_pid: int, folder: Path, batch: int) -> None:
    rounds: list[list[Taken]] = [[] for _ in CASES]
    for turn in range(ROUNDS + 1):  # in turns, so that a busy minute of the machine spoils no case alone
        for number, case in enumerate(CASES):
            taken = run(spark, nameserver, broker_pid, folder / f"{number}-{turn}", case, batch)
            if turn:  # the first is for the JVM to compile
                rounds[number].append(taken)
    print_head()
    for case, some in zip(CASES, rounds, strict=True):
        print_taken(case.name, cheapest(some), case.goal_us)
    best = max(taken.best_rate for taken in rounds[0])
    print_figure("best batch with bodies, rows/s", f"{best:,.0f}", f"≥ {RATE_GOAL:,}")


def run(spark: Any, nameserver: str, broker_pid: int, folder: Path, case: Case, batch: int) -> Taken:
    from pyromq.pipeline.jobs.archiving.spark_writer import FOLDERS, PARQUET_OPTIONS, several_files_open

    def start() -> Any:
        reader = spark.readStream.format("pyromq").options(
            nameserver=nameserver, topic=TOPIC, group=f"bench-{folder.name}", startingOffsets="earliest",
            maxOffsetsPerTrigger=str(batch), **case.options,
        )  # fmt: skip
        frame = (reader.schema(case.schema) if case.schema else reader).load()
        if case.to_parquet:
            writing = frame.selectExpr("*", *FOLDERS).writeStream.format("parquet").options(**PARQUET_OPTIONS)
            writing = writing.partitionBy("topic", "date", "hour").option("path", str(folder / "files"))
        else:
            writing = frame.writeStream.format("noop")
        return writing.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()

    with several_files_open(spark):
        taken = watched(spark, broker_pid, start)
    shutil.rmtree(folder)
    return taken


def _history(spark: Any, nameserver: str, queues: list[QueueId], count: int) -> None:
    """Batch reads of as many rows, from a short topic and from the end of a long one."""
    wanted = count // 10 // len(queues)
    at_end = {TOPIC: {queues[0].broker: {str(queue.number): count // len(queues) - wanted for queue in queues}}}

    def reading(topic: str, start: str) -> int:
        reader = spark.read.format("pyromq").options(nameserver=nameserver, topic=topic, startingOffsets=start)
        reader.schema(BODY).load().write.format("noop").mode("overwrite").save()
        return wanted * len(queues)

    short: list[float] = []
    long: list[float] = []
    for _ in range(2 * ROUNDS):
        short.append(cpu_of_work(spark, lambda: reading("short", "earliest"))[1])
        long.append(cpu_of_work(spark, lambda: reading(TOPIC, json.dumps(at_end)))[1])
    told = f"{min(long):.2f} / {min(short):.2f} = {min(long) / min(short):.2f}"
    print_figure("CPU µs per row at the end of 10 × the history", told, "1, within what machines swing")


if __name__ == "__main__":
    main()
