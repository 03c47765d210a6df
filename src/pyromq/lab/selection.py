"""Selection: which messages are replayed, and reading them without leaving a trace.

    message_id      that one                     offsets         [begin, end) of one queue
    key             those that carry it          dead_letters    those that a group gave up
    none of these   a range of time, or all that the topic has

Messages are looked up and read as an operator's tools do it: no group, no offset, no acknowledgement.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ConfigError, NotFoundError, TopicNotFoundError
from pyromq.lab.moments import Moment, moment_ms
from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic
from pyromq.model.queue import QueueId
from pyromq.operate.admin import Admin

LIMIT: Final = 100
TIME_MAX_MS: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSelection:
    """Which messages of a topic are replayed. Raises ConfigError for bounds that contradict each other."""

    topic: str
    key: str = ""
    message_id: str = ""
    queue: QueueId | None = None
    offsets: tuple[int, int] | None = None
    dead_letters: str = ""  # of this group
    since: Moment | None = None
    until: Moment | None = None
    limit: int = LIMIT

    def __post_init__(self) -> None:
        ways = [name for name in ("key", "message_id", "offsets", "dead_letters") if getattr(self, name)]
        if len(ways) > 1:
            raise ConfigError(f"{' and '.join(ways)}: messages are chosen by one of them")
        if (self.offsets is None) != (self.queue is None):
            raise ConfigError(
                "offsets are those of a queue: replay(…, queue=QueueId(topic, broker, 0), offsets=(10, 20))"
            )
        if self.offsets is not None and not 0 <= self.offsets[0] <= self.offsets[1]:
            raise ConfigError(f"offsets={self.offsets!r} are no range: (begin, end), without the end")
        if self.limit < 1:
            raise ConfigError("limit must be at least 1")

    async def read(self, admin: Admin) -> tuple[list[ReceivedMessage], bool]:
        """Oldest first; True when there are more than ``limit``. Raises NotFoundError, TopicNotFoundError."""
        now_ms = admin.client.clock.now_ms()
        begin_ms = 0 if self.since is None else moment_ms("since", self.since, now_ms)
        end_ms = TIME_MAX_MS if self.until is None else moment_ms("until", self.until, now_ms)
        if self.message_id:
            return [await admin.messages.get(self.topic, self.message_id)], False
        if self.key:
            found = await admin.messages.find(
                self.topic, self.key, begin_ms=begin_ms, end_ms=end_ms, count_max=self.limit + 1
            )
            return found[: self.limit], len(found) > self.limit
        if self.queue is not None and self.offsets is not None:
            found = await _some(admin.messages.walk(self.queue, *self.offsets), self.limit + 1)
            return found[: self.limit], len(found) > self.limit
        if self.dead_letters:
            return await self._dead(admin, begin_ms, end_ms)
        return await self._between(admin, self.topic, begin_ms, end_ms)

    async def _between(
        self, admin: Admin, topic: str, begin_ms: int, end_ms: int
    ) -> tuple[list[ReceivedMessage], bool]:
        """The oldest of all queues together: each queue may have to give all of them."""
        found: list[ReceivedMessage] = []
        for queue in (await admin.topics.route(topic)).readable_queues(admin.client.wire_name(topic)):
            held = await admin.offsets.range(queue)
            begin = await admin.offsets.at(queue, begin_ms) if begin_ms > 0 else held.min_offset
            messages = admin.messages.walk(queue, max(begin, held.min_offset), held.max_offset)
            found += await _some(messages, self.limit + 1, begin_ms, end_ms)
        found.sort(key=lambda message: (message.stored_ms, message.position))
        return found[: self.limit], len(found) > self.limit

    async def _dead(self, admin: Admin, begin_ms: int, end_ms: int) -> tuple[list[ReceivedMessage], bool]:
        try:
            letters, is_cut = await self._between(admin, dead_letter_topic(self.dead_letters), begin_ms, end_ms)
        except TopicNotFoundError:
            return [], False
        return [await _first_copy(admin, each) for each in letters if self._is_of_topic(each)], is_cut

    def _is_of_topic(self, letter: ReceivedMessage) -> bool:
        home = letter.get(names.DLQ_ORIGIN_TOPIC) or letter.get(names.RETRY_TOPIC)
        return not self.topic or home in (None, self.topic)


async def _first_copy(admin: Admin, letter: ReceivedMessage) -> ReceivedMessage:
    """Find the message as the group got it first, with its topic; the dead letter itself where that copy is deleted."""
    try:
        return await admin.messages.by_offset_id(letter.get(names.DLQ_ORIGIN_MESSAGE_ID) or letter.origin_message_id)
    except NotFoundError:
        return letter


async def _some(
    messages: AsyncIterator[ReceivedMessage], count_max: int, begin_ms: int = 0, end_ms: int = TIME_MAX_MS
) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async for message in messages:
        if message.stored_ms > end_ms or len(found) >= count_max:
            break
        if message.stored_ms >= begin_ms:
            found.append(message)
    return found
