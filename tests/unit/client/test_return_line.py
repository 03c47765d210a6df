"""The line of failed messages: how many go at once, and what a mistake of ours may cost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.client.outcome import SendBack
from pyromq.client.return_line import ReturnLine
from pyromq.client.tasks import TaskOwner

OWNED: Any = SimpleNamespace(buffer=SimpleNamespace(dropped=False))


def failed(offsets: Iterable[int]) -> list[SendBack[Any]]:
    messages: list[Any] = [SimpleNamespace(offset=offset, message_id=f"M{offset}") for offset in offsets]
    return [SendBack(message, 0) for message in messages]


class Broker:
    """Takes messages when it is told to; counts how many are on their way at the same time."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.at_once = self.at_once_max = 0

    async def give_back(self, message: object, delay_level: int) -> bool:
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await self.open.wait()
        self.at_once -= 1
        return True


class Broken:
    """Not what a broker or a network does: a defect in our own code."""

    async def give_back(self, message: object, delay_level: int) -> bool:
        raise RuntimeError("a defect")


async def test_only_so_many_are_on_their_way_at_once_and_the_others_wait_in_line() -> None:
    broker = Broker()
    over: list[bool] = []
    line = ReturnLine(
        cast(Any, broker), TaskOwner("test"), lambda _queue, _message, is_sent: over.append(is_sent), at_once_max=3
    )
    line.add(OWNED, failed(range(10)))
    await asyncio.sleep(0)
    assert (broker.at_once, len(line)) == (3, 7)
    broker.open.set()
    assert await line.drain(5_000)
    assert over == [True] * 10 and broker.at_once_max == 3


async def test_a_defect_on_the_way_does_not_count_as_given_back(caplog: pytest.LogCaptureFixture) -> None:
    over: list[tuple[int, bool]] = []
    line = ReturnLine(
        cast(Any, Broken()),
        TaskOwner("test"),
        lambda _queue, message, is_sent: over.append((message.offset, is_sent)),
    )
    with caplog.at_level(logging.ERROR):
        line.add(OWNED, failed([1, 2]))
        assert await line.drain(5_000)
    assert sorted(over) == [(1, False), (2, False)]
    assert "failed message kept here" in caplog.text
