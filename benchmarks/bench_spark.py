"""Topic → Spark → no-op sink: rows per second of the best batch, CPU µs per row of JVM and Python workers.

``python -m benchmarks.bench_spark [messages]``. Two queues on two partitions, 1 KiB bodies, 200 000 rows a batch, a
broker with default settings in a process of its own whose files are in page cache; its CPU is shown beside. A first
query warms up JVM and workers and is not counted, nor is the first batch of each: it starts processes.
CPU is the median of three rounds, the rate that of their fastest batch.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from subprocess import PIPE, Popen
from typing import Any, NamedTuple

from benchmarks.measure import machine
from pyromq import Admin, Message, TopicNotFoundError, aio
from pyromq.model.queue import QueueId

TOPIC = "orders"
QUEUES = 2
BATCH = 200_000
SEND_BATCH = 64
TICKS = os.sysconf("SC_CLK_TCK")
HEAD = (
    "topic string, queue_id int, queue_offset bigint, born_time timestamp, store_time timestamp, delivery_attempt int"
)
BODY = f"{HEAD}, flag int, sys_flag int, body_crc int, commit_log_offset bigint, properties string, body binary"
CASES = (
    ("12 columns with bodies", BODY, {}),
    ("6 columns, no bodies", HEAD, {}),
    ("all 19 columns, properties raw", "", {"properties": "raw"}),
    ("all 19 columns, properties map", "", {}),
)


class Taken(NamedTuple):
    rows: int
    best_rate: float
    jvm_us: float
    python_us: float
    broker_us: float


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 600_000
    print(machine())
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder, broker(Path(folder)) as (nameserver, pid):
        fill(nameserver, count)
        from pyromq.pipeline import session

        spark = session(
            "local[2]", **{"spark.ui.enabled": False, "spark.log.level": "OFF", "spark.driver.memory": "2g"}
        )
        run(spark, nameserver, pid, Path(folder) / "warm", BODY, {})
        print(f"\n{'':32} {'best rows/s':>12} {'JVM µs':>8} {'Python µs':>10} {'together':>9} {'broker µs':>10}")
        for number, (name, schema, options) in enumerate(CASES):
            rounds = [
                run(spark, nameserver, pid, Path(folder) / f"{number}-{turn}", schema, options) for turn in (1, 2, 3)
            ]
            best = sorted(rounds, key=lambda taken: taken.jvm_us + taken.python_us)[1]  # the median
            rate = max(taken.best_rate for taken in rounds)
            both = best.jvm_us + best.python_us
            spent = f"{best.jvm_us:8.2f} {best.python_us:10.2f} {both:9.2f} {best.broker_us:10.2f}"
            print(f"  {name:30} {rate:12,.0f} {spent}")
        spark.stop()


def run(spark: Any, nameserver: str, broker_pid: int, checkpoint: Path, schema: str, options: dict[str, str]) -> Taken:
    reader = spark.readStream.format("pyromq").options(
        nameserver=nameserver, topic=TOPIC, group=f"bench-{checkpoint.name}", startingOffsets="earliest",
        maxOffsetsPerTrigger=str(BATCH), **options,
    )  # fmt: skip
    frame = (reader.schema(schema) if schema else reader).load()
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    started = query.start()
    seen: list[tuple[int, int, int, int]] = []  # rows so far, ticks of JVM, workers and broker
    workers: dict[int, int] = {}  # the last that was known of each, for workers end and take their ticks along
    while started.isActive:
        workers |= {pid: ticks for pid in below(jvm) if (ticks := cpu_of(pid))}
        batches = [each for each in started.recentProgress if each.numInputRows]
        rows = sum(each.numInputRows for each in batches)
        if batches and (not seen or rows > seen[-1][0]):
            seen.append((rows, cpu_of(jvm), sum(workers.values()), cpu_of(broker_pid)))
        time.sleep(0.02)
    started.awaitTermination()
    best = max(each.numInputRows / each.durationMs["triggerExecution"] * 1000 for each in started.recentProgress)
    counted = seen[-1][0] - seen[0][0]  # the first batch starts processes
    spent = [(late - early) / TICKS * 1e6 / counted for early, late in zip(seen[0][1:], seen[-1][1:], strict=True)]
    return Taken(counted, best, *spent)


def cpu_of(pid: int) -> int:
    """Ticks of a process, without its children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:13]))


def below(pid: int) -> list[int]:
    """All descendants."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(folder.name))
    found, todo = [], [pid]
    while todo:
        todo += (ours := children.get(todo.pop(), []))
        found += ours
    return found


@contextmanager
def broker(folder: Path) -> Iterator[tuple[str, int]]:
    command = (sys.executable, "-m", "pyromq", "up", "--no-console", "--data", str(folder / "data"))
    process = Popen([*command, "--nameserver-port", "0", "--broker-port", "0"], stdout=PIPE, text=True)
    assert process.stdout is not None
    try:
        ready = dict(part.split("=") for part in process.stdout.readline().split()[1:])
        yield ready["nameserver"], process.pid
    finally:
        process.terminate()
        process.wait()


def fill(nameserver: str, count: int) -> None:
    begun = time.perf_counter()
    with Admin(nameserver) as admin:
        admin.create_topic(TOPIC, queues=QUEUES)
        while not (queues := _queues(admin)):
            time.sleep(0.01)  # brokers tell name servers of a new topic a moment later
    asyncio.run(_send(nameserver, queues, count))
    print(f"{count:,} messages sent in {time.perf_counter() - begun:.1f} s")


def _queues(admin: Admin) -> list[QueueId]:
    try:
        return admin.route(TOPIC).readable_queues(TOPIC)
    except TopicNotFoundError:
        return []


async def _send(nameserver: str, queues: list[QueueId], count: int) -> None:
    body = Random(1).randbytes(1024)
    messages = [Message(TOPIC, body, tags="paid", keys=("order-1",)) for _ in range(SEND_BATCH)]
    async with aio.Producer(nameserver, group="bench") as producer:
        for begin in range(0, count, SEND_BATCH * 32):
            left = min(32, -(-(count - begin) // SEND_BATCH))
            await asyncio.gather(
                *(producer.send_batch(messages, queue=queues[number % len(queues)]) for number in range(left))
            )


if __name__ == "__main__":
    main()
