"""The push consumer against a real broker: everything at least once, in order where asked for, whatever happens."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.aio import Admin, Message, MQError, Producer, QueueId, ReceivedMessage
from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.base.settings import PushConsumerSettings
from pyromq.client.consumer.push_consumer import PushConsumer
from pyromq.client.consumer.rules.flow_control import FlowLimits
from pyromq.client.consumer.rules.orderly_outcome import OrderlyStatus
from pyromq.client.consumer.rules.outcome import BatchResult, ConsumeStatus
from pyromq.client.consumer.rules.queue_state import Ownership
from pyromq.client.core.client import Client
from pyromq.client.core.settings import ClientSettings
from pyromq.errors import ConfigError
from pyromq.net import Backoff
from pyromq.testing import AsyncServerProcess, LoopbackBroker
from pyromq.wire.headers.shared import ConsumeDirectlyHeader, ConsumerRunningInfoHeader, ResetOffsetHeader
from tests.integration.quick_delays import QUICK_DELAYS
from tests.integration.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

Property = Callable[[str, object], None]
FAST = PushConsumerSettings(
    start="earliest",
    rebalance_ms=1_000,
    persist_ms=200,
    error_wait_ms=100,
    retry_wait_ms=200,
    rest_ms=20,
    lock_ms=500,
)
TOPIC = "orders"


class Seen:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.messages: list[ReceivedMessage] = []

    async def __call__(self, message: ReceivedMessage) -> None:
        self.bodies.append(message.body)
        self.messages.append(message)

    def has(self, sent: list[bytes]) -> bool:
        return set(sent) <= set(self.bodies)


def consumer(broker: Any, group: str, listener: Any, **changes: Any) -> PushConsumer:
    made = PushConsumer(broker.nameserver, group=group, listener=listener, settings=replace(FAST, **changes))
    made.subscribe(TOPIC)
    return made


@asynccontextmanager
async def filled(
    count: int, *, topic: str = TOPIC, queues: int = 4
) -> AsyncIterator[tuple[Any, Producer, list[bytes]]]:
    """A broker with a topic of some messages, a producer, and what was sent."""
    async with LoopbackBroker(QUICK_DELAYS) as broker, Producer(broker.nameserver, group="makers") as producer:
        async with Admin(broker.nameserver) as admin:
            await admin.topics.create(TOPIC, queues=queues)
        yield broker, producer, await send(producer, 0, count)


async def send(producer: Producer, start: int, count: int, *, topic: str = TOPIC, **extra: Any) -> list[bytes]:
    bodies = [b"%d" % number for number in range(start, start + count)]
    await asyncio.gather(*(producer.send(Message(topic, body, **extra)) for body in bodies))
    return bodies


# --- concurrent ----------------------------------------------------------------------------------------------------


async def test_every_message_reaches_two_groups_once() -> None:
    async with filled(300) as (broker, producer, sent):
        one, two = Seen(), Seen()
        async with consumer(broker, "one", one), consumer(broker, "two", two):
            sent += await send(producer, 300, 100)
            await until(lambda: one.has(sent) and two.has(sent))
        assert sorted(one.bodies) == sorted(two.bodies) == sorted(sent)


@pytest.mark.parametrize("orderly", [False, True])
async def test_listeners_learn_how_far_behind_they_are_and_may_skip_a_backlog(orderly: bool) -> None:
    facts: list[tuple[bytes, int | None, str, str, bool]] = []

    async def handle(message: ReceivedMessage) -> None:
        begun = message.consume_start_ms is not None and message.get("CONSUME_START_TIME") is not None
        maximum, minimum = message.properties["MAX_OFFSET"], message.get("MIN_OFFSET") or ""
        facts.append((message.body, message.behind, maximum, minimum, begun))

    async with LoopbackBroker(QUICK_DELAYS) as broker, Producer(broker.nameserver, group="makers") as producer:
        async with Admin(broker.nameserver) as admin:
            await admin.topics.create(TOPIC, queues=1)
        for number in range(100):
            await producer.send(Message(TOPIC, b"%d" % number))
        async with consumer(broker, "hurried", handle, orderly=orderly, skip_when_behind=10) as member:
            await until(lambda: len(facts) == 10)
            await until(lambda: sum(member.offsets(TOPIC).values()) == 100)
            assert member.counts.skipped == 90
        assert facts == [(b"%d" % number, 99 - number, "100", "0", True) for number in range(90, 100)]


async def test_functions_run_on_threads_of_a_pool() -> None:
    threads: set[str] = set()
    bodies: list[bytes] = []

    def handle(message: ReceivedMessage) -> None:
        threads.add(threading.current_thread().name)
        bodies.append(message.body)

    async with filled(200) as (broker, _, sent):
        async with consumer(broker, "pool", handle, threads=5):
            await until(lambda: len(bodies) >= len(sent))
    assert sorted(bodies) == sorted(sent)
    assert all(name.startswith("pyromq-pool") for name in threads) and len(threads) <= 5


async def test_coroutines_run_at_once_but_not_more_than_allowed() -> None:
    running, peak, done = 0, 0, 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal running, peak, done
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.002)
        running -= 1
        done += 1

    async with filled(100) as (broker, _, _):
        async with consumer(broker, "bound", handle, concurrency_max=7):
            await until(lambda: done == 100)
    assert peak == 7


async def test_a_batch_listener_gets_lists_and_says_how_far_it_came() -> None:
    sizes: list[int] = []
    finished: Counter[bytes] = Counter()

    def handle(messages: list[ReceivedMessage]) -> BatchResult:
        sizes.append(len(messages))
        ok = len(messages) // 2
        finished.update(message.body for message in messages[: ok + 1])
        return BatchResult(ack_index=ok)

    async with filled(60, queues=1) as (broker, _, sent):
        settings = replace(FAST, batch_max=16)
        batches = PushConsumer(broker.nameserver, group="batches", batch_listener=handle, settings=settings)
        batches.subscribe(TOPIC)
        async with batches:
            await until(lambda: set(finished) == set(sent), "all finished, the failed ones later")
        assert max(sizes) == 16 and set(finished.values()) == {1}


async def test_tags_are_filtered_and_the_expression_may_change() -> None:
    async with filled(0) as (broker, producer, _):
        for tag in "ABC":
            await send(producer, ord(tag) * 100, 20, tags=tag)
        seen = Seen()
        tagged = PushConsumer(broker.nameserver, group="tags", listener=seen, settings=FAST)
        tagged.subscribe(TOPIC, "A || B")
        async with tagged:
            await until(lambda: len(seen.bodies) == 40)
            tagged.subscribe(TOPIC, "C")
            await until(lambda: not tagged._subscriptions.changed, "brokers were told")
            await send(producer, 1, 10, tags="A")
            late = await send(producer, 20_000, 10, tags="C")
            await until(lambda: seen.has(late))
        assert {message.tags for message in seen.messages[:40]} == {"A", "B"}
        assert {message.tags for message in seen.messages[40:]} == {"C"}


async def test_topics_come_and_go_while_consuming() -> None:
    async with filled(20) as (broker, producer, sent):
        seen = Seen()
        async with consumer(broker, "changing", seen) as changing:
            await until(lambda: seen.has(sent))
            other = await send(producer, 1_000, 20, topic="invoices")
            changing.subscribe("invoices")
            await until(lambda: seen.has(other))
            changing.unsubscribe("invoices")
            await until(lambda: "invoices" not in {queue.topic for queue in changing.assignment})
            await send(producer, 2_000, 5, topic="invoices")
            more = await send(producer, 3_000, 5)
            await until(lambda: seen.has(more))
        assert len(seen.bodies) == len(sent) + len(other) + len(more)


# --- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["function", "coroutine"])
async def test_whatever_a_listener_does_the_consumer_lives(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    tries: Counter[bytes] = Counter()
    mistakes: dict[bytes, Callable[[], object]] = {
        b"1": lambda: 1 / 0,
        b"2": lambda: 42,
        b"3": lambda: ConsumeStatus.RETRY,
        b"4": lambda: _raise(asyncio.CancelledError()),
    }

    def handle(message: ReceivedMessage) -> Any:
        tries[message.body] += 1
        return mistakes[message.body]() if message.body in mistakes and tries[message.body] == 1 else None

    async def handle_async(message: ReceivedMessage) -> Any:
        return handle(message)

    async with filled(20) as (broker, producer, sent):
        async with consumer(broker, "mistakes", handle if kind == "function" else handle_async):
            sent += await send(producer, 20, 20)
            await until(lambda: len(tries) == 40 and all(tries[body] == 2 for body in mistakes))
    assert sum(tries.values()) == 44


def _raise(error: BaseException) -> None:
    raise error


# --- groups --------------------------------------------------------------------------------------------------------


async def test_two_members_share_the_queues_and_one_takes_over_when_the_other_leaves() -> None:
    async with filled(40) as (broker, producer, sent):
        one, two = Seen(), Seen()
        async with consumer(broker, "sharing", one) as first:
            await until(lambda: len(_of_topic(first)) == 4)
            async with consumer(broker, "sharing", two) as second:
                await until(lambda: len(_of_topic(first)) == len(_of_topic(second)) == 2)
                assert not first.assignment & second.assignment
                before = len(two.bodies)
                sent += await send(producer, 40, 40)
                await until(lambda: set(one.bodies) | set(two.bodies) >= set(sent))
                assert len(two.bodies) > before, "the second got its share"
            await until(lambda: len(_of_topic(first)) == 4)
            more = await send(producer, 80, 40)
            await until(lambda: one.has(more))


async def test_members_that_come_and_go_all_the_time_lose_nothing(record_property: Property) -> None:
    seen: Counter[bytes] = Counter()

    async def handle(message: ReceivedMessage) -> None:
        await asyncio.sleep(0.001)
        seen[message.body] += 1

    async with filled(0) as (broker, producer, _):
        sent: list[bytes] = []
        members: list[PushConsumer] = []
        for turn in range(15):
            if turn % 3 == 2:
                await members.pop(0).close()
            else:
                members.append(consumer(broker, "restless", handle))
                await members[-1].open()
            sent += await send(producer, turn * 200, 200)
            await asyncio.sleep(0.2)  # the load itself: one change of the group every 200 ms
        while len(members) > 1:
            await members.pop().close()
        await until(lambda: set(seen) >= set(sent), "all messages")
        await members[0].close()
    record_property("messages consumed", len(sent))
    record_property("duplicates", sum(seen.values()) - len(sent))
    assert set(seen) == set(sent)


async def test_a_clean_stop_repeats_nothing_and_skips_nothing() -> None:
    async with filled(500) as (broker, _, sent):
        seen = Seen()
        stop = asyncio.Event()

        async def handle(message: ReceivedMessage) -> None:
            await asyncio.sleep(0.001)
            await seen(message)
            if len(seen.bodies) >= 100:
                stop.set()

        async with consumer(broker, "stopping", handle):
            await asyncio.wait_for(stop.wait(), PATIENCE_S)
        halfway = len(seen.bodies)
        assert 100 <= halfway < 500
        async with consumer(broker, "stopping", handle):
            await until(lambda: seen.has(sent))
        assert sorted(seen.bodies) == sorted(sent)


async def test_closing_waits_for_listeners_and_commits_what_they_did() -> None:
    began, finish, ended = threading.Event(), threading.Event(), []

    def handle(message: ReceivedMessage) -> None:
        began.set()
        finish.wait(60)
        ended.append(message.body)

    async with filled(1, queues=1) as (broker, _, _):
        waiting = consumer(broker, "waiting", handle)
        await waiting.open()
        await until(began.is_set)
        closing = asyncio.ensure_future(waiting.close())
        await asyncio.sleep(0)
        assert not closing.done()
        finish.set()
        await closing
        assert ended == [b"0"]
        seen = Seen()
        async with consumer(broker, "waiting", seen) as again:
            await until(lambda: len(_of_topic(again)) == 1)
            assert again.offsets(TOPIC)[QueueId(TOPIC, "broker-a", 0)] == 1
        assert seen.bodies == []


async def test_pausing_holds_messages_back_for_all_or_for_some_queues() -> None:
    async with filled(40, queues=2) as (broker, producer, sent):
        seen = Seen()
        async with consumer(broker, "pausing", seen) as pausing:
            await until(lambda: seen.has(sent))
            pausing.pause()
            held = await send(producer, 100, 20)
            await until(lambda: pausing.counts.pulled > 40, "pulls that were under way bring messages")
            assert not set(held) & set(seen.bodies), "they are not handed out"
            pausing.resume()
            await until(lambda: seen.has(held))
            queue = QueueId(TOPIC, "broker-a", 1)
            pausing.pause([queue])
            await send(producer, 200, 40)
            await until(lambda: len(seen.bodies) == 80)
            assert {message.queue_id for message in seen.messages[60:]} == {0}
            pausing.resume([queue])
            await until(lambda: len(seen.bodies) == 100)


async def test_flow_control_bounds_what_is_held() -> None:
    release, most = asyncio.Event(), 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal most
        most = max(most, *(len(owned.buffer) for owned in bounded._share.owned.values()))
        await release.wait()

    async with filled(400, queues=1) as (broker, _, _):
        limits = FlowLimits(messages_max=50)
        bounded = consumer(broker, "bounded", handle, limits=limits, concurrency_max=10)
        async with bounded:
            await until(lambda: bounded._flow.counts and sum(bounded._flow.counts.values()) >= 2)
            release.set()
            await until(lambda: bounded.counts.ok == 400)
    assert 50 < most <= 50 + 32, "one pull more than the limit at most"


# --- orderly -------------------------------------------------------------------------------------------------------


class Ordered:
    """Notices when two members have a queue at once, and when a queue goes backwards."""

    def __init__(self) -> None:
        self.active: dict[QueueId, str] = {}
        self.offsets: dict[QueueId, list[int]] = {}
        self.bodies: Counter[bytes] = Counter()
        self.overlaps = 0

    def listener(self, name: str) -> Callable[[ReceivedMessage], Any]:
        async def handle(message: ReceivedMessage) -> None:
            self.overlaps += message.queue in self.active
            self.active[message.queue] = name
            self.offsets.setdefault(message.queue, []).append(message.offset)
            await asyncio.sleep(0.001)
            del self.active[message.queue]
            self.bodies[message.body] += 1

        return handle


async def test_order_holds_while_members_come_and_go() -> None:
    async with filled(0) as (broker, producer, _):
        ordered, members, sent = Ordered(), list[PushConsumer](), list[bytes]()
        for turn in range(9):
            if turn % 3 == 2:
                await members.pop(0).close()
            else:
                members.append(consumer(broker, "ordered", ordered.listener(f"m{turn}"), orderly=True))
                await members[-1].open()
            sent += await send(producer, turn * 100, 100)
            await asyncio.sleep(0.2)  # the load itself: one change of the group every 200 ms
        await until(lambda: set(ordered.bodies) >= set(sent), "all messages")
        for member in members:
            await member.close()
        assert ordered.overlaps == 0, "a queue had two owners"
        for queue, offsets in ordered.offsets.items():
            assert offsets == list(range(len(offsets))), f"{queue} was not consumed in order, once"


async def test_a_failing_message_holds_its_queue_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    tries: Counter[int] = Counter()
    offsets: dict[int, list[int]] = {0: [], 1: []}
    heal = asyncio.Event()

    def handle(message: ReceivedMessage) -> OrderlyStatus | None:
        if message.queue_id == 0 and message.offset == 3:
            tries[3] += 1
            if not heal.is_set():
                if tries[3] % 2:
                    raise ValueError("sick")
                return OrderlyStatus.SUSPEND
        offsets[message.queue_id].append(message.offset)
        return None

    async with filled(0, queues=2) as (broker, producer, _):
        for number in range(20):
            queue = QueueId(TOPIC, "broker-a", number % 2)
            await producer.send(Message(TOPIC, b"%d" % number), queue=queue)
        async with consumer(broker, "holding", handle, orderly=True):
            await until(lambda: len(offsets[1]) == 10 and tries[3] > 3)
            assert offsets[0] == [0, 1, 2]
            heal.set()
            await until(lambda: len(offsets[0]) == 10)
        assert offsets[0] == offsets[1] == list(range(10))


async def test_a_lost_lock_stops_the_queue_until_it_is_granted_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    async with filled(10, queues=1) as (broker, producer, sent):
        seen, queue = Seen(), QueueId(TOPIC, "broker-a", 0)
        async with consumer(broker, "locked", seen, orderly=True, lock_ms=50) as locked, Client(_of(broker)) as other:
            await until(lambda: seen.has(sent))
            await other.routes.get(TOPIC, timeout_ms=30_000)
            thief, stolen = BrokerCalls(other, "locked"), set[QueueId]()
            while await thief.stored_offset(queue) != 10:  # noqa: ASYNC110 - who loses a lock commits nothing more
                await asyncio.sleep(0.01)
            while not stolen:
                locked._calls.unlock([queue])
                stolen, _ = await thief.lock([queue])
            await until(lambda: queue not in locked.assignment, "the lock was noticed as lost")
            late = await send(producer, 100, 5)
            assert not set(late) & set(seen.bodies)
            thief.unlock([queue])
            await until(lambda: seen.has(late), "taken again when it is free")
        assert sorted(seen.bodies) == sorted(sent + late)


async def test_a_busy_orderly_listener_keeps_its_queue_until_it_is_done() -> None:
    began, finish = asyncio.Event(), asyncio.Event()
    took: list[str] = []

    def listener(name: str) -> Callable[[ReceivedMessage], Any]:
        async def handle(message: ReceivedMessage) -> None:
            took.append(f"{name}{message.queue_id}")
            if name == "a" and message.queue_id == 1:
                began.set()
                await finish.wait()

        return handle

    async with filled(0, queues=2) as (broker, producer, _):
        client = [ClientSettings(nameservers=broker.nameserver, instance_name=name) for name in "ab"]
        settings = replace(FAST, orderly=True)
        a, b = (
            PushConsumer(listener=listener(name), client_settings=each, settings=settings, group="busy")
            for name, each in zip("ab", client, strict=True)
        )
        a.subscribe(TOPIC)
        b.subscribe(TOPIC)
        one = QueueId(TOPIC, "broker-a", 1)
        async with a:
            await producer.send(Message(TOPIC, b"held"), queue=one)
            await asyncio.wait_for(began.wait(), PATIENCE_S)
            async with b:
                owned = a._share.owned[one]
                await until(lambda: owned.ownership is Ownership.REVOKED, "the second queue shall go to b")
                await producer.send(Message(TOPIC, b"behind"), queue=one)
                await until(lambda: a._share.owned[one].unlocks_tried > 0)
                assert one not in b.assignment and took == ["a1"]
                finish.set()
                await until(lambda: one in b.assignment and took == ["a1", "b1"])


# --- broadcasting --------------------------------------------------------------------------------------------------


async def test_in_broadcasting_everybody_gets_everything_and_a_file_remembers(tmp_path: Path) -> None:
    async with filled(40) as (broker, producer, sent):
        one, two = Seen(), Seen()

        def member(name: str, seen: Seen) -> PushConsumer:
            settings = replace(FAST, broadcast=True, offsets_folder=tmp_path)
            client = ClientSettings(nameservers=broker.nameserver, instance_name=name)
            made = PushConsumer(listener=seen, settings=settings, client_settings=client, group="all")
            made.subscribe(TOPIC)
            return made

        async with member("one", one), member("two", two):
            await until(lambda: one.has(sent) and two.has(sent))
            async with Admin(broker.nameserver) as admin:
                with pytest.raises(ConfigError, match="group all broadcasts: each member keeps its own offsets"):
                    await admin.offsets.plan_reset("all", TOPIC)
                with pytest.raises(ConfigError, match="group all broadcasts"):
                    await admin.offsets.reset("all", TOPIC)
        assert len(one.bodies) == len(two.bodies) == 40
        files = await asyncio.to_thread(lambda: sorted(tmp_path.rglob("offsets.json")))
        assert [path.parent.parent.name.partition("@")[2] for path in files] == ["one", "two"]
        more = await send(producer, 100, 10)
        async with member("one", one):
            await until(lambda: one.has(more))
        assert sorted(one.bodies) == sorted(sent + more), "goes on where it was"


async def test_two_broadcasting_members_never_share_a_file_of_offsets(tmp_path: Path) -> None:
    """They overwrote each other's progress, and after a restart one of them missed messages."""
    async with filled(4) as (broker, *_):

        def member(**named: Any) -> PushConsumer:
            settings = replace(FAST, broadcast=True, offsets_folder=tmp_path)
            return PushConsumer(
                broker.nameserver, listener=Seen(), settings=settings, group="all", topics=TOPIC, **named
            )

        async with member():
            with pytest.raises(ConfigError, match="give each member an instance_name= of its own that lasts"):
                await member().open()
            async with member(instance_name="second"):
                pass
        async with member():
            pass
        files = await asyncio.to_thread(lambda: sorted(tmp_path.rglob("offsets.json")))
        assert [path.parent.parent.name.partition("@")[2] for path in files] == ["DEFAULT", "second"]


