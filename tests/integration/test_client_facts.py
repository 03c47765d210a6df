"""What clients know and say of themselves: subscriptions that differ, queues that are held up, filtered messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from pyromq import Message, ReceivedMessage
from pyromq.aio import Admin, Producer, PullConsumer, PushConsumer
from pyromq.model.queue import QueueId
from pyromq.model.topic import GroupConfig
from pyromq.testing import LoopbackBroker
from pyromq.wire.headers.shared import ConsumerRunningInfoHeader
from pyromq.wire.json import java_json

pytestmark = pytest.mark.integration

QUEUE = QueueId("orders", "broker-a", 0)
DIFFERENT = "members of a group have different subscriptions"


def on_own_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test on asyncio's own loop, which virtual time needs."""

    @wraps(test)
    def run(**given: Any) -> None:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(test(**given))

    return run


def virtual() -> LoopbackBroker:
    """A cluster whose time passes when nothing else is to be done."""
    return LoopbackBroker(virtual_time=True, sockets=False)


async def listen(_: ReceivedMessage) -> None:
    """Succeeds."""


async def send(broker: LoopbackBroker, *tags: str) -> None:
    async with Producer(broker.nameserver, group="shop") as producer:
        for number, tag in enumerate(tags):
            await producer.send(Message("orders", b"%d" % number, tags=tag, sharding_key="k"))


def lines(caplog: pytest.LogCaptureFixture, logger: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == logger and each.levelno == logging.WARNING]


@on_own_loop
async def test_members_with_different_tags_read_so_in_their_own_log(caplog: pytest.LogCaptureFixture) -> None:
    async with virtual() as broker:
        await send(broker, "new")
        push: dict[str, Any] = {"group": "billing", "listener": listen}
        async with (
            PushConsumer(broker.nameserver, topics={"orders": "new"}, instance_name="one", **push),
            PushConsumer(broker.nameserver, topics={"orders": "paid"}, instance_name="two", **push),
        ):
            await asyncio.sleep(60)
        said = lines(caplog, "pyromq.client.core.heartbeats")
        assert sorted(said) == [
            f"{DIFFERENT}: group=billing: this client subscribes to orders (new), others to orders (paid)",
            f"{DIFFERENT}: group=billing: this client subscribes to orders (paid), others to orders (new)",
        ], "each of them, once"
        [line] = lines(caplog, "pyromq.broker.state.members")
        assert "subscribes to orders (paid), most others to orders (new)" in line


@on_own_loop
async def test_a_push_and_a_lite_pull_consumer_with_the_same_tags_raise_no_alarm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with virtual() as broker:
        await send(broker, "new")
        async with (
            PushConsumer(broker.nameserver, group="billing", listener=listen, topics={"orders": "new || paid"}),
            PullConsumer(
                broker.nameserver, group="billing", topics={"orders": "paid||new"}, instance_name="two"
            ) as pull,
        ):
            await pull.poll(timeout_ms=60_000)
        assert not [each for each in caplog.messages if DIFFERENT in each]


@pytest.mark.parametrize("options", [{}, {"orderly": True}], ids=["concurrent", "orderly"])
@pytest.mark.parametrize("is_late", [False, True], ids=["sent before", "sent while a pull waits"])
@on_own_loop
async def test_messages_that_a_filter_passes_over_leave_no_lag(options: dict[str, Any], is_late: bool) -> None:
    async with virtual() as broker:
        async with Admin(broker.nameserver) as admin:
            await admin.topics.create("orders", queues=1)
            await send(broker, *["new"] * 10, *([] if is_late else ["old"] * 10))
            count = 0

            async def count_it(_: ReceivedMessage) -> None:
                nonlocal count
                count += 1

            how = {"topics": {"orders": "new"}, "start": "earliest", **options}
            async with PushConsumer(broker.nameserver, group="billing", listener=count_it, **how):
                await asyncio.sleep(10)
                if is_late:
                    await send(broker, *["old"] * 10)
                await asyncio.sleep(30)
                held = (await admin.groups.lag("billing"))[QUEUE]
                assert (count, held.consumer_offset, held.broker_offset) == (10, 20, 20)


