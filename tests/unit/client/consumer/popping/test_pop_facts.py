"""What operators see of popped messages: in flight, attempts, invisible until when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyromq.aio import Admin, Message, Producer, SimpleConsumer
from pyromq.cli.nouns.group_view import describe_group, lag_row
from pyromq.testing import LoopbackBroker
from pyromq.wire.json import bodies

pytestmark = pytest.mark.usefixtures("quiet")
TOPIC, GROUP = "orders", "billing"


def with_popped(test: Any) -> None:
    """Four messages in one queue: the first is with a consumer for the second time, the second acknowledged, the third
    received for the first time, the fourth was never received."""

    async def run() -> None:
        async with (
            LoopbackBroker(virtual_time=True, sockets=False) as broker,
            Admin(broker.nameserver) as admin,
            Producer(broker.nameserver, group="shop") as producer,
            SimpleConsumer(broker.nameserver, group=GROUP, topics=TOPIC, start="earliest", invisible=30) as consumer,
        ):
            await admin.topics.create(TOPIC, queues=1)
            receipts = [await producer.send(Message(TOPIC, b"%d" % number)) for number in range(4)]
            (first,) = await consumer.receive(1)
            await consumer.release(first)
            (first,) = await consumer.receive(1)
            second, _third = await consumer.receive(2)
            await consumer.ack(second)
            await test(broker, admin, [receipt.message_id for receipt in receipts])

    asyncio.run(run())


def test_lag_says_how_many_are_in_flight() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, ids: list[str]) -> None:
        ((queue, held),) = (await admin.groups.lag(GROUP)).items()
        assert (held.broker_offset, held.consumer_offset, held.pull_offset, held.in_flight) == (4, 0, 3, 2)
        row = lag_row(queue, held)
        assert (row["lag"], row["in_flight"]) == (4, 2)
        assert isinstance(held.popped, bodies.PoppedProgress)
        assert (held.popped.settled, held.popped.ready, held.popped.attempts) == (1, 0, 2)
        await broker.advance(seconds=31)
        ((queue, held),) = (await admin.groups.lag(GROUP)).items()
        assert isinstance(held.popped, bodies.PoppedProgress)
        assert (held.in_flight, held.popped.ready, held.popped.invisible_until) == (0, 2, 0)

    with_popped(test)


def test_describe_says_who_waits_for_what() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, ids: list[str]) -> None:
        state = await admin.groups.describe(GROUP)
        assert state.in_flight == 2
        (head,) = state.queues
        assert (head.offset, head.attempt, head.stage) == (0, 1, "in flight")
        assert 0 < head.invisible_until_ms - broker.now_ms() <= 30_000
        told = await describe_group(admin, GROUP, "")
        assert told["queues"][0]["in_flight"] == 2

    with_popped(test)


def test_the_doctor_knows_messages_that_are_received_again_and_again_and_no_idle_members() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, ids: list[str]) -> None:
        async with SimpleConsumer(broker.nameserver, group=GROUP, topics=TOPIC, invisible=5) as second:
            about = f"group {GROUP}"
            assert [each.text for each in await admin.health.findings() if each.about == about] == []
            await broker.advance(seconds=31)
            for _ in range(3):
                await second.receive(1)
                await broker.advance(seconds=6)
            (finding,) = [each for each in await admin.health.findings() if each.about == about]
            assert finding.text.startswith(
                "a message was received 5 times and never acknowledged (orders, broker-a queue 0"
            )
            assert finding.command == f"pyromq message explain {ids[0]} --topic {TOPIC}"

    with_popped(test)


def test_explain_knows_each_message() -> None:
    async def test(broker: LoopbackBroker, admin: Admin, ids: list[str]) -> None:
        async def story(number: int) -> tuple[str, str, int]:
            (found,) = (await admin.messages.explain(TOPIC, ids[number])).groups
            return found.state.value, found.text, found.failures

        state, text, failures = await story(0)
        assert (state, failures) == ("in flight", 1)
        assert text.startswith("Delivered twice; invisible to others until ")
        assert (await story(1))[:2] == (
            "consumed",
            "Acknowledged; an older message of the queue is not, so the committed offset stands before it.",
        )
        assert (await story(3))[0] == "waiting"
        await broker.advance(seconds=31)
        state, text, failures = await story(0)
        assert (state, failures) == ("retrying", 2)
        assert "never acknowledged" in text

    with_popped(test)
