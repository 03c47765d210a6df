"""The line of failed messages: how many go at once, and what a mistake of ours may cost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.client.consumer.dispatch.send_back_queue import SendBackQueue
from pyromq.client.consumer.rules.outcome import SendBack
from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import RequestTimeoutError

OWNED: Any = SimpleNamespace(is_released=False)


def failed(offsets: Iterable[int]) -> list[SendBack[Any]]:
    messages: list[Any] = [SimpleNamespace(offset=offset, message_id=f"M{offset}") for offset in offsets]
    return [SendBack(message, 0) for message in messages]


class NoShortWay:
    def begin(self, message: object, delay_level: int) -> None:
        return None


class Broker(NoShortWay):
    """Takes messages when it is told to; counts how many are on their way at the same time."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.at_once = self.at_once_max = 0

    async def send_back(self, message: object, delay_level: int, begun: object = None) -> bool:
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await self.open.wait()
        self.at_once -= 1
        return True


class Broken(NoShortWay):
    """Not what a broker or a network does: a defect in our own code."""

    async def send_back(self, message: object, delay_level: int, begun: object = None) -> bool:
        raise RuntimeError("a defect")


class Connected:
    """There is a connection: requests begin at once, and the test holds their responses in its hands."""

    def __init__(self) -> None:
        self.begun: dict[int, asyncio.Future[Any]] = {}
        self.the_long_way: list[tuple[int, object]] = []

    def begin(self, message: Any, delay_level: int) -> asyncio.Future[Any]:
        self.begun[message.offset] = asyncio.get_running_loop().create_future()
        return self.begun[message.offset]

    async def send_back(self, message: Any, delay_level: int, begun: object) -> bool:
        self.the_long_way.append((message.offset, begun))
        return True

    def respond(self, offset: int, code: int) -> None:
        self.begun[offset].set_result(SimpleNamespace(code=code))


def line_to(send_backs: object, over: list[tuple[int, bool]], tasks: TaskOwner, at_once_max: int = 2) -> SendBackQueue:
    def note(_queue: object, message: Any, is_sent: bool) -> None:
        over.append((message.offset, is_sent))

    return SendBackQueue(cast(Any, send_backs), tasks, note, at_once_max=at_once_max)


async def test_where_there_is_a_connection_no_task_is_needed() -> None:
    broker, over, tasks = Connected(), list[tuple[int, bool]](), TaskOwner("test")
    line = line_to(broker, over, tasks)
    line.add(OWNED, failed(range(3)))
    assert (list(broker.begun), len(line)) == ([0, 1], 1)
    assert not await line.drain(0)
    for offset in range(3):
        broker.respond(offset, 0)
        await asyncio.sleep(0)
    assert over == [(0, True), (1, True), (2, True)]
    assert len(tasks) == 0 and not broker.the_long_way and await line.drain(0)


async def test_what_is_refused_gets_no_response_or_is_cancelled_takes_the_slow_path() -> None:
    broker, over = Connected(), list[tuple[int, bool]]()
    line = line_to(broker, over, TaskOwner("test"), at_once_max=3)
    line.add(OWNED, failed(range(4)))
    broker.respond(0, 1)
    broker.begun[1].set_exception(RequestTimeoutError("no response", peer="b", code=36, timeout_ms=1))
    broker.begun[2].cancel()
    await asyncio.sleep(0)
    assert len(line) == 1, "those on the long way count"
    waiting = asyncio.ensure_future(line.drain(5_000))
    for _ in range(5):
        await asyncio.sleep(0)
    broker.respond(3, 0)
    assert await waiting
    assert broker.the_long_way == [(offset, broker.begun[offset]) for offset in range(3)]
    assert sorted(over) == [(offset, True) for offset in range(4)]


async def test_what_waits_in_line_when_its_queue_goes_is_left_to_the_next_owner() -> None:
    broker, over = Connected(), list[tuple[int, bool]]()
    owned: Any = SimpleNamespace(is_released=False)
    line = line_to(broker, over, TaskOwner("test"), at_once_max=1)
    line.add(owned, failed([1, 2, 3]))
    owned.is_released = True
    broker.respond(1, 0)
    assert await line.drain(5_000)
    assert over == [(1, True), (2, False), (3, False)] and list(broker.begun) == [1]


async def test_a_response_after_the_consumer_was_closed_leaves_nothing_behind() -> None:
    broker, over, tasks = Connected(), list[tuple[int, bool]](), TaskOwner("test")
    line = line_to(broker, over, tasks)
    line.add(OWNED, failed([1]))
    await tasks.close()
    broker.respond(1, 1)
    assert await line.drain(5_000)
    assert over == [(1, False)] and not broker.the_long_way


async def test_only_so_many_are_on_their_way_at_once_and_the_others_wait_in_line() -> None:
    broker = Broker()
    over: list[bool] = []
    line = SendBackQueue(
        cast(Any, broker), TaskOwner("test"), lambda _queue, _message, is_sent: over.append(is_sent), at_once_max=3
    )
    line.add(OWNED, failed(range(10)))
    await asyncio.sleep(0)
    assert (broker.at_once, len(line)) == (3, 7)
    broker.open.set()
    assert await line.drain(5_000)
    assert over == [True] * 10 and broker.at_once_max == 3


async def test_a_defect_on_the_way_does_not_count_as_sent_back(caplog: pytest.LogCaptureFixture) -> None:
    over: list[tuple[int, bool]] = []
    line = SendBackQueue(
        cast(Any, Broken()),
        TaskOwner("test"),
        lambda _queue, message, is_sent: over.append((message.offset, is_sent)),
    )
    with caplog.at_level(logging.ERROR):
        line.add(OWNED, failed([1, 2]))
        assert await line.drain(5_000)
    assert sorted(over) == [(1, False), (2, False)]
    assert "failed message kept here" in caplog.text
