"""A retry storm: one message in ten fails three times before it succeeds, against the same consumer without failures.

    python -m benchmarks.bench_retries             20 000 messages of 1 KiB
    python -m benchmarks.bench_retries 100000      so many

A rate counts messages that are settled, from opening the consumer to its last success; every failure is sent back,
stored, waits 20 ms at its level and is delivered again. Listeners are coroutines, or functions on a pool of 20 threads,
and do nothing but count. CPU is per message, user and system, of the consumer's process and of the broker's. Plain and
storm read the same topic of four queues in turns, and the best of three counts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import machine
from pyromq import aio
from pyromq.client.sync.loop_thread import new_event_loop
from pyromq.settings import PushConsumerSettings
from pyromq.testing import ServerProcess

BODY = bytes(1024)
TOPIC, REPEAT, AT_ONCE = "bench", 3, 500
FAILURES, ONE_IN = 3, 10
LADDER = "broker.store.delay_ladder_ms=" + ";".join(["20"] * 18)


class Server(NamedTuple):
    pid: int
    nameserver: str

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Taken(NamedTuple):
    """What settling all messages took, in seconds."""

    wall: float
    client_cpu: float
    broker_cpu: float


@contextmanager
def server(flush: str) -> Iterator[Server]:
    with ServerProcess("up", "--flush", flush, "--set", LADDER) as process:
        yield Server(process.pid, process.nameserver)


async def fill(nameserver: str, messages: int) -> None:
    async with aio.Admin(nameserver) as admin:
        await admin.topics.create(TOPIC, queues=4)
    async with aio.Producer(nameserver, group="bench") as producer:
        for begin in range(0, messages, AT_ONCE):
            count = min(AT_ONCE, messages - begin)
            await asyncio.gather(*(producer.send(aio.Message(TOPIC, BODY)) for _ in range(count)))


class Settling:
    """A listener that counts successes; ``fails`` says whether one message in ten fails at first."""

    def __init__(self, messages: int, *, fails: bool) -> None:
        self._left, self._fails, self.failed = messages, fails, 0
        self.done, self._loop, self._lock = asyncio.Event(), asyncio.get_running_loop(), threading.Lock()

    async def consume(self, message: aio.ReceivedMessage) -> aio.ConsumeStatus:
        return self.count(message)

    def consume_on_a_thread(self, message: aio.ReceivedMessage) -> aio.ConsumeStatus:
        with self._lock:
            return self.count(message)

    def count(self, message: aio.ReceivedMessage) -> aio.ConsumeStatus:
        attempt = message.delivery_attempt
        is_chosen = attempt < FAILURES and (attempt > 0 or message.offset % ONE_IN == 0)  # plain ones look too
        if is_chosen and self._fails:
            self.failed += 1
            return aio.ConsumeStatus.RETRY
        self._left -= 1
        if not self._left:
            self._loop.call_soon_threadsafe(self.done.set)
        return aio.ConsumeStatus.SUCCESS


async def settle(server: Server, group: str, messages: int, *, fails: bool, on_threads: bool) -> Taken:
    settling = Settling(messages, fails=fails)
    settings = PushConsumerSettings(start="earliest")
    listener: Any = settling.consume_on_a_thread if on_threads else settling.consume
    consumer = aio.PushConsumer(server.nameserver, group=group, listener=listener, settings=settings)
    consumer.subscribe(TOPIC)
    wall, client, broker = time.perf_counter(), time.process_time(), server.cpu_s()
    async with consumer:
        await settling.done.wait()
        wall, client, broker = time.perf_counter() - wall, time.process_time() - client, server.cpu_s() - broker
    expected = messages // ONE_IN * FAILURES if fails else 0
    assert abs(settling.failed - expected) <= 4 * FAILURES, f"{settling.failed} failures, not {expected}"
    return Taken(wall, client, broker)


async def compare(server: Server, messages: int, *, on_threads: bool) -> tuple[Taken, Taken]:
    taken: dict[bool, list[Taken]] = {False: [], True: []}
    for number in range(REPEAT):
        for fails in (False, True):
            group = f"bench-{number}-{fails}-{on_threads}"
            taken[fails].append(await settle(server, group, messages, fails=fails, on_threads=on_threads))
    return min(taken[False]), min(taken[True])


def show(name: str, taken: Taken, messages: int, remark: str = "") -> None:
    cpu = f"{taken.client_cpu / messages * 1e6:14.1f} {taken.broker_cpu / messages * 1e6:14.1f}"
    print(f"  {name:32} {messages / taken.wall:14,.0f} {cpu}  {remark}")


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    logging.disable(logging.WARNING)
    print(machine())
    print(f"{messages:,} messages of {len(BODY)} bytes; in a storm one in {ONE_IN} fails {FAILURES} times\n")
    print(f"{'':34} {'settled per s':>14} {'client CPU µs':>14} {'broker CPU µs':>14}")
    for flush in ("async", "sync"):
        with server(flush) as running, asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(fill(running.nameserver, messages))
            for kind in ("coroutine", "function"):
                plain, storm = runner.run(compare(running, messages, on_threads=kind == "function"))
                show(f"{flush} flush, {kind}, plain", plain, messages)
                show(f"{flush} flush, {kind}, storm", storm, messages, f"{plain.wall / storm.wall:.0%} of plain")


if __name__ == "__main__":
    main()
