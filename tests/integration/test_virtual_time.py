"""Virtual time carries the whole system: retries, delays, transactions, heartbeats, locks, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq import (
    Admin,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    TransactionOutcome,
    TransactionProducer,
    aio,
)
from pyromq.clock import SystemClock, default_clock
from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId
from pyromq.store.message_store import MessageStore
from pyromq.testing import LoopbackBroker, ManualClock
from pyromq.wire.record import split_records

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

LADDER_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
DAY_MS = 86_400_000


@pytest.fixture
def broker() -> Any:
    with LoopbackBroker(virtual_time=True) as running:
        yield running


class Seen:
    """A listener that notes what it gets, and when, in seconds since the first."""

    def __init__(self, broker: LoopbackBroker, *, fails: bool = False) -> None:
        self._broker = broker
        self._fails = fails
        self._began_ms = broker.now_ms()
        self.bodies: list[bytes] = []
        self.at_s: list[float] = []

    def __call__(self, message: ReceivedMessage) -> None:
        self.bodies.append(message.body)
        self.at_s.append((self._broker.now_ms() - self._began_ms) / 1000)
        if self._fails:
            raise ValueError("not today")


def consumer_of(broker: LoopbackBroker, listener: Callable[[ReceivedMessage], None], **options: Any) -> PushConsumer:
    return PushConsumer(
        broker.nameserver, group="mail", listener=listener, topics="orders", start="earliest", **options
    )


def send(broker: LoopbackBroker, *bodies: bytes, **options: Any) -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        for body in bodies:
            producer.send(Message("orders", body, **options), queue=QueueId("orders", "broker-a", 0))


def with_topic(broker: LoopbackBroker) -> None:
    with Admin(broker.nameserver) as admin:
        admin.topics.create("orders", queues=1)


def run_async(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """On asyncio's own loop, which virtual time needs."""
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(test())


# --- what takes long ---


def test_a_ladder_of_sixteen_retries_ends_in_a_dead_letter(broker: LoopbackBroker) -> None:
    send(broker, b"cursed")
    seen = Seen(broker, fails=True)
    with consumer_of(broker, seen), Admin(broker.nameserver) as admin:
        broker.settle()
        assert seen.at_s == [0]
        broker.advance(seconds=sum(LADDER_S))
        assert [later - earlier for earlier, later in zip(seen.at_s, seen.at_s[1:], strict=False)] == list(LADDER_S)
        (letter,) = admin.dead_letters.list("mail")
        assert (letter.topic, letter.attempts, letter.body_bytes) == ("orders", 17, len(b"cursed"))
        broker.advance(days=1)
        assert len(seen.at_s) == 17


def test_delays_of_thirty_days_and_of_two_hours(broker: LoopbackBroker) -> None:
    seen = Seen(broker)
    with consumer_of(broker, seen):
        send(broker, b"in 30 days", deliver_at_ms=broker.now_ms() + 30 * DAY_MS)
        send(broker, b"in 2 hours", delay_level=18)
        broker.advance(hours=2, ms=-1)
        assert seen.bodies == []
        broker.advance(ms=1)
        assert (seen.bodies, seen.at_s) == ([b"in 2 hours"], [7_200])
        broker.advance(days=30)
    assert seen.bodies == [b"in 2 hours", b"in 30 days"]
    assert seen.at_s[1] == 30 * DAY_MS / 1000


def test_a_broker_asks_for_an_outcome_until_it_is_told(broker: LoopbackBroker) -> None:
    outcomes = [TransactionOutcome.UNKNOWN, TransactionOutcome.UNKNOWN, TransactionOutcome.COMMIT]
    asked: list[bytes] = []

    def check(message: ReceivedMessage) -> TransactionOutcome:
        asked.append(message.body)
        return outcomes[len(asked) - 1]

    seen = Seen(broker)
    producer = TransactionProducer(broker.nameserver, group="shop", topics="orders", check=check)
    with producer, consumer_of(broker, seen):
        producer.send(Message("orders", b"42"), lambda transaction: TransactionOutcome.UNKNOWN)
        broker.settle()
        assert (asked, seen.bodies) == ([], [])
        broker.advance(seconds=70)  # two rounds of the broker
        assert (len(asked), seen.bodies) == (2, [])
        broker.advance(hours=1)
        assert (len(asked), seen.bodies) == (3, [b"42"])


