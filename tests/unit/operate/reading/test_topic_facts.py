"""When messages came, who sent them, and how long they are kept: facts from what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pyromq.aio import Admin, Message, Producer
from pyromq.errors import ConfigError, TopicNotFoundError
from pyromq.operate.brokers import capacity, first_number, last_number
from pyromq.operate.reading.retention import RetentionLimit, kept_for, log_retention, shortest
from pyromq.operate.reading.topic_history import moments
from pyromq.testing import LoopbackBroker

HOUR_MS = 3_600_000
GIB = 1 << 30


def on_a_broker(test: Callable[[LoopbackBroker, Admin, Producer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with (
            LoopbackBroker(virtual_time=True, sockets=False) as broker,
            Admin(broker.nameserver) as admin,
            Producer(broker.nameserver, group="shop") as producer,
        ):
            await admin.topics.create("orders", queues=2)
            await test(broker, admin, producer)

    asyncio.run(run())


def test_the_history_counts_what_came_in_each_step() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        for count in (4, 0, 6):
            for _ in range(count):
                await producer.send(Message("orders", b"x" * 100))
            await broker.advance(seconds=3_600)
        now_ms = broker.clock.now_ms()
        found = await admin.contents.history("orders", begin_ms=now_ms - 3 * HOUR_MS - 60_000, steps=3)
        assert [step.messages for step in found.steps] == [4, 0, 6]
        assert (found.before, found.is_cut) == (0, False)
        sizes = [step.bytes for step in found.steps]
        assert sizes[1] == 0 and sizes[0] and sizes[2] and 400 < sizes[0] < 4 * 600
        late = await admin.contents.history("orders", begin_ms=now_ms - 90 * 60_000, steps=4)
        assert (late.before, sum(step.messages for step in late.steps)) == (4, 6)

    on_a_broker(test)


def test_a_history_of_nothing_has_steps_without_messages_and_a_wrong_time_is_refused() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        found = await admin.contents.history("orders", steps=5)
        assert [(step.messages, step.bytes) for step in found.steps] == [(0, 0)] * 5
        with pytest.raises(ConfigError):
            await admin.contents.history("orders", begin_ms=10, end_ms=10)
        with pytest.raises(TopicNotFoundError):
            await admin.contents.history("nowhere")

    on_a_broker(test)


def test_moments_part_a_time_evenly_and_never_stand_still() -> None:
    assert moments(0, 90, 3) == [0, 30, 60, 90]
    assert moments(7, 7, 3) == [7, 8, 9, 10]


def test_senders_are_known_by_group_while_they_are_connected_and_by_address_afterwards() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        await producer.send(Message("orders", b"1"))
        async with Producer(broker.nameserver, group="gone") as other:
            await other.send(Message("orders", b"2"))
            await broker.advance(seconds=40)  # a heartbeat tells brokers who is there
            known = {sender.group: sender for sender in await admin.contents.senders("orders")}
            assert known.keys() == {"shop", "gone"}
            assert known["shop"].messages == 1 and known["shop"].is_connected
        await broker.advance(seconds=5)
        left = [sender for sender in await admin.contents.senders("orders") if not sender.is_connected]
        assert [(sender.group, sender.messages) for sender in left] == [("", 1)]
        assert left[0].address

    on_a_broker(test)


def test_retention_of_a_topic_tells_its_oldest_message_and_its_size() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        empty = await admin.contents.retention("orders")
        assert (empty.messages, empty.oldest_ms, empty.bytes) == (0, 0, 0)
        began_ms = broker.clock.now_ms()
        for _ in range(6):
            await producer.send(Message("orders", b"x" * 100))
        await broker.advance(seconds=3_600)
        found = await admin.contents.retention("orders")
        assert (found.messages, found.oldest_ms, found.limit) == (6, began_ms, RetentionLimit.TIME)
        assert found.bytes and 600 < found.bytes < 6 * 600
        assert found.kept_ms == 72 * HOUR_MS
        [log] = found.brokers
        assert (log.broker, log.keep_ms) == ("broker-a", 72 * HOUR_MS)

    on_a_broker(test)


def test_messages_are_kept_for_the_configured_time_or_until_the_disk_is_full() -> None:
    assert kept_for(72 * HOUR_MS, None, 100.0) == (72 * HOUR_MS, RetentionLimit.TIME)
    assert kept_for(72 * HOUR_MS, 36_000, 0.0) == (72 * HOUR_MS, RetentionLimit.TIME)
    assert kept_for(72 * HOUR_MS, 36_000, 10.0) == (HOUR_MS, RetentionLimit.DISK)
    assert kept_for(HOUR_MS // 2, 36_000, 10.0) == (HOUR_MS // 2, RetentionLimit.TIME)
    assert kept_for(None, None, 10.0) == (None, RetentionLimit.TIME)


def test_apaches_run_time_information_is_enough() -> None:
    told = {
        "commitLogMinOffset": "0",
        "commitLogMaxOffset": str(10 * GIB),
        "commitLogDirCapacity": "Total : 100.0 GiB, Free : 45.0 GiB.",
        "putTps": "900.0 500.0 1000.0",
        "putMessageAverageSize": "1048.576",
        "earliestMessageTimeStamp": "1700000000000",
    }
    log = log_retention("a", told, {"fileReservedTime": "48"})
    assert (log.oldest_ms, log.bytes, log.keep_ms, log.room_bytes) == (
        1_700_000_000_000,
        10 * GIB,
        48 * HOUR_MS,
        40 * GIB,
    )
    assert (log.bytes_per_s, log.kept_ms, log.limit) == (1_048_576.0, 40 * 1024 * 1000, RetentionLimit.DISK)
    told["commitLogDiskRatio"] = "0.25"  # of 60 GiB: the file system keeps the rest of its 100 for itself
    assert log_retention("a", told, {}).room_bytes == (10 + 45 - 9) * GIB
    silent = log_retention("b", {}, {})
    assert (silent.kept_ms, silent.room_bytes) == (None, None)
    assert shortest((log,)) == (log.kept_ms, RetentionLimit.DISK)
    assert shortest((log, silent)) == (None, RetentionLimit.TIME), "one that does not tell may keep them shorter"
    assert shortest(()) == (None, RetentionLimit.TIME)


def test_numbers_are_read_as_brokers_write_them() -> None:
    assert capacity("Total : 1.5 GiB, Free : 512.0 MiB.") == (3 << 29, 512 << 20)
    assert (first_number("12.5 3 1"), last_number("12.5 3 1"), last_number("")) == (12.5, 1.0, 0.0)
