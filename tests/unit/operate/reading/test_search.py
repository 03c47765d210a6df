"""Searching messages on a real broker: what is found, what was scanned, and whether it was cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pyromq.aio import Admin, Message, Producer
from pyromq.errors import ConfigError, TopicNotFoundError
from pyromq.operate.reading.search import MessageQuery, read_cursor
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.usefixtures("quiet")


def on_a_broker(test: Callable[[LoopbackBroker, Admin, Producer], Awaitable[None]], queues: int = 3) -> None:
    async def run() -> None:
        async with (
            LoopbackBroker(virtual_time=True, sockets=False) as broker,
            Admin(broker.nameserver) as admin,
            Producer(broker.nameserver, group="shop") as producer,
        ):
            await admin.topics.create("orders", queues=queues)
            await test(broker, admin, producer)

    asyncio.run(run())


async def fill(broker: LoopbackBroker, producer: Producer, count: int) -> None:
    for number in range(count):
        message = Message(
            "orders",
            b"order %d" % number,
            tags="even" if number % 2 == 0 else "odd",
            keys=f"k{number}",
            properties={"n": str(number)},
        )
        await producer.send(message)
        await broker.advance(ms=10)


def test_the_newest_come_first_and_pages_go_back_without_a_gap_or_a_repetition() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        await fill(broker, producer, 100)
        seen: list[int] = []
        query = MessageQuery(topic="orders", count_max=7)
        while True:
            found = await admin.messages.search(query)
            seen += [int(message.body.split()[1]) for message in found.messages]
            assert found.scan.is_cut == bool(found.scan.cursor)
            if not found.scan.cursor:
                break
            query = MessageQuery(topic="orders", count_max=7, cursor=found.scan.cursor)
        assert seen == list(reversed(range(100)))

    on_a_broker(test)


def test_a_search_says_what_it_read_and_that_it_was_cut() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        await fill(broker, producer, 60)
        cut = await admin.messages.search(MessageQuery(topic="orders", text="order 3", scan_max=20))
        assert cut.messages == []
        assert (cut.scan.read, cut.scan.is_cut) == (20, True)
        assert "read 20 of 60" in cut.scan.text
        assert "40 older ones were not looked at" in cut.scan.text
        whole = await admin.messages.search(MessageQuery(topic="orders", text="order 3"))
        assert [message.body for message in whole.messages][-1] == b"order 3"
        assert (whole.scan.read, whole.scan.is_cut, whole.scan.cursor) == (60, False, "")

    on_a_broker(test)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (MessageQuery(topic="orders", tag="odd"), [9, 7, 5, 3, 1]),
        (MessageQuery(topic="orders", tag="odd || even"), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        (MessageQuery(topic="orders", sql="n >= 8"), [9, 8]),
        (MessageQuery(topic="orders", sql="n BETWEEN 2 AND 5", tag="even"), [4, 2]),
        (MessageQuery(topic="orders", key="k4"), [4]),
        (MessageQuery(topic="orders", key="k4", tag="odd"), []),
        (MessageQuery(topic="orders", key="nobody"), []),
        (MessageQuery(topic="orders", text="order 1"), [1]),
        (MessageQuery(topic="orders", message_id="no such id"), []),
    ],
)
def test_filters_hold_together(query: MessageQuery, wanted: list[int]) -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        await fill(broker, producer, 10)
        found = await admin.messages.search(query)
        assert [int(message.body.split()[1]) for message in found.messages] == wanted

    on_a_broker(test)


def test_times_are_inclusive() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        await fill(broker, producer, 10)
        stored = {
            int(m.body.split()[1]): m.stored_ms
            for m in (await admin.messages.search(MessageQuery(topic="orders"))).messages
        }
        query = MessageQuery(topic="orders", begin_ms=stored[3], end_ms=stored[6])
        found = await admin.messages.search(query)
        assert [int(message.body.split()[1]) for message in found.messages] == [6, 5, 4, 3]
        assert found.scan.read == 4

    on_a_broker(test)


def test_one_queue_alone() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        await fill(broker, producer, 9)
        found = await admin.messages.search(MessageQuery(topic="orders", queue="broker-a:1"))
        assert {message.queue_id for message in found.messages} == {1}
        assert len(found.scan.queues) == 1
        with pytest.raises(ConfigError, match="no queue"):
            await admin.messages.search(MessageQuery(topic="orders", queue="broker-a:99"))

    on_a_broker(test)


@pytest.mark.parametrize(
    "query",
    [
        MessageQuery(topic="orders", sql="n >"),
        MessageQuery(topic="orders", count_max=0),
        MessageQuery(topic="orders", scan_max=10**9),
        MessageQuery(topic="orders", begin_ms=2, end_ms=1),
        MessageQuery(topic="orders", cursor="rubbish"),
    ],
)
def test_a_query_that_is_none_is_refused(query: MessageQuery) -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        with pytest.raises(ConfigError):
            await admin.messages.search(query)

    on_a_broker(test)


def test_an_empty_topic_and_one_that_is_not_there() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        found = await admin.messages.search(MessageQuery(topic="orders"))
        assert (found.messages, found.scan.is_cut) == ([], False)
        with pytest.raises(TopicNotFoundError):
            await admin.messages.search(MessageQuery(topic="nothing"))

    on_a_broker(test)


def test_new_messages_move_on_and_count_what_was_too_much() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        await fill(broker, producer, 3)
        ends = await admin.offsets.ends("orders")
        assert (await admin.messages.tail(ends)).messages == []
        await fill(broker, producer, 30)
        found = await admin.messages.tail(ends, 5)
        assert (len(found.messages), found.skipped) == (15, 15)
        assert (await admin.messages.tail(ends)).messages == []

    on_a_broker(test)


def test_a_cursor_that_was_tampered_with_is_refused() -> None:
    assert read_cursor("") == {}
    assert read_cursor("broker-a:0:5,b:1:2") == {"broker-a:0": 5, "b:1": 2}
    for text in ("broker-a", "broker-a:0:-1", ":1:2", "a:1:x", ",,"):
        with pytest.raises(ConfigError):
            read_cursor(text)
