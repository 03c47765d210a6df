"""Why messages failed, from every kind of consumer through a real broker into retry and dead letter.

Each case runs twice: with a broker that takes stories with send-backs, and with one that does not say so, as Apache's.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

import pyromq
from pyromq import App, ConsumeStatus, Message, OrderlyStatus, ReceivedMessage
from pyromq.aio import Admin, Producer, PushConsumer
from pyromq.broker.admin import client_requests
from pyromq.broker.sending.send_back import SendBackHandler
from pyromq.client.consumer.rules.failure_capture import MASK_FAILED
from pyromq.errors import ConfigError, DeadLetterError, GroupNotFoundError
from pyromq.hooks import ConsumeHook, install, uninstall
from pyromq.integrations.task_queues import SyncTaskQueues, TaskQueues
from pyromq.model.failure import STORY_NAMES, FailureStory
from pyromq.model.topic import GroupConfig
from pyromq.results import BatchResult
from pyromq.settings import PushConsumerSettings
from pyromq.testing import FaultyDisk, LoopbackBroker
from pyromq.wire.headers.consumer import HeartbeatResponseHeader
from tests.integration.quick_delays import QUICK_DELAYS
from tests.integration.waiting import until, until_on_thread

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

FAST = PushConsumerSettings(
    start="earliest",
    rebalance_ms=100,
    persist_ms=100,
    retry_wait_ms=100,
    rest_ms=10,
    attempts_max=2,
    code_version="7.1",
)
TOPIC = "orders"


class CardDeclinedError(Exception):
    pass


class HostileError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Order(msgspec.Struct):
    id: int


@pytest.fixture(params=["pyromq", "like apache"], autouse=True)
def stories_taken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str | None]]:
    """What send-backs told the broker."""
    told: list[str | None] = []
    plain = SendBackHandler.send_back

    def send_back(self: SendBackHandler, connection: Any, received: Any) -> None:
        told.append(received.header.failure_story)
        if request.param == "like apache":  # it would not look at the field
            received.header = msgspec.structs.replace(received.header, failure_story=None)
        plain(self, connection, received)

    monkeypatch.setattr(SendBackHandler, "send_back", send_back)
    if request.param == "like apache":

        def header(**fields: Any) -> HeartbeatResponseHeader:
            return HeartbeatResponseHeader(**{**fields, "takes_stories": None})

        monkeypatch.setattr(client_requests, "HeartbeatResponseHeader", header)
    yield told
    if request.param == "like apache":
        assert not any(told), "Apache's broker would drop it"


@asynccontextmanager
async def filled(*bodies: bytes, disk: FaultyDisk | None = None, **properties: str) -> AsyncIterator[LoopbackBroker]:
    async with LoopbackBroker(QUICK_DELAYS, disk=disk) as broker:
        async with Admin(broker.nameserver) as admin, Producer(broker.nameserver, group="makers") as producer:
            await admin.topics.create(TOPIC, queues=1)
            for body in bodies:
                await producer.send(Message(TOPIC, body, keys="k", properties=properties))
        yield broker


async def dead_letters(broker: LoopbackBroker, group: str, count: int) -> list[ReceivedMessage]:
    async with Admin(broker.nameserver) as admin:
        await until_letters(admin, group, count)
        return await admin.messages.newest(f"%DLQ%{group}", count)


async def until_letters(admin: Admin, group: str, count: int) -> None:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(GroupNotFoundError):  # the group is on its way
                if len(await admin.dead_letters.list(group)) >= count:
                    return
            await asyncio.sleep(0.02)


def letters_there(admin: pyromq.Admin, group: str) -> int:
    with contextlib.suppress(GroupNotFoundError):
        return len(admin.dead_letters.list(group))
    return 0


def consumer(broker: LoopbackBroker, listener: Any, **changes: Any) -> PushConsumer:
    own = {name: changes.pop(name) for name in ("hooks", "batch_listener") if name in changes}
    settings = replace(FAST, **changes)
    given = {"listener": listener} if "batch_listener" not in own else {}
    return PushConsumer(broker.nameserver, group="billing", topics=TOPIC, settings=settings, **given, **own)


async def a_coroutine(message: ReceivedMessage) -> None:
    raise CardDeclinedError(f"card of attempt {message.delivery_attempt} \x01 is \x02 bad\n")


def a_function(message: ReceivedMessage) -> None:
    raise CardDeclinedError(f"card of attempt {message.delivery_attempt} \x01 is \x02 bad\n")


@pytest.mark.parametrize("listener", [a_coroutine, a_function])
@pytest.mark.parametrize("orderly", [False, True])
async def test_a_listener_that_raises(
    listener: Any, orderly: bool, stories_taken: list[str | None], request: pytest.FixtureRequest
) -> None:
    async with filled(b"1") as broker:
        async with consumer(broker, listener, orderly=orderly):
            [letter] = await dead_letters(broker, "billing", 1)
        story = letter.failure_story
        assert story is not None
        assert story.newest.error_class.endswith("test_failure_stories.CardDeclinedError")
        assert story.newest.text == "card of attempt 2   is   bad"
        assert story.first.text == "card of attempt 0   is   bad"
        assert (story.count, story.same, story.newest.attempt, story.first.attempt) == (3, 3, 3, 1)
        assert (story.newest.version, story.newest.host) == ("7.1", socket.gethostname())
        assert 0 < story.first.time_ms <= story.newest.time_ms
        assert story.first.stack == story.newest.stack != ""
        assert (letter.delivery_attempt, letter.get("RETRY_TOPIC"), letter.keys) == (3, TOPIC, ("k",))
        [original] = broker.stored(TOPIC)
        assert letter.message_id == original.message_id and letter.body == b"1"
        assert letter.origin_message_id == letter.get("ORIGIN_MESSAGE_ID") != letter.offset_message_id
        if not orderly and "pyromq" in request.node.callspec.id:
            assert len(stories_taken) == 3 and all(stories_taken)


async def test_each_attempt_sees_the_story_so_far() -> None:
    seen: list[FailureStory | None] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.failure_story)
        if len(seen) < 3:
            raise (ValueError if len(seen) == 1 else KeyError)("x")

    async with filled(b"1") as broker, consumer(broker, handle):
        await until(lambda: len(seen) == 3)
    assert seen[0] is None
    assert [(each.newest.error_class, each.count, each.same) for each in seen[1:] if each] == [
        ("ValueError", 1, 1),
        ("KeyError", 2, 1),
    ]
    assert seen[2] is not None and seen[2].first.error_class == "ValueError"


@pytest.mark.parametrize(
    ("listener", "error_class", "text"),
    [
        (lambda _: ConsumeStatus.RETRY, "RETRY returned", ""),
        (lambda _: BatchResult(ConsumeStatus.RETRY, delay_level=1), "RETRY returned", ""),
        (lambda _: 17, "TypeError", "the listener returned int"),
    ],
)
async def test_listeners_that_fail_without_raising(listener: Any, error_class: str, text: str) -> None:
    async with filled(b"1") as broker, consumer(broker, listener):
        [letter] = await dead_letters(broker, "billing", 1)
    story = letter.failure_story
    assert story is not None and story.count == 3
    assert story.newest.error_class == error_class and story.newest.text.startswith(text)


async def test_an_orderly_listener_that_suspends() -> None:
    async with filled(b"1") as broker, consumer(broker, lambda _: OrderlyStatus.SUSPEND, orderly=True):
        [letter] = await dead_letters(broker, "billing", 1)
    assert letter.failure_story is not None and letter.failure_story.newest.error_class == "RETRY returned"


@pytest.mark.parametrize("orderly", [False, True])
async def test_dead_letters_at_once_tell_the_reason_and_the_story(orderly: bool) -> None:
    def hopeless(message: ReceivedMessage) -> None:
        raise DeadLetterError("no such customer")

    async with filled(b"1") as broker, consumer(broker, hopeless, orderly=orderly):
        [letter] = await dead_letters(broker, "billing", 1)
    story = letter.failure_story
    assert story is not None and letter.get("DLQ_ERROR") == story.newest.text == "no such customer"
    assert (story.newest.error_class, story.count, story.newest.attempt) == ("pyromq.errors.DeadLetterError", 1, 1)


@pytest.mark.parametrize("orderly", [False, True])
async def test_bodies_that_do_not_decode_are_one_error(orderly: bool) -> None:
    def bill(order: Order) -> None:
        raise AssertionError("no order comes")

    async with filled(b'{"id": "x17"}', b'{"id": "y18"}') as broker, consumer(broker, bill, orderly=orderly):
        await dead_letters(broker, "billing", 2)
        async with Admin(broker.nameserver) as admin:
            found = await admin.dead_letters.by_error("billing")
    assert [(each.error_class, each.count) for each in found.errors] == [("pyromq.typed.listeners.UndecodableError", 2)]
    assert "body is no Order" in found.errors[0].text


async def test_a_batch_that_fails_tells_each_message() -> None:
    def batch(messages: list[ReceivedMessage]) -> None:
        raise CardDeclinedError("all of them")

    async with filled(b"1", b"2", b"3") as broker, consumer(broker, None, batch_listener=batch, batch_max=3):
        letters = await dead_letters(broker, "billing", 3)
    assert {letter.failure_story.newest.text for letter in letters if letter.failure_story} == {"all of them"}


@pytest.mark.parametrize(
    "error",
    [
        HostileError(),
        ValueError("x" * 1_000_000),
        ValueError("\x01FAILURE_COUNT\x019\x02UNIQ_KEY\x01gone\x02\ud800"),
        ExceptionGroup("tasks", [ValueError("a"), ExceptionGroup("inner", [HostileError()])]),
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError("not ours"),
        GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_function_raises_its_message_is_not_lost(error: BaseException) -> None:
    def handle(message: ReceivedMessage) -> None:
        raise error

    async with filled(b"1") as broker, consumer(broker, handle):
        [letter] = await dead_letters(broker, "billing", 1)
        [original] = broker.stored(TOPIC)
    assert letter.message_id == original.message_id
    story = letter.failure_story
    assert story is not None and story.count == 3 and story.newest.stack
    assert len(story.newest.text.encode()) <= 1_024


async def test_a_coroutine_whose_work_was_cancelled() -> None:
    async def handle(message: ReceivedMessage) -> None:
        raise asyncio.CancelledError

    async with filled(b"1") as broker, consumer(broker, handle):
        [letter] = await dead_letters(broker, "billing", 1)
    assert letter.failure_story is not None
    assert letter.failure_story.newest.error_class.endswith("ListenerCancelledError")


class Masking(ConsumeHook):
    def __init__(self, mask: Callable[[str], Any]) -> None:
        self._mask = mask

    def mask_error(self, text: str) -> str:
        return self._mask(text)  # type: ignore[no-any-return]


@pytest.mark.parametrize("reason", [CardDeclinedError("card 4111"), DeadLetterError("card 4111")])
@pytest.mark.parametrize(
    ("mask", "shown"),
    [
        (lambda text: text.replace("4111", "****"), "card ****"),
        (lambda text: 1 / 0, MASK_FAILED),
        (lambda text: text.encode(), MASK_FAILED),
        (lambda text: None, MASK_FAILED),
    ],
)
async def test_hooks_mask_what_is_stored(reason: Exception, mask: Callable[[str], Any], shown: str) -> None:
    def handle(message: ReceivedMessage) -> None:
        raise reason

    async with filled(b"1") as broker, consumer(broker, handle, hooks=[Masking(mask)]):
        [letter] = await dead_letters(broker, "billing", 1)
    assert letter.failure_story is not None and letter.failure_story.newest.text == shown
    assert "4111" not in str(letter.properties)


async def test_a_hook_that_is_installed_masks_for_all_consumers() -> None:
    hook = Masking(lambda text: "***")
    install(hook)
    try:
        async with filled(b"1") as broker, consumer(broker, a_coroutine):
            [letter] = await dead_letters(broker, "billing", 1)
    finally:
        uninstall(hook)
    assert letter.failure_story is not None and letter.failure_story.newest.text == "***"


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_message_with_no_room_for_its_story_goes_without(orderly: bool) -> None:
    async with filled(b"1", big="x" * 32_000) as broker, consumer(broker, a_coroutine, orderly=orderly):
        [letter] = await dead_letters(broker, "billing", 1)
    assert (letter.delivery_attempt, len(letter.properties["big"])) == (3, 32_000)
    assert not set(letter.properties) & set(STORY_NAMES)


async def test_stories_can_be_switched_off(stories_taken: list[str | None]) -> None:
    async with filled(b"1") as broker, consumer(broker, a_coroutine, failure_stories=False):
        [letter] = await dead_letters(broker, "billing", 1)
    assert letter.failure_story is None and stories_taken == [None] * 3


def test_sync_consumers_tell_too() -> None:
    with LoopbackBroker(QUICK_DELAYS) as broker:
        with pyromq.Producer(broker.nameserver, group="makers") as producer:
            producer.send(Message(TOPIC, b"1"))
        settings = replace(FAST, code_version="")
        with (
            pyromq.PushConsumer(
                broker.nameserver, group="billing", topics=TOPIC, listener=a_function, settings=settings,
                code_version="8",
            ),
            pyromq.Admin(broker.nameserver) as admin,
        ):  # fmt: skip
            until_on_thread(lambda: letters_there(admin, "billing"))
            [letter] = admin.dead_letters.list("billing")
        assert letter.story is not None
        assert (letter.failure.version, letter.failure.text) == ("8", letter.reason)


async def test_apps_tell_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMQ_CODE_VERSION", "from the environment")
    app = App(name="shop")

    @app.consume(TOPIC, group="billing", start="earliest", retries=1)
    async def bill(order: Order) -> None:
        raise CardDeclinedError(f"order {order.id}")

    async with filled(b'{"id": 17}') as broker:
        async with app.running(broker.nameserver):
            [letter] = await dead_letters(broker, "billing", 1)
    story = letter.failure_story
    assert story is not None and (story.newest.text, story.count) == ("order 17", 2)
    assert story.newest.version == "from the environment"


def test_tasks_of_frameworks_tell_what_they_were_ended_with() -> None:
    with LoopbackBroker(QUICK_DELAYS) as broker:
        queues = SyncTaskQueues(TaskQueues(broker.nameserver, group="tasks", topic_queues=1))
        with queues:
            for name in ("raised", "said", "nothing"):
                queues.put("mail", name.encode())
            consumer = queues.consume("mail")
            errors: dict[bytes, Any] = {b"raised": CardDeclinedError("no"), b"said": "no function", b"nothing": None}
            for message in [consumer.take(1, 60_000)[0] for _ in errors]:
                consumer.dead(message, error=errors[message.body])
            with pyromq.Admin(broker.nameserver) as admin:
                group = consumer.inner.group
                until_on_thread(lambda: letters_there(admin, group) == 3)
                told = {letter.failure.text: letter.failure.error_class for letter in admin.dead_letters.list(group)}
            consumer.close()
    assert told["no"].endswith("CardDeclinedError") and told["no function"] == told[""] == "rejected"


async def test_a_redriven_message_begins_a_story_of_its_own() -> None:
    texts = iter(["old", "new", "new"])

    def handle(message: ReceivedMessage) -> None:
        raise CardDeclinedError(next(texts))

    async with filled(b"1") as broker, consumer(broker, handle, attempts_max=0), Admin(broker.nameserver) as admin:
        await until_letters(admin, "billing", 1)
        assert await admin.dead_letters.redrive("billing", errors="KeyError") == []
        [sent] = await admin.dead_letters.redrive("billing", errors="CardDeclinedError")
        await until_letters(admin, "billing", 2)
        old, new = await admin.dead_letters.list("billing")
        assert old.is_redriven and sent.offset_message_id == old.offset_message_id
        assert (old.failure.text, new.failure.text) == ("old", "new")
        assert new.story is not None and (new.story.count, new.story.first.text) == (1, "new")
        stack = new.failure.stack
        assert [
            each.status.value for each in await admin.dead_letters.redrive("billing", errors=[stack], dry_run=True)
        ] == ["would send"]


async def test_dead_letters_by_error() -> None:
    def handle(message: ReceivedMessage) -> None:
        raise (ValueError if message.body.startswith(b"a") else CardDeclinedError)(message.body.decode())

    async with filled(b"a1", b"a2", b"a3", b"b1") as broker, Admin(broker.nameserver) as admin:
        async with consumer(broker, handle, retry_levels={1: -1}):
            await until_letters(admin, "billing", 4)
        found = await admin.dead_letters.by_error("billing")
        assert [(each.error_class.rpartition(".")[2], each.count) for each in found.errors] == [
            ("ValueError", 3),
            ("CardDeclinedError", 1),
        ]
        assert (found.group, found.messages, found.is_cut) == ("billing", 4, False)
        assert {(each.topics, each.versions) for each in found.errors} == {((TOPIC,), ("7.1",))}
        cut = await admin.dead_letters.by_error("billing", count_max=1)
        assert (cut.messages, cut.is_cut) == (1, True)
        assert [(each.topic, each.begin, each.end) for each in cut.scanned] == [("%DLQ%billing", 3, 4)]
        with pytest.raises(GroupNotFoundError):
            await admin.dead_letters.by_error("nobody")
        for wrong in (0, -1, True, "10"):
            with pytest.raises(ConfigError):
                await admin.dead_letters.by_error("billing", count_max=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", [{}, {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [600_000]}}])
async def test_messages_that_come_again_by_error(policy: dict[str, Any]) -> None:
    """Those that wait for their level, or for a time of their own, and those that nobody took up yet."""
    async with LoopbackBroker() as broker, Admin(broker.nameserver) as admin:
        more = {"group_retry_policy": policy} if policy else {}
        await admin.groups.create(GroupConfig(group_name="billing", **more))
        await admin.topics.create(TOPIC, queues=1)
        async with Producer(broker.nameserver, group="makers") as producer:
            for body in (b"1", b"2"):
                await producer.send(Message(TOPIC, body))
        assert (await admin.dead_letters.retries_by_error("billing")).errors == ()
        async with consumer(broker, a_coroutine):
            async with asyncio.timeout(60):
                while (found := await admin.dead_letters.retries_by_error("billing")).messages < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        [error] = found.errors
        assert (error.count, error.topics, found.is_cut) == (2, (TOPIC,), False)
        assert error.error_class.endswith("CardDeclinedError")
        assert await admin.dead_letters.retries_by_error("billing", count_max=1_000) == found
        with pytest.raises(GroupNotFoundError):
            await admin.dead_letters.retries_by_error("nobody")


async def test_nothing_is_lost_when_the_broker_crashes_between_failure_and_response() -> None:
    bodies = [b"%d" % number for number in range(30)]
    async with (
        filled(*bodies, disk=FaultyDisk()) as broker,
        consumer(broker, a_coroutine),
        Admin(broker.nameserver) as admin,
    ):
        await until(lambda: broker.stored("%RETRY%billing"), "something came again")
        await broker.crash()
        await until_letters(admin, "billing", 1)
        await broker.crash()
        async with asyncio.timeout(60):
            while {letter.body for letter in await admin.messages.newest("%DLQ%billing", 1_000)} != set(bodies):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        for letter in await admin.messages.newest("%DLQ%billing", 1_000):
            assert letter.failure_story is not None and letter.delivery_attempt >= 3
        broker.assert_nothing_lost()


async def test_what_no_broker_takes_back_is_tried_here_and_its_story_grows() -> None:
    seen: list[FailureStory | None] = []

    def handle(message: ReceivedMessage) -> None:
        seen.append(message.failure_story)
        raise CardDeclinedError(f"time {len(seen)}")

    async with filled(b"1") as broker:
        broker.faults.refuse(times=4, requests=("send_back", "send"))
        async with consumer(broker, handle):
            [letter] = await dead_letters(broker, "billing", 1)
    told = [(story.newest.text, story.count) if story else None for story in seen]
    assert told[0] is None
    assert letter.failure_story is not None and letter.failure_story.count == len(seen)
    assert letter.failure_story.first.text == "time 1"


class NoCards(ConsumeHook):
    def mask_error(self, text: str) -> str:
        return text.replace("4111", "****")


def pay(message: ReceivedMessage) -> None:
    raise CardDeclinedError("card 4111")


async def test_a_traceback_travels_masked_with_the_message_and_stays_behind_when_it_is_redriven() -> None:
    changes = {"attempts_max": 0, "traceback_bytes": 2_000, "hooks": [NoCards()]}
    async with filled(b"1") as broker, Admin(broker.nameserver) as admin:
        async with consumer(broker, pay, **changes):
            await until_letters(admin, "billing", 1)
        (letter,) = await admin.dead_letters.list("billing")
        lines = letter.failure.traceback.splitlines()
        assert lines[-1].endswith("CardDeclinedError: card ****") and "in pay" in lines[-3]
        assert lines[-2] == '    raise CardDeclinedError("card ****")'
        (sent,) = await admin.dead_letters.redrive("billing")
        copy = await admin.messages.get(TOPIC, sent.new_message_id)
        assert not set(copy.properties) & set(STORY_NAMES)
