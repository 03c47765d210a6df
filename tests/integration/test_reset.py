"""A group that is moved while it consumes: whatever listeners say of messages from before, it stays moved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from pyromq.aio import ReceivedMessage
from pyromq.wire.codes import RequestCode as Code
from tests.integration.quick_consumer import QUEUE, quick_consumer
from tests.integration.scripted_queues import ScriptedQueues, scripted_queues
from tests.integration.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

GROUP = "moved"


class Gate:
    """A listener that waits at the first message it gets for ``offset``, and remembers all."""

    def __init__(self, offset: int) -> None:
        self.offset, self.open = offset, asyncio.Event()
        self.began: list[int] = []
        self.ended: list[int] = []

    async def __call__(self, message: ReceivedMessage) -> None:
        self.began.append(message.offset)
        if message.offset == self.offset and self.began.count(self.offset) == 1:
            await self.open.wait()
        self.ended.append(message.offset)


def filled(broker: ScriptedQueues, count: int = 10) -> None:
    for number in range(count):
        broker.put(b"%d" % number)


@asynccontextmanager
async def at_work_on_3() -> AsyncIterator[tuple[ScriptedQueues, Gate]]:
    """An orderly listener has consumed three of ten messages and holds the fourth."""
    async with scripted_queues(GROUP) as broker:
        filled(broker)
        gate = Gate(3)
        async with quick_consumer(broker, gate, orderly=True):
            await until(lambda: gate.began == [0, 1, 2, 3])
            yield broker, gate


def push(broker: ScriptedQueues, offset: int) -> None:
    broker.reset(GROUP, {QUEUE: offset})


def tell_next_pull(broker: ScriptedQueues, offset: int) -> None:
    """What a broker with server-side reset does."""
    broker.committed[QUEUE] = offset
    broker.moved_to[QUEUE] = offset
    broker.put(b"news")  # answers the pull that is held


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("reset", [push, tell_next_pull])
async def test_a_group_goes_on_where_it_is_told_to(orderly: bool, reset: Callable[[ScriptedQueues, int], None]) -> None:
    async with scripted_queues(GROUP) as broker:
        filled(broker)
        gate = Gate(-1)
        async with quick_consumer(broker, gate, orderly=orderly):
            await until(lambda: len(gate.ended) == 10 and broker.committed[QUEUE] == 10)
            reset(broker, 7)
            if reset is push:
                broker.put(b"news")
            await until(lambda: len(gate.ended) == 14)
            assert gate.ended[10:] == [7, 8, 9, 10]
            await until(lambda: broker.committed[QUEUE] == 11)


@pytest.mark.parametrize("target", [2, 9])
async def test_a_concurrent_listener_from_before_undoes_nothing(target: int) -> None:
    """Backwards: message 0 would commit 10. Forwards: message 0 is unfinished and would commit 0."""
    async with scripted_queues(GROUP) as broker:
        filled(broker)
        gate = Gate(0)
        async with quick_consumer(broker, gate) as member:
            await until(lambda: len(gate.ended) == 9)
            mark = len(broker.commits[QUEUE])
            push(broker, target)
            await until(lambda: len(gate.ended) == 9 + 10 - target, "what lies behind comes again, though 0 is busy")
            gate.open.set()
            await until(lambda: gate.ended[-1] == 0)
            await until(lambda: broker.committed[QUEUE] == 10)
            assert member.offsets("T") == {QUEUE: 10}
            committed = broker.commits[QUEUE][mark:]
            after = committed[committed.index(target) :]
            assert after == sorted(after) and set(committed[: committed.index(target)]) <= {0}


async def test_an_orderly_listener_from_before_is_waited_for_and_undoes_nothing() -> None:
    async with at_work_on_3() as (broker, gate):
        push(broker, 1)
        await until(lambda: broker.commits[QUEUE][-1:] == [1], "the wish counts at once")
        mark = len(broker.commits[QUEUE])
        await until(lambda: len(broker.commits[QUEUE]) > mark + 3)
        assert set(broker.commits[QUEUE][mark:]) == {1}, "nothing older or newer until it is gone"
        assert gate.began == [0, 1, 2, 3], "the queue has one listener at a time"
        gate.open.set()
        await until(lambda: gate.ended[4:] == [1, 2, 3, 4, 5, 6, 7, 8, 9])
        await until(lambda: broker.committed[QUEUE] == 10)
        after = broker.commits[QUEUE][mark:]
        assert after == sorted(after), "and it never went back again"


async def test_the_last_of_several_wishes_counts() -> None:
    async with at_work_on_3() as (broker, gate):
        push(broker, 1)
        push(broker, 8)
        await until(lambda: broker.commits[QUEUE][-1:] == [8])
        gate.open.set()
        await until(lambda: gate.ended == [0, 1, 2, 3, 8, 9])


async def test_a_wish_that_comes_while_the_queue_is_being_taken_is_heard() -> None:
    async with scripted_queues(GROUP) as broker:
        filled(broker)
        broker.codes[Code.QUERY_CONSUMER_OFFSET] = None
        gate = Gate(-1)
        async with quick_consumer(broker, gate):
            asked = broker.asked[Code.QUERY_CONSUMER_OFFSET]
            await until(lambda: len(asked) == 1)
            broker._stored_offset(*asked[0])
            await until(lambda: len(asked) == 2)
            assert [request.header.topic for _, request in asked] == ["%RETRY%moved", "T"]
            broker._stored_offset(*asked[1])  # 0, from before the reset
            push(broker, 6)
            await until(lambda: broker.committed[QUEUE] == 10)
        assert gate.ended == [6, 7, 8, 9]


async def test_a_failure_from_before_is_not_sent_back() -> None:
    release = asyncio.Event()
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.offset)
        if message.offset == 0:
            await release.wait()
            raise ValueError("too late to matter")

    async with scripted_queues(GROUP) as broker:
        filled(broker, 3)
        async with quick_consumer(broker, handle) as member:
            await until(lambda: len(seen) == 3)
            push(broker, 3)
            await until(lambda: broker.commits[QUEUE][-1:] == [3])
            release.set()
            await until(lambda: member.counts.failed == 1)
            await until(lambda: QUEUE in member.assignment)
        assert broker.committed[QUEUE] == 3
        assert not broker.asked[Code.CONSUMER_SEND_MSG_BACK], "the group does not want it any more"


async def test_an_orderly_failure_from_before_is_no_dead_letter() -> None:
    release, began = asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.offset)
        if message.offset == 0:
            began.set()
            await release.wait()
            raise ValueError("too late to matter")

    async with scripted_queues(GROUP) as broker:
        filled(broker, 3)
        async with quick_consumer(broker, handle, orderly=True, attempts_max=0):
            await asyncio.wait_for(began.wait(), PATIENCE_S)
            push(broker, 2)
            await until(lambda: broker.commits[QUEUE][-1:] == [2])
            release.set()
            await until(lambda: broker.committed[QUEUE] == 3)
        assert seen == [0, 2]
        assert not broker.asked[Code.SEND_MESSAGE_V2], "the group does not want it any more"
