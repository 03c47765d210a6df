"""Messages: found, searched, followed as they come, traced and explained."""

from __future__ import annotations

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.model.queue import QueueId
from pyromq.operate.explaining.explanation import Explanation
from pyromq.operate.explaining.gathering import FactGatherer
from pyromq.operate.explaining.traces import read_trace
from pyromq.operate.offsets import OffsetFacet
from pyromq.operate.reading.search import MessageQuery, MessageSearch, SearchResult
from pyromq.operate.reading.stored_messages import TIME_MAX, StoredMessages
from pyromq.operate.resend.engine import Resender, copy_of
from pyromq.operate.resend.outcomes import ItemOutcome
from pyromq.wire.trace import TRACE_TOPIC, TraceRecord


class NewMessages(msgspec.Struct, frozen=True, kw_only=True):
    """What came since the last look, oldest first; ``skipped`` messages were too many to be read."""

    messages: list[ReceivedMessage]
    skipped: int = 0


class MessageFacet(StoredMessages):
    """``admin.messages``: stored messages, and what became of them."""

    def __init__(self, requests: AdminRequests, offsets: OffsetFacet, facts: FactGatherer) -> None:
        super().__init__(requests)
        self._offsets = offsets
        self._facts = facts
        self._search = MessageSearch(requests, self, offsets)

    async def search(self, query: MessageQuery) -> SearchResult:
        """Return what a topic has that fits, newest first. Raises TopicNotFoundError, ConfigError for a bad query."""
        return await self._search.search(query)

    async def tail(self, ends: dict[QueueId, int], count_max: int = 100) -> NewMessages:
        """Return what came since ``ends`` (see ``offsets.ends``), which moves on with it.

        Of a queue that got more than ``count_max`` since then, the newest are read, and the others skipped.
        """
        found: list[ReceivedMessage] = []
        skipped = 0
        for queue, known_end in list(ends.items()):
            end = (await self._offsets.range(queue)).max_offset
            known_end = min(known_end, end)  # a topic that was made anew begins at 0 again
            begin = max(known_end, end - count_max)
            skipped += begin - known_end
            found += [message async for message in self.walk(queue, begin, end)]
            ends[queue] = end
        found.sort(key=lambda message: (message.stored_ms, message.position))
        return NewMessages(messages=found, skipped=skipped)

    async def resend(
        self, message: ReceivedMessage, *, topic: str = "", group: str = "", run_id: str = ""
    ) -> ItemOutcome:
        """Send a stored message again: to its own topic, to ``topic``, or to ``group`` alone (its retry topic).

        With a ``run_id`` the copy of the same run is found, and not sent a second time. What went wrong is in the
        outcome.
        """
        copy = copy_of(self._client, message, topic=topic, group=group, run_id=run_id, is_checked=bool(run_id))
        return await Resender(self._client, self).resend(copy)

    async def trace(
        self, message_id: str, *, topic: str = TRACE_TOPIC, begin_ms: int = 0, end_ms: int = TIME_MAX
    ) -> list[TraceRecord]:
        """Return what is known of a message, by its id or one of its keys, in the order in which it happened.

        Raises TopicNotFoundError without a trace topic, NotFoundError when nothing is reported.
        """
        return await read_trace(self, message_id, topic=topic, begin_ms=begin_ms, end_ms=end_ms)

    async def explain(self, topic: str, message_id: str, *, trace_topic: str = TRACE_TOPIC) -> Explanation:
        """Return where a message is and why, by either of its ids. Raises NotFoundError, TopicNotFoundError."""
        return await self._facts.explain(topic, message_id, trace_topic)
