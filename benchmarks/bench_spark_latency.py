"""What small things take: a micro-batch of two rows, the way of a message to the sink; and the driver's memory.

``python -m benchmarks.bench_spark_latency``. A broker with default settings on the same machine, two queues and so two
partitions. The batch is what Spark calls ``triggerExecution``, into a no-op sink, without ``latestOffset``: there the
source waits for messages. The way of a message begins before it
is sent and ends in a function of the driver that has it (``foreachBatch`` with ``collect``), 20 messages a second.
Memory is that of the process that plans a query, and of the JVM's heap after a collection, after some batches of a
query with little before it and of one with ten times as much.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.measure import machine
from benchmarks.spark_bench import below, bench_session, broker, fill, jvm_of, made_topic, print_figure
from pyromq import Message, Producer
from pyromq.model.queue import QueueId

BATCHES, BATCHES_WARM = 60, 35
MESSAGES, MESSAGES_WARM = 400, 100
PAUSE_S = 0.05
BACKLOG = 30_000
BATCH_GOAL_MS = WAY_GOAL_MS = 110


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as name, broker(Path(name)) as (nameserver, _):
        fill(nameserver, BACKLOG, "short")
        fill(nameserver, 10 * BACKLOG, "long")
        spark = bench_session()
        print()
        small_batches(spark, nameserver, Path(name))
        ways(spark, nameserver, Path(name))
        _memory(spark, nameserver, Path(name))
        spark.stop()


def small_batches(spark: Any, nameserver: str, folder: Path, topic: str = "small") -> None:
    queues = made_topic(nameserver, topic)
    rows = _reader(spark, nameserver, topic, startingOffsets="earliest").load()
    with (
        _running(rows.writeStream.format("noop"), folder / topic) as query,
        Producer(nameserver, group="bench") as producer,
    ):
        for number in range(BATCHES):
            for queue in queues:
                producer.send(Message(topic, b"x"), queue=queue)
            _wait(lambda end=number: _rows(query) > end * len(queues))
        batches = [each for each in query.recentProgress if each.numInputRows]  # one of two rows may come by itself
    durations = [each.durationMs for each in batches]
    counted = [taken["triggerExecution"] - taken["latestOffset"] for taken in durations][BATCHES_WARM:]
    told = f"{median(counted):.0f} ms (least {min(counted)})"
    print_figure("micro-batch of 1 or 2 rows, 2 queues, median", told, f"≤ {BATCH_GOAL_MS} ms")


def ways(spark: Any, nameserver: str, folder: Path, topic: str = "ways") -> None:
    queues = made_topic(nameserver, topic)
    taken_ms: list[float] = []

    def arrived(frame: Any, _: int) -> None:
        bodies = [row["body"] for row in frame.collect()]
        now = time.perf_counter_ns()
        taken_ms.extend((now - int(body)) / 1e6 for body in bodies)

    rows = _reader(spark, nameserver, topic, startingOffsets="earliest").schema("body binary").load()
    with (
        _running(rows.writeStream.foreachBatch(arrived), folder / topic),
        Producer(nameserver, group="bench") as producer,
    ):
        begun = time.perf_counter()
        for number in range(MESSAGES):
            time.sleep(max(0.0, begun + number * PAUSE_S - time.perf_counter()))
            queue: QueueId = queues[number % len(queues)]
            producer.send(Message(topic, b"%d" % time.perf_counter_ns()), queue=queue)
        _wait(lambda: len(taken_ms) == MESSAGES)
    percentiles = quantiles(taken_ms[MESSAGES_WARM:], n=100)
    told = " / ".join(f"{percentiles[at - 1]:.0f}" for at in (50, 90, 99))
    print_figure("append to sink at 20/s, p50 / p90 / p99", f"{told} ms", f"p50 ≤ {WAY_GOAL_MS} ms")


def _memory(spark: Any, nameserver: str, folder: Path) -> None:
    found = []
    for topic in ("short", "long"):
        limit = {"maxOffsetsPerTrigger": str(BACKLOG // 5)}
        rows = _reader(spark, nameserver, topic, startingOffsets="earliest", **limit).load()
        with _running(rows.writeStream.format("noop"), folder / topic) as query:
            _wait(lambda query=query: _rows(query) >= BACKLOG // 5 * 3)
            planners = [size for pid in below(jvm_of(spark)) if (size := _planner_mb(pid))]
            spark._jvm.System.gc()
            runtime = spark._jvm.Runtime.getRuntime()
            found.append((sum(planners), (runtime.totalMemory() - runtime.freeMemory()) / 1e6))
    (planner, heap), (planner_long, heap_long) = found
    told = f"{planner_long:.0f} / {planner:.0f} MB, heap {heap_long:.0f} / {heap:.0f} MB"
    print_figure("driver with 10 × the backlog / with 1 ×", told, "the same")


def _planner_mb(pid: int) -> float:
    """Resident memory of the process in which Spark asks a source for offsets; 0 for another one."""
    try:
        if b"streaming_source_runner" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            return 0.0
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) * 1024 / 1e6 for line in status.splitlines() if line.startswith("VmRSS"))


def _reader(spark: Any, nameserver: str, topic: str, **options: str) -> Any:
    return spark.readStream.format("pyromq").options(
        nameserver=nameserver, topic=topic, group=f"bench-{topic}", **options
    )


@contextmanager
def _running(writer: Any, checkpoint: Path) -> Iterator[Any]:
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


def _rows(query: Any) -> int:
    """Of all batches, by the offsets of the last one; PySpark's own progress costs the JVM much more."""
    last = query._jsq.lastProgress()
    if last is None:
        return 0
    offsets = json.loads(last.sources()[0].endOffset())
    return sum(at for brokers in offsets.values() for queues in brokers.values() for at in queues.values())


def _wait(is_done: Any, within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not is_done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing for {within_s} s")
        time.sleep(0.01)


if __name__ == "__main__":
    main()
