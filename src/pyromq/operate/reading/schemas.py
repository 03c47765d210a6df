"""What is in a topic: content types and schema names that its newest messages say of themselves.

A topic has no schema of its own: producers write what they write. The newest messages of its queues say, and how many
are looked at is bounded, whatever the topic holds.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

import msgspec

from pyromq.errors import BrokerError, TransportError
from pyromq.model.queue import QueueId
from pyromq.operate.reading.stored_messages import StoredMessages
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


async def seen_schemas(
    stored: StoredMessages, held_by: dict[QueueId, TopicOffset], newest: int, queues_max: int
) -> dict[QueueId, list[SeenSchema]]:
    """Return what the newest messages of the queues that were written to last say, the most frequent first."""
    written = [(held.last_update_timestamp, queue) for queue, held in held_by.items() if held.max_offset]
    found: dict[QueueId, list[SeenSchema]] = {}
    for _, queue in sorted(written, reverse=True)[:queues_max]:
        try:
            found[queue] = await _seen(stored, queue, held_by[queue], newest)
        except (BrokerError, TransportError) as error:
            logger.debug("queue not read: queue=%s error=%s", queue, error)
    return found


async def _seen(stored: StoredMessages, queue: QueueId, held: TopicOffset, newest: int) -> list[SeenSchema]:
    begin = max(held.min_offset, held.max_offset - newest)
    seen: Counter[tuple[str, str]] = Counter()
    async for message in stored.walk(queue, begin, held.max_offset):
        seen[_shown(message.content_type), _shown(message.schema)] += 1
    return [SeenSchema(kind, schema, count) for (kind, schema), count in seen.most_common()]


def _shown(name: str) -> str:
    return one_line(name, _NAME_CHARACTERS_MAX)