async def test_a_broadcasting_member_gets_all_that_was_sent_after_it_was_open(tmp_path: Path) -> None:
    """A topic that its first message creates is found a while later: 16 of 40 messages arrived."""
    seen = Seen()
    settings = replace(FAST, broadcast=True, offsets_folder=tmp_path, start="latest")
    async with LoopbackBroker() as broker, Producer(broker.nameserver, group="makers") as producer:
        old = await send(producer, 1_000, 8, topic="old")
        async with PushConsumer(
            broker.nameserver, listener=seen, settings=settings, group="all", topics=["old", "new"]
        ):
            sent = await send(producer, 0, 40, topic="new") + await send(producer, 100, 40, topic="old")
            await until(lambda: seen.has(sent))
        assert sorted(seen.bodies) == sorted(sent) and not set(old) & set(seen.bodies)


# --- an offset store of the application ----------------------------------------------------------------------------


class Progress:
    """Offsets in memory; ``broken`` is what a database does at times."""

    def __init__(self) -> None:
        self.offsets: dict[QueueId, int] = {}
        self.broken = False

    def load(self, queue: QueueId) -> int | None:
        self._check()
        return self.offsets.get(queue)

    def save(self, offsets: Mapping[QueueId, int]) -> None:
        self._check()
        self.offsets.update(offsets)

    def _check(self) -> None:
        if self.broken:
            raise OSError("no database")


