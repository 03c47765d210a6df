"""What the benchmarks of the pipeline share: a broker with messages, a session, and CPU per row of a query.

CPU is user and system time of the JVM and its Python workers together, as ``/proc`` has it; what the driver's Python
process and the broker take is left out, and the broker shown beside. The first batch of a query starts processes and is
not counted, nor is a first query of each kind, for which the JVM compiles code. Of several rounds the cheapest counts,
and the fastest batch of all.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pyromq import Admin, Message, aio
from pyromq.errors import TopicNotFoundError
from pyromq.model.queue import QueueId
from pyromq.testing import ServerProcess

TOPIC = "orders"
QUEUES = 2
BODY_BYTES = 1024
SEND_BATCH = 64
TICKS = os.sysconf("SC_CLK_TCK")
HEAP = "700m"  # of Spark's JVM: with code and threads it stays below 1 GB
_LOOK_S = 0.05


class Taken(NamedTuple):
    rows: int
    best_rate: float
    jvm_us: float
    python_us: float
    broker_us: float

    @property
    def us(self) -> float:
        return self.jvm_us + self.python_us


# --- Spark ---


def bench_session() -> Any:
    from pyromq.pipeline import session

    settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": HEAP}
    return session("local[2]", "pyromq", **settings)


def watched(spark: Any, broker_pid: int, start: Callable[[], Any]) -> Taken:
    """Of a query that ends by itself."""
    jvm = jvm_of(spark)
    query = start()
    seen: dict[int, tuple[int, int, int]] = {}  # by batch: ticks of JVM, workers and broker when it was done
    workers: dict[int, int] = {}  # the last that was known of each, for workers end and take their ticks along
    while query.isActive:
        workers |= {pid: ticks for pid in below(jvm) if (ticks := cpu_of(pid))}
        last = query._jsq.lastProgress()  # PySpark's own would turn all of it into objects, at the JVM's cost
        if last is not None and last.batchId() not in seen:
            seen[last.batchId()] = cpu_of(jvm), sum(workers.values()), cpu_of(broker_pid)
        time.sleep(_LOOK_S)
    query.awaitTermination()
    batches = {each.batchId: each for each in query.recentProgress if each.numInputRows}
    first, last_one = min(seen), max(number for number in seen if number in batches)
    rows = sum(batches[number].numInputRows for number in batches if first < number <= last_one)
    if not rows:
        raise RuntimeError(f"{len(batches)} batches are too few to count any: take more messages")
    best = max(each.numInputRows / each.durationMs["triggerExecution"] * 1000 for each in batches.values())
    pairs = zip(seen[first], seen[last_one], strict=True)
    return Taken(rows, best, *((late - early) / TICKS * 1e6 / rows for early, late in pairs))


def cheapest(rounds: list[Taken]) -> Taken:
    """With the rate of the fastest."""
    return min(rounds, key=lambda taken: taken.us)._replace(best_rate=max(taken.best_rate for taken in rounds))


def cpu_of_work(spark: Any, work: Callable[[], int]) -> tuple[float, float]:
    """Rows per second and CPU µs per row of something that returns when it is done; it says how many rows it had."""
    jvm = jvm_of(spark)
    ticks, begun = cpu_of_all(jvm), time.perf_counter()
    rows = work()
    taken = time.perf_counter() - begun
    return rows / taken, (cpu_of_all(jvm) - ticks) / TICKS * 1e6 / rows


def jvm_of(spark: Any) -> int:
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


def cpu_of(pid: int, *, with_ended: bool = False) -> int:
    """Ticks of a process, without its children; or with those that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11 : 15 if with_ended else 13]))


def cpu_of_all(pid: int) -> int:
    """Ticks of a process and all its descendants, the ended ones included."""
    return sum(cpu_of(each, with_ended=True) for each in (pid, *below(pid)))


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


# --- the table ---

_HEAD = f"\n{'':34} {'best rows/s':>12} {'JVM µs':>8} {'Python µs':>10} {'together':>9} {'goal':>8} {'broker µs':>10}"


def print_head() -> None:
    print(_HEAD)


def print_taken(name: str, taken: Taken, goal_us: float | None = None) -> None:
    goal = f"≤ {goal_us:g}" if goal_us is not None else ""
    spent = f"{taken.jvm_us:8.2f} {taken.python_us:10.2f} {taken.us:9.2f} {goal:>8} {taken.broker_us:10.2f}"
    print(f"  {name:32} {taken.best_rate:12,.0f} {spent}", flush=True)


def print_figure(name: str, measured: str, goal: str) -> None:
    print(f"  {name:52} {measured:>22}   goal {goal}", flush=True)


# --- the broker and its messages ---


@contextmanager
def broker(folder: Path, *more: str) -> Iterator[tuple[str, int]]:
    """Its name server and the number of its process; ``more`` are options of ``pyromq up``."""
    with ServerProcess("up", *more, data=folder / "data") as server:
        yield server.nameserver, server.pid
        server.stop()


def fill(nameserver: str, count: int, topic: str = TOPIC) -> list[QueueId]:
    """Messages with bodies that differ, in two queues."""
    begun = time.perf_counter()
    queues = made_topic(nameserver, topic)
    asyncio.run(_send(nameserver, topic, queues, count))
    print(f"{count:,} messages sent to {topic} in {time.perf_counter() - begun:.1f} s")
    return queues


def made_topic(nameserver: str, topic: str) -> list[QueueId]:
    with Admin(nameserver) as admin:
        admin.topics.create(topic, queues=QUEUES)
        while not (queues := _queues(admin, topic)):
            time.sleep(0.01)  # brokers tell name servers of a new topic a moment later
    return queues


def _queues(admin: Admin, topic: str) -> list[QueueId]:
    try:
        return admin.topics.route(topic).readable_queues(topic)
    except TopicNotFoundError:
        return []


async def _send(nameserver: str, topic: str, queues: list[QueueId], count: int) -> None:
    random = Random(1)
    sets = [  # were all bodies the same, writers of files would keep one
        [Message(topic, random.randbytes(BODY_BYTES), tags="paid", keys=(f"order-{n}",)) for n in range(SEND_BATCH)]
        for _ in range(32)
    ]
    async with aio.Producer(nameserver, group="bench") as producer:
        for begin in range(0, count, SEND_BATCH * 32):
            left = min(32, -(-(count - begin) // SEND_BATCH))
            await asyncio.gather(
                *(producer.send_batch(sets[number], queue=queues[number % len(queues)]) for number in range(left))
            )
