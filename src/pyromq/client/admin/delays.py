"""Delayed messages that are not due yet, and calling them back.

    levels    SCHEDULE_TOPIC_XXXX, one queue per level; what lies before the level's offset is delivered
    times     rmq_sys_wheel_timer, one queue; a message is due at its TIMER_OUT_MS, unless a mark deletes it

A handle says which message to call back: base64 of ``v1 topic broker time id``. Only messages with a time have one.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

import msgspec

from pyromq.client.admin.base import no_message
from pyromq.client.admin.clusters import ClusterAdmin
from pyromq.client.admin.lookup import LookupAdmin
from pyromq.client.admin.offsets import OffsetAdmin
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import BrokerError, ConfigError
from pyromq.model import property_names as names
from pyromq.model.delay_levels import DELAY_LADDER, parse_ladder
from pyromq.model.names import RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from pyromq.model.queue import QueueId
from pyromq.model.system_names import TOOL_PRODUCER
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.producer import RecallMessageHeader, RecallMessageResponseHeader
from pyromq.wire.json import java_json

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


class DelayAdmin(ClusterAdmin, OffsetAdmin, LookupAdmin):
    """Of ``Admin``: delays."""

    async def delayed(self, topic: str = "", *, count_max: int = 1_000) -> list[DelayedMessage]:
        """What waits for its time, soonest first; all topics, or one. At most ``count_max`` per broker and kind."""
        found: list[DelayedMessage] = []
        for broker in await self._named_masters():
            found += await _some(self._in_levels(broker, topic), count_max)
            found += await self._in_timer(broker, topic, count_max)
        return sorted(found, key=lambda message: message.due_ms)

    async def recall(self, handle: str) -> str:
        """Calls a delayed message back; returns its id. Raises ConfigError, BrokerError when it is too late."""
        topic, broker, _, _ = read_handle(handle)
        header = RecallMessageHeader(producer_group=TOOL_PRODUCER, topic=topic, recall_handle=handle)
        response = await self._ask(await self._address(broker), RequestCode.RECALL_MESSAGE, header)
        return response.header_as(RecallMessageResponseHeader).msg_id or ""

    async def cancel_delayed(self, message_id: str, topic: str = "") -> DelayedMessage:
        """Finds a delayed message by its id and calls it back. Raises NotFoundError, ConfigError for a level."""
        found = await self.find_delayed(message_id, topic)
        await self.recall(found.handle)
        return found

    async def find_delayed(self, message_id: str, topic: str = "") -> DelayedMessage:
        """What ``cancel_delayed`` would call back. Raises NotFoundError, ConfigError for a level."""
        found = [each for each in await self.delayed(topic, count_max=1_000_000) if each.message_id == message_id]
        if not found:
            raise no_message(f"no delayed message has the id {message_id}")
        if not found[-1].handle:
            text = f"message {message_id} waits at delay level {found[-1].level}"
            raise ConfigError(f"{text}: only messages with a time of their own can be called back")
        return found[-1]

    async def level_delays_ms(self, broker: str) -> tuple[int, ...]:
        """How long each level of a broker is."""
        config = await self.broker_config(broker)
        return parse_ladder(config.get("messageDelayLevel") or DELAY_LADDER)

    async def delay_offsets(self, broker: str) -> Mapping[int, int]:
        """By level, the offset up to which everything is delivered."""
        response = await self._ask(await self._address(broker), RequestCode.GET_ALL_DELAY_OFFSET)
        if not response.body:
            return {}
        table = java_json.parse(response.body)
        return {int(level): int(offset) for level, offset in (table.get("offsetTable") or {}).items()}

    # --- levels ---

    async def _in_levels(self, broker: str, topic: str) -> AsyncIterator[DelayedMessage]:
        delays, offsets = await self.level_delays_ms(broker), await self.delay_offsets(broker)
        for level, delay_ms in enumerate(delays, 1):
            queue = QueueId(SCHEDULE_TOPIC, broker, level - 1)
            try:
                held = await self.queue_range(queue)
            except BrokerError:
                continue
            begin = max(held.min_offset, offsets.get(level, 0))
            async for message in self.walk(queue, begin, held.max_offset):
                found = self._delayed(message, message.stored_ms + delay_ms, level)
                if not topic or found.topic == topic:
                    yield found

    # --- times ---

    async def _in_timer(self, broker: str, topic: str, count_max: int) -> list[DelayedMessage]:
        queue, now_ms = QueueId(TIMER_TOPIC, broker, 0), self.client.clock.now_ms()
        try:
            held = await self.queue_range(queue)
            begin = await self.offset_at(queue, now_ms - _TIMER_REACH_MS) if held.max_offset else 0
        except BrokerError:
            return []
        waiting: list[ReceivedMessage] = []
        deleted: set[str] = set()
        async for message in self.walk(queue, max(begin, held.min_offset), held.max_offset):
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
            topic=self.client.plain_name(topic),
            message_id=message.message_id,
            due_ms=due_ms,
            stored_ms=message.stored_ms,
            broker=message.broker,
            offset=message.offset,
            level=level,
            group=self.client.plain_name(group),
            attempt=message.delivery_attempt,
            keys=message.keys,
            tags=message.tags,
            handle=handle,
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