class AsyncProgress(Progress):
    async def load(self, queue: QueueId) -> int | None:  # type: ignore[override]
        return super().load(queue)

    async def save(self, offsets: Mapping[QueueId, int]) -> None:  # type: ignore[override]
        super().save(offsets)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("kind", [Progress, AsyncProgress])
@pytest.mark.parametrize("broadcast", [False, True])
async def test_offsets_are_kept_where_the_application_wants_them(kind: type[Progress], broadcast: bool) -> None:
    store, seen = kind(), Seen()

    def member() -> PushConsumer:
        return PushConsumer(
            broker.nameserver,
            group="own",
            listener=seen,
            topics=TOPIC,
            settings=replace(FAST, broadcast=broadcast),
            offset_store=store,
        )

    async with filled(20) as (broker, producer, sent):
        async with member():
            await until(lambda: seen.has(sent))
        assert sum(store.offsets.values()) == 20
        more = await send(producer, 100, 10)
        store.broken = True
        async with member() as waiting:
            await asyncio.sleep(0)
            assert not waiting.assignment
            store.broken = False
            await until(lambda: seen.has(more))
        assert sorted(seen.bodies) == sorted(sent + more), "goes on where it was"
        assert sum(store.offsets.values()) == 30
        store.offsets.update(dict.fromkeys(store.offsets, 0))
        async with member():
            await until(lambda: len(seen.bodies) == 60)

    with pytest.raises(ConfigError, match="offset_store must have load"):
        PushConsumer(group="own", listener=seen, topics=TOPIC, offset_store=object())  # type: ignore[arg-type]


