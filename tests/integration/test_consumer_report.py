"""What an operator sees of a consumer: which message holds up a queue, and what holds pulls back."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pyromq.aio import PushConsumer, QueueId, ReceivedMessage
from pyromq.client.consumer.base.running_info import HeadOfLine, flow_counts, heads_of_line
from pyromq.client.consumer.rules.buffer_state import Stage
from pyromq.client.consumer.rules.flow_control import FlowLimits, Hold
from pyromq.client.consumer.rules.queue_lock import TRUSTED_MS
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.headers.shared import ConsumerRunningInfoHeader
from tests.integration.quick_consumer import QUEUE, quick_consumer
from tests.integration.scripted_queues import NAME, ScriptedQueues, scripted_queues
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

GROUP = "watched"


async def ask(broker: ScriptedQueues, member: PushConsumer) -> bytes:
    """As a tool does, through the broker (307)."""
    header = ConsumerRunningInfoHeader(consumer_group=GROUP, client_id=member.client.id, jstack_enable=False)
    connection = broker.members[member.client.id]
    answer = await connection.request(Code.GET_CONSUMER_RUNNING_INFO, header, timeout_ms=30_000)
    assert answer.code == 0
    return bytes(answer.body)


# --- head of line ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("kind", ["function", "coroutine"])
async def test_the_message_that_holds_up_a_queue_is_shown_with_the_stack_of_its_listener(
    kind: str, orderly: bool
) -> None:
    release = threading.Event()

    def wait_for_the_bank(message: ReceivedMessage) -> None:
        if message.body == b"stuck":
            release.wait(60)

    async def ask_the_bank() -> None:
        while not release.is_set():  # noqa: ASYNC110 - the same event for both kinds
            await asyncio.sleep(0.005)

    async def handle(message: ReceivedMessage) -> None:
        if message.body == b"stuck":
            await ask_the_bank()

    async with scripted_queues(GROUP, queues=2) as broker:
        broker.put(b"fine")
        broker.put(b"stuck", properties={"KEYS": "order-7 eu"}, attempt=2)
        broker.put(b"behind")
        broker.put(b"elsewhere", queue=1)
        listener = wait_for_the_bank if kind == "function" else handle
        async with quick_consumer(broker, listener, orderly=orderly) as member:
            await until(lambda: broker.committed[QUEUE] == 1 and broker.committed[QueueId("T", NAME, 1)] == 1)
            (head,) = heads_of_line(await ask(broker, member))
            release.set()
            await until(lambda: broker.committed[QUEUE] == 3)
            assert heads_of_line(await ask(broker, member)) == []
        assert (head.topic, head.broker_name, head.queue_id, head.offset) == ("T", NAME, 0, 1)
        assert (head.message_id, head.keys, head.attempt, head.stage) == (
            *("ID-stuck", ("order-7", "eu"), 2),
            Stage.CONSUMING,
        )
        assert head.since_ms > 1_600_000_000_000 and head.age_ms > 1_600_000_000_000, "it was stored in 1970"
        assert head.stack is not None
        assert ("wait_for_the_bank" if kind == "function" else "ask_the_bank") in head.stack


async def test_a_message_on_its_way_back_is_shown_as_such() -> None:
    async def fail(message: ReceivedMessage) -> None:
        raise ValueError("no")

    async with scripted_queues(GROUP) as broker:
        broker.codes[Code.CONSUMER_SEND_MSG_BACK] = None
        broker.put(b"0")
        async with quick_consumer(broker, fail, close_timeout_ms=1) as member:
            await until(lambda: broker.asked[Code.CONSUMER_SEND_MSG_BACK])
            (head,) = heads_of_line(await ask(broker, member))
            assert (head.offset, head.stage, head.since_ms, head.stack) == (0, Stage.LEAVING, 0, None)
            broker.answer(broker.asked[Code.CONSUMER_SEND_MSG_BACK][0])


async def test_only_the_longest_running_listeners_show_their_stacks() -> None:
    release = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        await release.wait()

    async with scripted_queues(GROUP, queues=40) as broker:
        for queue in range(40):
            broker.put(b"%d" % queue, queue=queue)
        async with quick_consumer(broker, handle) as member:
            await until(lambda: sum(head.since_ms > 0 for head in member.heads) == 40)
            heads = heads_of_line(await ask(broker, member))
            release.set()
        assert len(heads) == 40 and sum(head.stack is not None for head in heads) == 32


# --- flow control ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hold", "limits", "body"),
    [
        (Hold.MESSAGES, FlowLimits(messages_max=50), b"x"),
        (Hold.BYTES, FlowLimits(bytes_max=100_000), b"x" * 5_000),
    ],
)
async def test_a_consumer_that_holds_enough_pulls_no_more_until_there_is_room(
    hold: Hold, limits: FlowLimits, body: bytes
) -> None:
    release = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        await release.wait()

    async with scripted_queues(GROUP) as broker:
        for number in range(300):
            broker.put(body, unique_id=f"ID-{number}")
        async with quick_consumer(broker, handle, limits=limits, concurrency_max=4) as member:
            await until(lambda: member.flow_counts[hold] >= 2)
            assert member.counts.pulled <= 50 + 32
            assert flow_counts(await ask(broker, member))[hold] >= 2
            release.set()
            await until(lambda: broker.committed[QUEUE] == 300)
            assert {other for other, count in member.flow_counts.items() if count} == {hold}


async def test_messages_that_are_stuck_far_apart_hold_pulls_back_until_the_first_is_done() -> None:
    release = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        if message.offset in (0, 80):
            await release.wait()

    async with scripted_queues(GROUP) as broker:
        for number in range(300):
            broker.put(b"%d" % number)
        async with quick_consumer(broker, handle, limits=FlowLimits(span_max=64)) as member:
            await until(lambda: member.counts.ok == 94 and member.flow_counts[Hold.SPAN] >= 2)
            assert member.counts.pulled == 96 and member.heads[0].offset == 0
            assert flow_counts(await ask(broker, member))[Hold.SPAN] >= 2
            release.set()
            await until(lambda: broker.committed[QUEUE] == 300)
            assert {hold for hold, count in member.flow_counts.items() if count} == {Hold.SPAN}


async def test_an_orderly_consumer_pulls_nothing_while_its_lock_is_in_doubt() -> None:
    clock = ManualClock()
    seen: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.offset)

    async with scripted_queues(GROUP) as broker:
        async with quick_consumer(broker, handle, clock=clock, orderly=True) as member:
            await until(lambda: QUEUE in member.assignment)
            broker.codes[Code.LOCK_BATCH_MQ] = 1
            await until(lambda: broker.asked[Code.LOCK_BATCH_MQ])
            clock.advance_ms(TRUSTED_MS + 1)
            broker.put(b"0")
            await until(lambda: member.flow_counts[Hold.NOT_LOCKED] == 1)
            assert seen == [] and flow_counts(await ask(broker, member))[Hold.NOT_LOCKED] == 1
            broker.codes[Code.LOCK_BATCH_MQ] = 0
            await until(lambda: seen == [0])


def test_what_another_client_tells_has_no_heads_and_no_counts() -> None:
    body = b'{"properties":{"PROP_CONSUMEORDERLY":"false"},"mqTable":{}}'
    assert heads_of_line(body) == list[HeadOfLine]() and flow_counts(body) == {}
