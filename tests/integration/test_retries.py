"""Retries and dead letters, from a failing listener through a real broker and back."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from pyromq.aio import (
    Admin,
    ConsumeStatus,
    Message,
    OrderlyStatus,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from pyromq.model.topic import GroupConfig
from pyromq.results import BatchResult
from pyromq.settings import PullConsumerSettings, PushConsumerSettings
from pyromq.testing import LoopbackBroker
from tests.integration.quick_delays import QUICK_DELAYS
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

Property = Callable[[str, object], None]
FAST = PushConsumerSettings(start="earliest", rebalance_ms=500, persist_ms=100, retry_wait_ms=100, rest_ms=10)
TOPIC = "orders"


@asynccontextmanager
async def filled(count: int) -> AsyncIterator[LoopbackBroker]:
    async with LoopbackBroker(QUICK_DELAYS) as broker:
        async with Admin(broker.nameserver) as admin, Producer(broker.nameserver, group="makers") as producer:
            await admin.topics.create(TOPIC, queues=2)
            await asyncio.gather(*(producer.send(Message(TOPIC, b"%d" % number)) for number in range(count)))
        yield broker


def consumer(broker: LoopbackBroker, group: str, listener: Any, **changes: Any) -> PushConsumer:
    made = PushConsumer(broker.nameserver, group=group, listener=listener, settings=replace(FAST, **changes))
    made.subscribe(TOPIC)
    return made


async def dead_letters(broker: LoopbackBroker, group: str, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    settings = PullConsumerSettings(start="earliest", rebalance_ms=200)
    async with PullConsumer(broker.nameserver, group="undertaker", settings=settings) as reader, asyncio.timeout(60):
        reader.subscribe(f"%DLQ%{group}")
        while len(found) < count:
            found += await reader.poll(timeout_ms=500)
    return found


async def test_a_message_comes_again_with_its_topic_and_one_attempt_more_until_it_succeeds() -> None:
    seen: dict[bytes, list[ReceivedMessage]] = defaultdict(list)

    async def handle(message: ReceivedMessage) -> None:
        seen[message.body].append(message)
        if message.body == b"3" and len(seen[b"3"]) < 4:
            raise ValueError("not yet")

    async with filled(10) as broker:
        async with consumer(broker, "again", handle) as member:
            await until(lambda: len(seen) == 10 and len(seen[b"3"]) == 4)
            await until(lambda: sum(member.offsets(TOPIC).values()) == 10)
        first, *others = seen[b"3"]
        assert [message.delivery_attempt for message in (first, *others)] == [0, 1, 2, 3]
        assert {message.topic for message in others} == {TOPIC}
        assert {message.stored_topic for message in others} == {"%RETRY%again"}
        assert {message.origin_message_id for message in others} == {first.offset_message_id}
        assert {message.message_id for message in others} == {first.message_id}
        assert sum(map(len, seen.values())) == 13


async def test_a_message_that_fails_too_often_or_is_given_up_on_becomes_a_dead_letter() -> None:
    tries: Counter[bytes] = Counter()

    async def handle(message: ReceivedMessage) -> ConsumeStatus | BatchResult:
        tries[message.body] += 1
        if message.body == b"1":
            return ConsumeStatus.RETRY
        return BatchResult(ConsumeStatus.RETRY, delay_level=-1) if message.body == b"2" else ConsumeStatus.SUCCESS

    async with filled(4) as broker:
        async with consumer(broker, "mortal", handle, attempts_max=2):
            dead = {message.body: message for message in await dead_letters(broker, "mortal", 2)}
        assert dead.keys() == {b"1", b"2"} and dead[b"1"].get("RETRY_TOPIC") == TOPIC
        assert tries == {b"0": 1, b"1": 3, b"2": 1, b"3": 1}


async def test_the_limit_of_the_group_counts_for_a_consumer_that_sets_none() -> None:
    tries: Counter[bytes] = Counter()

    async def handle(message: ReceivedMessage) -> ConsumeStatus:
        tries[message.body] += 1
        return ConsumeStatus.RETRY

    async with filled(1) as broker:
        async with Admin(broker.nameserver) as admin:
            await admin.groups.create(GroupConfig(group_name="limited", retry_max_times=1))
        async with consumer(broker, "limited", handle):
            (dead,) = await dead_letters(broker, "limited", 1)
        assert (dead.body, tries[b"0"]) == (b"0", 2)


async def test_an_orderly_consumer_buries_what_failed_too_often() -> None:
    tries: Counter[bytes] = Counter()

    async def handle(message: ReceivedMessage) -> OrderlyStatus:
        tries[message.body] += 1
        return OrderlyStatus.SUSPEND if message.body == b"1" else OrderlyStatus.SUCCESS

    async with filled(6) as broker:
        async with consumer(broker, "solemn", handle, orderly=True, attempts_max=2):
            (dead,) = await dead_letters(broker, "solemn", 1)
            await until(lambda: len(tries) == 6)
        assert (dead.body, dead.get("RETRY_TOPIC"), tries[b"1"]) == (b"1", TOPIC, 3)


async def test_nothing_is_lost_whatever_listeners_and_members_do(record_property: Property) -> None:
    """Every message ends as consumed or as a dead letter, while listeners fail, hang and members come and go."""
    seed = random.randrange(1 << 32)
    print(f"seed={seed}")
    rng = random.Random(seed)
    done: set[bytes] = set()
    failures = 0

    async def handle(message: ReceivedMessage) -> ConsumeStatus:
        nonlocal failures
        fate = rng.random()
        if fate < 0.3:
            failures += 1
            raise ValueError("bad luck")
        if fate < 0.32:
            await asyncio.sleep(0.5)  # longer than the timeout; its success does not count
            return ConsumeStatus.SUCCESS
        done.add(message.body)
        return ConsumeStatus.SUCCESS

    async with filled(400) as broker:
        members = []
        changes = {"attempts_max": 3, "consume_timeout_ms": 150, "close_timeout_ms": 5_000}
        for _ in range(3):
            members.append(consumer(broker, "unlucky", handle, **changes))
            await members[-1].open()
            await asyncio.sleep(0.3)  # the load itself: the group changes while it consumes
        await members.pop(0).close()

        reader = PullConsumer(
            broker.nameserver, group="undertaker", settings=PullConsumerSettings(start="earliest", rebalance_ms=200)
        )
        reader.subscribe("%DLQ%unlucky")
        dead: set[bytes] = set()
        async with reader, asyncio.timeout(90):
            while len(done | dead) < 400:
                dead |= {message.body for message in await reader.poll(timeout_ms=200)}
        for member in members:
            await member.close()
    record_property("listener calls that failed", failures)
    record_property("dead letters", len(dead))
    assert done | dead == {b"%d" % number for number in range(400)}