# --- brokers that die ----------------------------------------------------------------------------------------------


async def test_consuming_goes_on_by_itself_after_a_broker_was_killed(
    tmp_path: Path, record_property: Property, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    seen: Counter[bytes] = Counter()
    acknowledged: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        seen[message.body] += 1

    async def produce(producer: Producer) -> None:
        for number in range(1_000_000):
            body = b"%d" % number
            try:
                await producer.send(Message(TOPIC, body), timeout_ms=1_000)
            except MQError:
                await asyncio.sleep(0.05)
            else:
                acknowledged.append(body)

    async with AsyncServerProcess("up", data=tmp_path / "data") as server:
        settings = ClientSettings(nameservers=server.nameserver, backoff=Backoff(first_ms=50, ceiling_ms=300))
        async with Producer(client_settings=settings, group="makers") as producer:
            await producer.send(Message(TOPIC, b"first"))
            members = [
                PushConsumer(listener=handle, client_settings=settings, settings=FAST, group="readers")
                for _ in range(2)
            ]
            for member in members:
                member.subscribe(TOPIC)
                await member.open()
            load = asyncio.ensure_future(produce(producer))
            for _ in range(2):
                mark = len(acknowledged)
                await until(lambda: len(acknowledged) > mark + 200 and len(seen) > mark, "load")  # noqa: B023
                await server.kill()
                await server.start()
            mark = len(acknowledged)
            await until(lambda: len(acknowledged) > mark + 200, "sending goes on")
            load.cancel()
            await asyncio.gather(load, return_exceptions=True)
            await until(lambda: set(seen) >= set(acknowledged), "nothing acknowledged is lost")
            for member in members:
                await member.close()
    record_property("messages consumed", len(acknowledged))
    record_property("duplicates", sum(seen.values()) - len(seen))
    record_property("processes killed", 2)


# --- what brokers ask ----------------------------------------------------------------------------------------------


async def test_an_operator_can_move_the_group() -> None:
    async with filled(20, queues=1) as (broker, _, sent):
        seen, queue = Seen(), QueueId(TOPIC, "broker-a", 0)
        async with consumer(broker, "moved", seen) as moved:
            await until(lambda: seen.has(sent))
            moved.reset_offsets(ResetOffsetHeader(topic=TOPIC, group="moved", timestamp=0), {queue: 15})
            await until(lambda: len(seen.bodies) == 25)
            assert [message.offset for message in seen.messages[20:]] == [15, 16, 17, 18, 19]
            assert moved.offsets(TOPIC) == {queue: 20}


async def test_it_tells_about_itself_and_tries_a_message() -> None:
    async with filled(10, queues=1) as (broker, _, sent):
        seen = Seen()
        async with consumer(broker, "telling", seen) as telling:
            await until(lambda: seen.has(sent))
            header = ConsumerRunningInfoHeader(consumer_group="telling", client_id="", jstack_enable=True)
            info = telling.running_info(header)
            assert b'"PROP_CONSUMEORDERLY":"false"' in info and b'"commitOffset":10' in info and b"task" in info
            assert b'"consumeOKTPS"' in info
            outcome = await telling.consume_directly(ConsumeDirectlyHeader(consumer_group="telling"), seen.messages[0])
            assert msgspec.json.decode(outcome)["consumeResult"] == "CR_SUCCESS"


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs listener="):
        PushConsumer(group="nobody")
    with pytest.raises(ConfigError, match="batch_max is for a batch_listener"):
        PushConsumer(group="one", listener=print, settings=PushConsumerSettings(batch_max=2))
    with pytest.raises(ConfigError, match="batch_max must be 1 to 1024"):
        PushConsumerSettings(batch_max=1025)
    for levels in ({0: 1}, {1: -2}):
        with pytest.raises(ConfigError, match="retry_levels"):
            PushConsumerSettings(retry_levels=levels)


def _of(broker: Any) -> ClientSettings:
    return ClientSettings(nameservers=broker.nameserver)


def _of_topic(member: PushConsumer) -> frozenset[QueueId]:
    return frozenset(queue for queue in member.assignment if queue.topic == TOPIC)
