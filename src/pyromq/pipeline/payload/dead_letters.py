"""Messages whose bodies cannot be decoded, sent to a topic as they are, with the reason and where they come from.

    body         as it was
    keys         orders/broker-a/3/1042        topic, broker, queue and offset: who reads it twice can tell
    properties   dead_letter_reason, dead_letter_topic, dead_letter_broker, dead_letter_queue, dead_letter_offset

A task sends them before it hands over the rows of their batch, so none is lost; a task that is run again, and a query
that reads its rows twice, sends them again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pyromq.client.producer.producer import Producer
from pyromq.model.message import Message
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.options import SourceOptions

logger = logging.getLogger(__name__)

_GROUP: Final = "pyromq-bad-rows"
_AT_ONCE: Final = 100
_REASON_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class UndecodedBody:
    """A row of a batch that has the columns of ``TypedRows.stored``."""

    batch: pa.RecordBatch
    row: int
    reason: str

    def message(self, topic: str) -> Message:
        """What is sent to the topic."""
        origin, broker, queue, offset = (
            self.batch.column(name)[self.row].as_py() for name in ("topic", "broker", "queue_id", "queue_offset")
        )
        properties = {
            "dead_letter_reason": self.reason[:_REASON_CHARACTERS],
            "dead_letter_topic": origin,
            "dead_letter_broker": broker,
            "dead_letter_queue": str(queue),
            "dead_letter_offset": str(offset),
        }
        body = self.batch.column("body")[self.row].as_py()
        return Message(topic, body or b"-", keys=f"{origin}/{broker}/{queue}/{offset}", properties=properties)


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """Where they go. Frozen, so it travels to workers with every reader."""

    reaching: SourceOptions
    topic: str

    def send(self, bodies: Iterable[UndecodedBody]) -> None:
        """All of them are stored when it returns. Raises what ``Producer.send`` raises."""
        connected = connect(self.reaching)
        messages = [each.message(self.topic) for each in bodies]

        async def send_all() -> None:
            async with Producer(client=connected.client, group=_GROUP) as producer:
                for first in range(0, len(messages), _AT_ONCE):
                    await producer.send_batch(messages[first : first + _AT_ONCE])

        connected.call(send_all())
        logger.warning("bodies cannot be decoded, sent aside: topic=%s count=%d", self.topic, len(messages))
