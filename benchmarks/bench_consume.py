"""Consuming, from a pull answer on the wire to the committed offset: the client's CPU per message of 1 KiB.

The broker runs in a process of its own and holds the messages in memory; a row is one group reading a topic of four
queues from its beginning. CPU is that of the client's process: its loop, and the pool's threads where listeners are
functions. Each line is measured with the compiled core and without, in turns (``modes``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from benchmarks.measure import Row
from benchmarks.modes import in_both_modes
from pyromq.client.consumer.base.settings import PullConsumerSettings, PushConsumerSettings
from pyromq.client.consumer.pull_consumer import PullConsumer
from pyromq.client.consumer.push_consumer import PushConsumer
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.producer.producer import Producer
from pyromq.client.sync.loop_thread import new_event_loop
from pyromq.model.message import Message
from pyromq.testing import ServerProcess

MESSAGES = 40_000
REPEAT = 2
BODY = bytes(1024)
TOPIC = "bench"

Consume = Callable[[str, str], Coroutine[Any, Any, tuple[float, float]]]


def rows() -> list[Row]:
    return in_both_modes("consume")


def rows_of_one_mode() -> list[Row]:
    with ServerProcess("up", "--flush", "async") as server:
        return _all_rows(server.nameserver)


def _all_rows(nameserver: str) -> list[Row]:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_fill(nameserver))
        return [
            runner.run(_best(nameserver, name, consume))
            for name, consume in (
                ("coroutine, one message", _coroutine),
                ("coroutine, one message, reads body and tags", _reading),
                ("coroutine, batches of 32", _coroutine_batches),
                ("function on the pool, one message", _function),
                ("function on the pool, batches of 32", _function_batches),
                ("orderly coroutine, batches of 32", _orderly),
                ("pull consumer, poll of 32", _poll),
                ("pull consumer, async for", _async_for),
            )
        ]


async def _fill(nameserver: str) -> None:
    async with Producer(nameserver, group="bench") as producer:
        for _ in range(MESSAGES // 500):
            await asyncio.gather(*(producer.send(Message(TOPIC, BODY, tags="TagA")) for _ in range(500)))


async def _best(nameserver: str, name: str, consume: Consume) -> Row:
    taken = [await consume(nameserver, f"bench-{abs(hash(name))}-{number}") for number in range(REPEAT)]
    cpu, wall = min(taken)
    return Row(name, cpu / MESSAGES * 1e6, MESSAGES / wall, len(BODY) * MESSAGES / wall / 1e6)


class _Count:
    """Says when all messages were seen, and what that took since the first."""

    def __init__(self) -> None:
        self.seen = 0
        self.loop = asyncio.get_running_loop()
        self.done = asyncio.Event()
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def add(self, count: int) -> None:
        self.seen += count
        if self.seen >= MESSAGES:
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self.done.set)

    def taken(self) -> tuple[float, float]:
        return time.process_time() - self.cpu, time.perf_counter() - self.wall


async def _push(
    nameserver: str, group: str, make: Callable[[_Count], dict[str, Any]], **changes: Any
) -> tuple[float, float]:
    count = _Count()
    settings = PushConsumerSettings(start="earliest", **changes)
    consumer = PushConsumer(nameserver, group=group, settings=settings, **make(count))
    consumer.subscribe(TOPIC)
    async with consumer:
        await count.done.wait()
        return count.taken()


async def _coroutine(nameserver: str, group: str) -> tuple[float, float]:
    def make(count: _Count) -> dict[str, Any]:
        async def handle(message: ReceivedMessage) -> None:
            count.add(1)

        return {"listener": handle}

    return await _push(nameserver, group, make)


async def _reading(nameserver: str, group: str) -> tuple[float, float]:
    def make(count: _Count) -> dict[str, Any]:
        async def handle(message: ReceivedMessage) -> None:
            assert len(message.body) == len(BODY) and message.tags
            count.add(1)

        return {"listener": handle}

    return await _push(nameserver, group, make)


async def _coroutine_batches(nameserver: str, group: str) -> tuple[float, float]:
    return await _push(nameserver, group, _batches, batch_max=32)


async def _orderly(nameserver: str, group: str) -> tuple[float, float]:
    return await _push(nameserver, group, _batches, batch_max=32, orderly=True)


def _batches(count: _Count) -> dict[str, Any]:
    async def handle(messages: list[ReceivedMessage]) -> None:
        count.add(len(messages))

    return {"batch_listener": handle}


async def _function(nameserver: str, group: str) -> tuple[float, float]:
    return await _push(nameserver, group, lambda count: {"listener": lambda message: count.add(1)})


async def _function_batches(nameserver: str, group: str) -> tuple[float, float]:
    def make(count: _Count) -> dict[str, Any]:
        return {"batch_listener": lambda messages: count.add(len(messages))}

    return await _push(nameserver, group, make, batch_max=32)


async def _poll(nameserver: str, group: str) -> tuple[float, float]:
    count = _Count()
    async with PullConsumer(nameserver, group=group, settings=PullConsumerSettings(start="earliest")) as consumer:
        consumer.subscribe(TOPIC)
        while count.seen < MESSAGES:
            count.add(len(await consumer.poll()))
        return count.taken()


async def _async_for(nameserver: str, group: str) -> tuple[float, float]:
    count = _Count()
    async with PullConsumer(nameserver, group=group, settings=PullConsumerSettings(start="earliest")) as consumer:
        consumer.subscribe(TOPIC)
        async for _ in consumer:
            count.add(1)
            if count.seen >= MESSAGES:
                break
        return count.taken()
