"""Why messages failed, told by PyroMQ's consumers on either server: what else a send-back promises stays true.

PyroMQ's broker takes the story with the send-back; on Apache's the client itself sends a copy to the retry topic.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from uuid import uuid4

from interop.tests.conftest import case
from interop.world import Cluster
from pyromq import aio
from pyromq.errors import GroupNotFoundError, NotFoundError, TopicNotFoundError
from pyromq.model.message import Message
from pyromq.settings import PushConsumerSettings

SECTION = "Failure stories × servers"
ATTEMPTS_MAX = 2
FIRST = PushConsumerSettings(start="earliest", attempts_max=ATTEMPTS_MAX, code_version="7.1", rebalance_ms=1_000)
LEVEL_3_MS, LEVEL_4_MS = 1_000, 2_000  # of the tests' ladder, where failed messages begin


class CardDeclinedError(Exception):
    pass


async def letters_of(admin: aio.Admin, group: str, count: int) -> list[aio.ReceivedMessage]:
    """Apache's brokers make topics of dead letters that cannot be read."""
    topic = f"%DLQ%{group}"
    while True:
        with suppress(TopicNotFoundError, GroupNotFoundError, NotFoundError):
            await admin.topics.route(topic)
            await admin.topics.create(topic, queues=1)
            if len(found := await admin.messages.newest(topic, count)) == count:
                return found
        await asyncio.sleep(0.1)


@case("a failed message tells why; attempts, delays and origin are as ever", SECTION)
async def test_a_failed_message_tells_why(cluster: Cluster) -> None:
    topic, group = f"orders-{uuid4().hex[:8]}", f"billing-{uuid4().hex[:8]}"
    seen: list[tuple[aio.ReceivedMessage, float]] = []
    told: list[int] = []

    async def bill(message: aio.ReceivedMessage) -> None:
        seen.append((message, asyncio.get_running_loop().time()))
        told.append(message.failure_story.count if message.failure_story else 0)
        raise CardDeclinedError(f"card of attempt {message.delivery_attempt}")

    async with aio.Admin(cluster.nameserver) as admin:
        await admin.topics.create(topic, queues=1)
        async with aio.Producer(cluster.nameserver, group="makers") as producer:
            sent = await producer.send(Message(topic, b"42", keys="order-42", tags="new", properties={"shop": "north"}))
        async with aio.PushConsumer(cluster.nameserver, group=group, listener=bill, topics=topic, settings=FIRST):
            [letter] = await letters_of(admin, group, 1)
        by_error = await admin.dead_letters.by_error(group)
    messages = [message for message, _ in seen]
    assert [message.delivery_attempt for message in messages] == [0, 1, 2]
    assert {message.topic for message in messages} == {topic}
    assert {message.stored_topic for message in messages[1:]} == {f"%RETRY%{group}"}
    assert {message.origin_message_id for message in messages} == {sent.offset_message_id}
    assert {message.born_ms for message in messages} == {messages[0].born_ms}
    waits_ms = [int((later - sooner) * 1000) for (_, sooner), (_, later) in itertools.pairwise(seen)]
    assert waits_ms[0] >= LEVEL_3_MS - 200 and waits_ms[1] >= LEVEL_4_MS - 200
    assert told == [0, 1, 2]
    assert (letter.message_id, letter.body, letter.keys, letter.tags) == (
        sent.message_id,
        b"42",
        ("order-42",),
        "new",
    )
    assert (letter.delivery_attempt, letter.properties["shop"]) == (3, "north")
    assert (letter.get("RETRY_TOPIC"), letter.origin_message_id) == (topic, sent.offset_message_id)
    story = letter.failure_story
    assert story is not None and (story.count, story.same, story.newest.attempt) == (3, 3, 3)
    assert (story.newest.text, story.first.text) == ("card of attempt 2", "card of attempt 0")
    assert (story.newest.version, story.newest.stack) == ("7.1", story.first.stack)
    [error] = by_error.errors
    assert error.error_class.endswith("CardDeclinedError") and (error.count, error.topics) == (1, (topic,))


@case("an orderly consumer's dead letter tells why", SECTION)
async def test_an_orderly_dead_letter_tells_why(cluster: Cluster) -> None:
    topic, group = f"orders-{uuid4().hex[:8]}", f"billing-{uuid4().hex[:8]}"

    async def bill(message: aio.ReceivedMessage) -> None:
        raise CardDeclinedError(message.body.decode())

    async with aio.Admin(cluster.nameserver) as admin:
        await admin.topics.create(topic, queues=1)
        async with aio.Producer(cluster.nameserver, group="makers") as producer:
            for body in (b"1", b"2"):
                await producer.send(Message(topic, body))
        async with aio.PushConsumer(
            cluster.nameserver, group=group, listener=bill, topics=topic, settings=FIRST, orderly=True
        ):
            letters = await letters_of(admin, group, 2)
    assert [letter.failure_story.newest.text for letter in letters if letter.failure_story] == ["1", "2"]
    assert [letter.failure_story.count for letter in letters if letter.failure_story] == [3, 3]


@case("a message with no room for its story comes again without", SECTION)
async def test_a_message_with_full_properties_comes_again(cluster: Cluster) -> None:
    topic, group = f"orders-{uuid4().hex[:8]}", f"billing-{uuid4().hex[:8]}"
    attempts: list[int] = []
    done = asyncio.Event()

    async def bill(message: aio.ReceivedMessage) -> None:
        attempts.append(message.delivery_attempt)
        assert len(message.properties["big"]) == 31_900 and message.failure_story is None
        if len(attempts) < 2:
            raise CardDeclinedError("no")
        done.set()

    async with aio.Admin(cluster.nameserver) as admin:
        await admin.topics.create(topic, queues=1)
        async with aio.Producer(cluster.nameserver, group="makers") as producer:
            await producer.send(Message(topic, b"42", properties={"big": "x" * 31_900}))
        async with aio.PushConsumer(cluster.nameserver, group=group, listener=bill, topics=topic, settings=FIRST):
            await done.wait()
    assert attempts == [0, 1]