@on_own_loop
async def test_progress_never_passes_an_unfinished_message_whatever_is_filtered_out_behind_it() -> None:
    async with virtual() as broker:
        async with Admin(broker.nameserver) as admin:
            await admin.topics.create("orders", queues=1)
            await send(broker, "new", "new", *["old"] * 10)
            release = asyncio.Event()

            async def stuck(message: ReceivedMessage) -> None:
                if message.offset == 1:
                    await release.wait()

            how: dict[str, Any] = {"topics": {"orders": "new"}, "start": "earliest"}
            async with PushConsumer(broker.nameserver, group="billing", listener=stuck, **how):
                await asyncio.sleep(60)
                assert (await admin.groups.lag("billing"))[QUEUE].consumer_offset == 1
                release.set()
                await asyncio.sleep(30)
                assert (await admin.groups.lag("billing"))[QUEUE].consumer_offset == 12


@on_own_loop
async def test_an_orderly_queue_that_is_held_up_tells_why_and_parking_keeps_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with virtual() as broker:

        async def refuse(message: ReceivedMessage) -> None:
            if message.offset == 0:
                raise ValueError("no such customer")

        async with Admin(broker.nameserver) as admin:
            await admin.topics.create("orders", queues=1)
            await send(broker, "a", "b")
            how: dict[str, Any] = {"topics": "orders", "start": "earliest", "orderly": True}
            async with PushConsumer(broker.nameserver, group="billing", listener=refuse, **how):
                await asyncio.sleep(3.5)
                queues = (await admin.groups.describe("billing", "orders")).queues
                [head] = [each for each in queues if each.queue == QUEUE]
                assert head.story is not None and head.attempt == head.story.count >= 3
                assert (head.offset, head.error) == (0, "ValueError: no such customer")
                await admin.groups.park("billing", QUEUE)
                await asyncio.sleep(30)
                assert (await admin.groups.lag("billing"))[QUEUE].consumer_offset == 2
                [letter] = await _letters(admin)
                story = letter.failure_story
                assert story is not None and story.newest.error_class == "parked" and story.count >= head.attempt + 1
                assert story.first.line == "ValueError: no such customer"
                assert story.newest.attempt == story.count
        failed = [each for each in caplog.messages if each.startswith("listener failed")]
        assert failed and all("group=billing" in each for each in failed)


async def _letters(admin: Admin) -> list[ReceivedMessage]:
    queues = (await admin.topics.route("%DLQ%billing")).readable_queues("%DLQ%billing")
    return [message for queue in queues for message in (await admin.messages.read(queue, 0, count_max=8)).messages]


@on_own_loop
async def test_a_pull_consumer_says_what_it_subscribes_to_and_which_queues_it_has() -> None:
    async with virtual() as broker:
        async with (
            Admin(broker.nameserver) as admin,
            PullConsumer(broker.nameserver, group="billing", topics={"orders": "new"}) as consumer,
        ):
            await admin.topics.create("orders", queues=4)
            await consumer.poll(timeout_ms=30_000)
            header = ConsumerRunningInfoHeader(consumer_group="billing", client_id=consumer.client.id)
            told = java_json.parse(consumer.running_info(header))
            assert [(each["topic"], each["subString"]) for each in told["subscriptionSet"]] == [("orders", "new")]
            [state] = await admin.members.states("billing")
            assert (state.subscriptions, len(state.queues), state.problem) == (frozenset({("orders", "new")}), 4, "")


@on_own_loop
async def test_a_group_that_is_paused_while_its_pull_waits_gets_nothing_until_it_is_resumed() -> None:
    async with virtual() as broker:
        await send(broker, "first")
        seen: list[bytes] = []

        async def note(message: ReceivedMessage) -> None:
            seen.append(message.body)

        groups = broker.broker.parts.tables.groups
        async with PushConsumer(broker.nameserver, group="billing", listener=note, topics="orders", start="earliest"):
            await asyncio.sleep(10)
            assert seen == [b"0"]
            groups.update(GroupConfig(group_name="billing", consume_enable=False))
            await send(broker, "second", "third")
            await asyncio.sleep(60)
            assert seen == [b"0"], "also the pull that was held when the group was paused is refused"
            groups.update(GroupConfig(group_name="billing"))
            await asyncio.sleep(60)
            assert seen == [b"0", b"0", b"1"]
