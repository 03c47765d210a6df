"""Delayed messages that are not due yet, and calling them back.

    levels    SCHEDULE_TOPIC_XXXX, one queue per level; what lies before the level's offset is delivered
    times     rmq_sys_wheel_timer, one queue; a message is due at its TIMER_OUT_MS, unless a mark deletes it

A handle says which message to call back: base64 of ``v1 topic broker time id``. Only messages with a time have one.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import BrokerError, ConfigError
from pyromq.model import property_names as names
from pyromq.model.delay_levels import DELAY_LADDER, parse_ladder
from pyromq.model.names import RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from pyromq.model.queue import QueueId
from pyromq.model.same_fields import same_fields
from pyromq.operate.offsets import OffsetFacet
from pyromq.operate.reading.stored_messages import StoredMessages, no_message

_TIMER_REACH_MS: Final = 3 * 86_400_000  # RocketMQ's longest delay; what was stored before that is delivered


class DelayedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that waits for its time. ``level`` is 0 for one with a time of its own; only those have a handle.

    A message that waits for its next attempt has the ``group`` that failed with it.
    """

    topic: str
    message_id: str
    due_ms: int
    stored_ms: int
    broker: str
    offset: int
    level: int = 0
    group: str = ""
    attempt: int = 0
    keys: tuple[str, ...] = ()
    tags: str = ""
    handle: str = ""


class RetryCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many failed messages wait for their next attempt; with ``is_cut`` a broker had more than were read."""

    count: int = 0
    is_cut: bool = False


# the facet has a method ``list``, so its annotations need other names for lists
_Delayed: TypeAlias = list[DelayedMessage]
_Received: TypeAlias = list[ReceivedMessage]


class DelayFacet:
    """``admin.delays``: messages that wait for their time."""

    def __init__(self, requests: AdminRequests, offsets: OffsetFacet, stored: StoredMessages) -> None:
        self._requests = requests
        self._client = requests.client
        self._offsets = offsets
        self._stored = stored

    async def list(self, topic: str = "", *, count_max: int = 1_000) -> _Delayed:
        """Return what waits for its time, soonest first; all topics, or one.

        At most ``count_max`` messages are read of each broker and kind.
        """
        found: _Delayed = []
        for broker in await self._requests.directory.named_masters():
            found += await _some(self._in_levels(broker, topic), count_max)
            found += await self._in_timer(broker, topic, count_max)
        return sorted(found, key=lambda message: message.due_ms)

    async def count_retries(self, *, count_max: int = 1_000) -> RetryCount:
        """Count failed messages that wait in delay levels, beside messages that were sent with a delay.

        At most ``count_max`` messages are read of each broker; the count says when one has more.
        """
        count, is_cut = 0, False
        for broker in await self._requests.directory.named_masters():
            found = await _some(self._in_levels(broker, ""), count_max + 1)
            is_cut = is_cut or len(found) > count_max
            count += sum(bool(each.group) for each in found[:count_max])
        return RetryCount(count=count, is_cut=is_cut)

    async def recall(self, handle: str) -> str:
        """Call a delayed message back; return its id. Raises ConfigError, BrokerError when it is too late."""
        topic, broker, _, _ = read_handle(handle)
        return await self._requests.brokers.recall(broker, topic, handle)

    async def cancel(self, message_id: str, topic: str = "") -> DelayedMessage:
        """Find a delayed message by its id and call it back. Raises NotFoundError, ConfigError for a level."""
        found = await self.find(message_id, topic)
        await self.recall(found.handle)
        return found

    async def find(self, message_id: str, topic: str = "") -> DelayedMessage:
        """Return what ``cancel`` would call back. Raises NotFoundError, ConfigError for a level."""
        found = [each for each in await self.list(topic, count_max=1_000_000) if each.message_id == message_id]
        if not found:
            raise no_message(f"no delayed message has the id {message_id}")
        if not found[-1].handle:
            text = f"message {message_id} waits at delay level {found[-1].level}"
            raise ConfigError(f"{text}: only messages with a time of their own can be called back")
        return found[-1]

    async def levels_ms(self, broker: str) -> tuple[int, ...]:
        """Return how long each level of a broker is."""
        config = await self._requests.brokers.config(broker)
        return parse_ladder(config.get("messageDelayLevel") or DELAY_LADDER)

    async def offsets(self, broker: str) -> Mapping[int, int]:
        """Return by level the offset up to which everything is delivered."""
        return await self._requests.brokers.delay_offsets(broker)

    # --- levels ---

    async def _in_levels(self, broker: str, topic: str) -> AsyncIterator[DelayedMessage]:
        delays, offsets = await self.levels_ms(broker), await self.offsets(broker)
        for level, delay_ms in enumerate(delays, 1):
            queue = QueueId(SCHEDULE_TOPIC, broker, level - 1)
            try:
                held = await self._offsets.range(queue)
            except BrokerError:
                continue
            begin = max(held.min_offset, offsets.get(level, 0))
            async for message in self._stored.walk(queue, begin, held.max_offset):
                found = self._delayed(message, message.stored_ms + delay_ms, level)
                if not topic or found.topic == topic:
                    yield found

    # --- times ---

    async def _in_timer(self, broker: str, topic: str, count_max: int) -> _Delayed:
        queue, now_ms = QueueId(TIMER_TOPIC, broker, 0), self._client.clock.now_ms()
        try:
            held = await self._offsets.range(queue)
            begin = await self._offsets.at(queue, now_ms - _TIMER_REACH_MS) if held.max_offset else 0
        except BrokerError:
            return []
        waiting = _Received()
        deleted: set[str] = set()
        async for message in self._stored.walk(queue, max(begin, held.min_offset), held.max_offset):
            if mark := message.get(names.TIMER_DELETED_KEY):
                deleted.add(mark)
            elif due_of(message) > now_ms:
                waiting.append(message)
        alive = [message for message in last_copies(waiting) if not _is_deleted(message, deleted)]
        found = [self._delayed(message, due_of(message), 0) for message in alive]
        return [each for each in found if not topic or each.topic == topic][:count_max]

    def _delayed(self, message: ReceivedMessage, due_ms: int, level: int) -> DelayedMessage:
        target = message.get(names.REAL_TOPIC) or message.stored_topic
        group = target.removeprefix(RETRY_PREFIX) if target.startswith(RETRY_PREFIX) else ""
        topic = (message.get(names.RETRY_TOPIC) or target) if group else target
        handle = ""
        if not level:
            handle = make_handle(target, message.broker, due_ms + 1, message.message_id)
        return DelayedMessage(
            topic=self._client.plain_name(topic),
            due_ms=due_ms,
            level=level,
            group=self._client.plain_name(group),
            attempt=message.delivery_attempt,
            handle=handle,
            **same_fields(DelayedMessage, message, "topic"),
        )


# --- what messages say ---------------------------------------------------------------------------------------------


def due_of(message: ReceivedMessage) -> int:
    """When a message of the timer's topic is due; 0 if it does not say."""
    text = message.get(names.TIMER_OUT_MS) or ""
    return int(text) if text.isdecimal() else 0


