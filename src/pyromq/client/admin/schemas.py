"""What is in a topic: content types and schema names that its newest messages say of themselves.

A topic has no schema of its own: producers write what they write. The newest messages of its queues tell, and how many
are looked at is bounded, whatever the topic holds.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

import msgspec

from pyromq.client.admin.lookup import LookupAdmin
from pyromq.client.admin.topics import TopicAdmin
from pyromq.errors import BrokerError, TransportError
from pyromq.model.queue import QueueId
from pyromq.typed.body_errors import one_line
from pyromq.wire.json.bodies import TopicOffset

logger = logging.getLogger(__name__)

NEWEST: Final = 10
QUEUES_MAX: Final = 32
_NAME_CHARACTERS_MAX: Final = 120


class SeenSchema(msgspec.Struct, frozen=True, order=True):
    """So many of the newest messages of a queue say that they are this; empty where they do not say."""

    content_type: str
    schema: str
    messages: int


class SchemaAdmin(LookupAdmin, TopicAdmin):
    """Of ``Admin``: schemas."""

    async def schemas(
        self, topic: str, *, newest: int = NEWEST, queues_max: int = QUEUES_MAX
    ) -> dict[QueueId, list[SeenSchema]]:
        """What the ``newest`` messages of each queue of a topic say of themselves, the most frequent first.

        Of the queues at most ``queues_max`` are looked at, those that were written to last; one that cannot be read now
        is left out. Raises TopicNotFoundError.
        """
        stats = await self.topic_stats(topic)
        written = [(held.last_update_timestamp, queue) for queue, held in stats.items() if held.max_offset]
        chosen = [queue for _, queue in sorted(written, reverse=True)[:queues_max]]
        found: dict[QueueId, list[SeenSchema]] = {}
        for queue in chosen:
            try:
                found[queue] = await self._seen(queue, stats[queue], newest)
            except (BrokerError, TransportError) as error:
                logger.debug("queue not read: queue=%s error=%s", queue, error)
        return found

    async def _seen(self, queue: QueueId, held: TopicOffset, newest: int) -> list[SeenSchema]:
        begin = max(held.min_offset, held.max_offset - newest)
        seen: Counter[tuple[str, str]] = Counter()
        async for message in self.walk(queue, begin, held.max_offset):
            seen[_shown(message.content_type), _shown(message.schema)] += 1
        return [SeenSchema(kind, schema, count) for (kind, schema), count in seen.most_common()]


def _shown(name: str) -> str:
    return one_line(name, _NAME_CHARACTERS_MAX)
