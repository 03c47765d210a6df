"""Delayed messages: how late they come, and what they cost the broker. The broker is a process of its own.

    python -m benchmarks.bench_delays              20 000 timers over 12 s, then 20 000 messages of level 1
    python -m benchmarks.bench_delays 100000 60    so many over so many seconds

Lateness is the store time of the delivered record against the time the message asked for; messages have 100 bytes and
are flushed synchronously. CPU is the broker's, user and system, all its threads, between two moments when it is idle.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from benchmarks.measure import machine
from pyromq import aio
from pyromq.broker.base.settings import BrokerSettings
from pyromq.clock import SystemClock
from pyromq.net import Address, open_connection
from pyromq.store.message_store import MessageStore
from pyromq.store.settings import StoreSettings
from pyromq.testing import LoopbackBroker
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import bodies
from pyromq.wire.json.java_json import decode
from pyromq.wire.properties import find_property
from pyromq.wire.record import decode_record

BODY = b"x" * 100
IN_FLIGHT = 64
WARM_UP = 2_000  # messages whose sending tells how long that of all others will take
STORE = StoreSettings(full_percent=100)


async def serve(folder: str) -> None:
    async with LoopbackBroker(BrokerSettings(store=STORE), folder=Path(folder)) as broker:
        print(broker.nameserver, broker.address, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


class Servers(NamedTuple):
    nameserver: str
    broker: str
    pid: int

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def servers(folder: str) -> Iterator[Servers]:
    command = [sys.executable, "-m", "benchmarks.bench_delays", "serve", folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        nameserver, broker = process.stdout.readline().split()
        yield Servers(nameserver, broker, process.pid)
        process.stdin.close()


async def told(broker: str) -> dict[str, str]:
    connection = await open_connection(Address.parse(broker), clock=SystemClock())
    response = await connection.request(RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=5_000)
    connection.close()
    await connection.wait_closed()
    return decode(response.body, bodies.KeyValues).table


async def send_all(nameserver: str, messages: list[aio.Message]) -> None:
    async with aio.Producer(nameserver, group="makers") as producer:
        waiting = iter(messages)

        async def sender() -> None:
            for message in waiting:
                await producer.send(message, timeout_ms=30_000)

        await asyncio.gather(*(sender() for _ in range(IN_FLIGHT)))


async def until_done(broker: str, key: str) -> None:
    pending = ""
    while pending != "0":
        await asyncio.sleep(0.5)
        pending = (await told(broker))[key]


def lateness_ms(folder: str, topic: str) -> list[int]:
    """Of every delivered message, in order of size; of levels against the store time of the waiting record."""
    found = []
    with MessageStore.open(Path(folder), STORE) as store:
        waited: dict[bytes, int] = {}
        for (name, _), queue in store.queues.items():
            if name == "SCHEDULE_TOPIC_XXXX":
                for offset in range(queue.end):
                    entry = queue.entry(offset)
                    waiting = store.records.verify(entry.position)
                    waited[find_property(waiting.properties, b"UNIQ_KEY") or b""] = entry.tag_hash
        for (name, _), queue in store.queues.items():
            for offset in range(queue.end if name == topic else 0):
                entry = queue.entry(offset)
                record = decode_record(store.records.bytes_at(entry.position, entry.size))
                due = find_property(record.properties, b"TIMER_OUT_MS")
                key = find_property(record.properties, b"UNIQ_KEY") or b""
                if due or key in waited:  # else it was sent too late to wait
                    found.append(record.stored_ms - (int(due) if due else waited[key]))
    return sorted(found)


def report(name: str, late: list[int], cpu: dict[str, float]) -> None:
    count = len(late)
    percentiles = f"p50 {late[count // 2]} ms, p99 {late[count * 99 // 100]} ms, max {late[-1]} ms"
    costs = ", ".join(f"{what} {seconds / count * 1e6:.1f} µs" for what, seconds in cpu.items())
    print(f"  {name}: {count:,} delivered, late by {percentiles}; broker CPU each: {costs}", flush=True)


async def run(name: str, topic: str, counter: str, count: int, make: Callable[[int, int], aio.Message]) -> None:
    """``make`` is told the number of a message, and when sending will be over."""
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as folder:
        with servers(folder) as there:
            began = time.perf_counter()
            await send_all(there.nameserver, [aio.Message("warm-up", BODY)] * WARM_UP)
            sending_s = (
                time.perf_counter() - began
            ) / WARM_UP * count * 1.5 + 2  # half more: nothing may be due before
            sent_ms = int((time.time() + sending_s) * 1_000)
            before = there.cpu_s()
            await send_all(there.nameserver, [make(number, sent_ms) for number in range(count)])
            sent = there.cpu_s()
            await until_done(there.broker, counter)
            done = there.cpu_s()
        report(name, lateness_ms(folder, topic), {"sending": sent - before, "waiting and delivery": done - sent})


async def timers(count: int, seconds: float) -> None:
    def make(number: int, sent_ms: int) -> aio.Message:
        return aio.Message("timed", BODY, deliver_at_ms=sent_ms + int(number * seconds * 1_000 / count))

    await run(f"timers over {seconds:g} s", "timed", "timersPending", count, make)


async def level(count: int) -> None:
    def make(number: int, sent_ms: int) -> aio.Message:
        return aio.Message("levelled", BODY, delay_level=1)

    await run("level 1, as fast as they come", "levelled", "delayLevelsPending", count, make)


def main(arguments: list[str]) -> None:
    work: list[Awaitable[Any]]
    if arguments[:1] == ["serve"]:
        work = [serve(arguments[1])]
    else:
        print(machine())
        print((__doc__ or "").partition("\n")[0])
        count, seconds = int((arguments or ["20000"])[0]), float((arguments[1:] or ["12"])[0])
        work = [timers(count, seconds), level(count)]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for each in work:
            runner.run(each)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1:])