def test_an_hour_of_heartbeats_locks_and_registrations(broker: LoopbackBroker) -> None:
    send(broker, b"first")
    seen = Seen(broker)
    with consumer_of(broker, seen, orderly=True) as consumer, Admin(broker.nameserver) as admin:
        broker.settle()
        owned = consumer.assignment
        broker.advance(minutes=5, leap=False)  # every renewal in it
        broker.advance(hours=1)
        assert consumer.assignment == owned and owned
        send(broker, b"second")
        broker.settle()
        assert seen.bodies == [b"first", b"second"]
        assert admin.topics.route("orders").broker("broker-a") is not None


def test_a_member_that_falls_silent_loses_its_queues_to_the_other(broker: LoopbackBroker) -> None:
    send(broker, b"first")
    silent, lively = Seen(broker), Seen(broker)
    with consumer_of(broker, lively) as stays, consumer_of(broker, silent) as falls_silent:
        broker.advance(seconds=30)
        shares = stays.assignment, falls_silent.assignment
        assert all(shares) and not shares[0] & shares[1]
        heartbeats = falls_silent.inner.client._heartbeats
        heartbeats.send_all, heartbeats.greet = _nothing, lambda connection: None  # type: ignore[method-assign]
        broker.advance(minutes=1)
        assert (stays.assignment, falls_silent.assignment) == shares
        broker.advance(minutes=2)
        assert stays.assignment == shares[0] | shares[1]


async def _nothing() -> None: ...


def test_clients_live_through_a_restart_of_the_broker(broker: LoopbackBroker) -> None:
    seen = Seen(broker)
    with consumer_of(broker, seen):
        send(broker, b"before")
        send(broker, b"delayed", delay_level=18)
        broker.advance(hours=1)
        address = broker.address
        broker.restart()
        assert broker.address == address
        broker.advance(minutes=1)
        send(broker, b"after")
        broker.advance(minutes=59)
    assert seen.bodies == [b"before", b"after", b"delayed"]
    assert seen.at_s[-1] == 7_200


def test_a_folder_goes_on_with_another_broker_and_the_same_clock(tmp_path: Path) -> None:
    clock = ManualClock()
    with LoopbackBroker(virtual_time=True, clock=clock, folder=tmp_path) as first:
        send(first, b"delayed", delay_ms=DAY_MS)
        first.advance(hours=23)
    with LoopbackBroker(virtual_time=True, clock=clock, folder=tmp_path) as second:
        seen = Seen(second)
        with consumer_of(second, seen):
            second.advance(minutes=59)
            assert seen.bodies == []
            second.advance(minutes=1)
    assert seen.bodies == [b"delayed"]


# --- what waits ---


def test_time_passes_for_a_call_that_waits(broker: LoopbackBroker) -> None:
    send(broker, b"first")
    with PullConsumer(broker.nameserver, group="readers", topics="orders", start="earliest") as consumer:
        assert [message.body for message in consumer.poll(timeout_ms=60_000)] == [b"first"]
        before_ms = broker.now_ms()
        assert consumer.poll(timeout_ms=60_000) == []
        assert broker.now_ms() - before_ms == 60_000
        send(broker, b"delayed", delay_level=4)
        assert [message.body for message in consumer.poll(timeout_ms=60_000)] == [b"delayed"]
    seen = Seen(broker)
    assert consumer_of(broker, seen).run(messages=2, timeout_ms=30_000) == 2


def test_time_stands_still_while_nobody_waits(broker: LoopbackBroker) -> None:
    send(broker, b"first")
    with consumer_of(broker, Seen(broker)):
        broker.settle()
        before_ms = broker.now_ms()
        for _ in range(20):
            broker.settle()
        assert broker.now_ms() == before_ms


def test_a_listener_may_send_with_a_sync_producer(broker: LoopbackBroker) -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        answered: list[bytes] = []

        def answer(message: ReceivedMessage) -> None:
            if message.body == b"question":
                producer.send(Message("orders", b"answer", delay_level=5))
            else:
                answered.append(message.body)

        producer.send(Message("orders", b"question"))
        with consumer_of(broker, answer):
            broker.advance(minutes=1)
            assert answered == [b"answer"]