def last_copies(messages: Iterable[ReceivedMessage]) -> list[ReceivedMessage]:
    """Each message once: a timer writes those that wait long again and again."""
    found: dict[tuple[str | None, str], ReceivedMessage] = {}
    for message in messages:
        found[message.get(names.REAL_TOPIC), message.message_id] = message
    return list(found.values())


def _is_deleted(message: ReceivedMessage, deleted: set[str]) -> bool:
    """Marks name ``topic+id``; those of old brokers the id alone."""
    return message.message_id in deleted or f"{message.get(names.REAL_TOPIC)}+{message.message_id}" in deleted


def make_handle(topic: str, broker: str, time_ms: int, message_id: str) -> str:
    return urlsafe_b64encode(f"v1 {topic} {broker} {time_ms} {message_id}".encode()).decode()


def read_handle(handle: str) -> tuple[str, str, int, str]:
    """Topic, broker, time and id. Raises ConfigError."""
    try:
        version, topic, broker, time_ms, message_id = urlsafe_b64decode(handle.encode()).decode().split(" ")
        if version != "v1":
            raise ValueError(version)
        return topic, broker, int(time_ms), message_id
    except ValueError as error:
        raise ConfigError(f"{handle!r} is no recall handle; it comes with the receipt of a delayed message") from error


async def _some(messages: AsyncIterator[DelayedMessage], count_max: int) -> list[DelayedMessage]:
    found: list[DelayedMessage] = []
    async for message in messages:
        found.append(message)
        if len(found) >= count_max:
            break
    return found