def test_the_same_sequence_gives_the_same_log() -> None:
    assert _a_life() == _a_life()


def _a_life() -> list[tuple[int, int, str, bytes]]:
    with LoopbackBroker(virtual_time=True) as broker:
        with_topic(broker)
        seen = Seen(broker, fails=True)
        with consumer_of(broker, seen, attempts_max=4):
            for number in range(5):
                send(broker, b"%d" % number, delay_ms=1_000 * number)
                broker.advance(seconds=7)
            broker.advance(hours=1)
        return sorted(log_of(broker.broker.store))


def log_of(store: MessageStore) -> Iterator[tuple[int, int, str, bytes]]:
    for topic, queue_id in store.queues:
        held = store.reader.range_of(topic, queue_id)
        offset = held.first if held else 0
        while held and offset < held.end:
            result = store.reader.read(topic, queue_id, offset)
            for record in split_records(result.to_bytes()):
                yield record.position, record.stored_ms, record.topic, record.body
            offset = result.next_offset


# --- with asyncio ---


def test_asyncio_clients_have_the_same_time() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        async with LoopbackBroker(virtual_time=True) as broker:
            began, bodies = loop.time(), []

            async def listen(message: ReceivedMessage) -> None:
                await asyncio.sleep(4 * 60)
                bodies.append(message.body)

            async with aio.Producer(broker.nameserver, group="shop") as producer:
                await producer.send(Message("orders", b"slow"))
                consumer = aio.PushConsumer(
                    broker.nameserver, group="mail", listener=listen, topics="orders", start="earliest"
                )
                async with consumer:
                    await broker.settle()
                    await broker.advance(minutes=2)
                    assert bodies == []
                    await broker.advance(minutes=2)
                    assert bodies == [b"slow"]
            await asyncio.sleep(60)
            assert loop.time() - began >= 300
        assert isinstance(default_clock(), SystemClock)
        assert loop.time() - began < 300, "the real time is back"

    run_async(test)


def test_timers_from_before_keep_to_the_real_time() -> None:
    async def test() -> None:
        early = asyncio.get_running_loop().call_later(3_600, lambda: None)
        soon = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, soon.set_result, None)
        async with LoopbackBroker(virtual_time=True) as broker:
            await broker.advance(days=1)
            await soon
            late = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.02, late.set_result, None)
        assert not early.cancelled()
        await late

    run_async(test)


# --- mistakes ---


async def test_another_loop_is_refused() -> None:
    with pytest.raises(ConfigError, match="uvloop"):
        async with LoopbackBroker(virtual_time=True):
            pass


def test_the_machines_clock_cannot_be_moved(broker: LoopbackBroker) -> None:
    with pytest.raises(ConfigError, match="ManualClock"):
        LoopbackBroker(virtual_time=True, clock=SystemClock())
    with LoopbackBroker() as real, pytest.raises(ConfigError, match="virtual_time=True"):
        real.advance(hours=1)
    with pytest.raises(ValueError, match="forwards"):
        broker.advance(seconds=-1)


def test_one_virtual_time_at_a_time(broker: LoopbackBroker) -> None:
    with pytest.raises(ConfigError, match="one at a time"):
        LoopbackBroker(virtual_time=True).open()
    send(broker, b"first")
    broker.advance(minutes=10)


@pytest.mark.parametrize("orderly", [False, True])
def test_what_a_tag_filter_leaves_out_is_no_lag_when_the_consumer_goes(broker: LoopbackBroker, orderly: bool) -> None:
    with Admin(broker.nameserver) as admin, Producer(broker.nameserver, group="shop") as producer:
        admin.topics.create("orders", queues=1)
        for tag in "ab":
            for _ in range(10):
                producer.send(Message("orders", b"x", tags=tag))
        seen = Seen(broker)
        settings = {"group": "billing", "topics": {"orders": "a"}, "start": "earliest", "orderly": orderly}
        with PushConsumer(broker.nameserver, listener=seen, **settings):
            broker.advance(seconds=5)
        (queue,) = admin.offsets.ends("orders")
        assert (len(seen.bodies), admin.offsets.committed("billing", queue)) == (10, 20)
