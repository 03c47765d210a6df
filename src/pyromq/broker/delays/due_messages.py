"""Due messages: from the record that waited to the message that is delivered, with its topic and properties."""

from __future__ import annotations

import logging

from pyromq.broker.base.record_copy import again, properties_of
from pyromq.broker.delays.delivered import DeliveredBefore
from pyromq.broker.state.topics import Topics
from pyromq.errors import CorruptRecordError, PositionOutOfRangeError
from pyromq.model.names import HALF_TOPIC
from pyromq.model.property_names import REAL_QUEUE, REAL_TOPIC
from pyromq.store.message_store import MessageStore
from pyromq.wire.properties import find_property
from pyromq.wire.record import Draft, Record, decode_record

logger = logging.getLogger(__name__)

_REAL_TOPIC, _REAL_QUEUE = REAL_TOPIC.encode(), REAL_QUEUE.encode()


class DueMessages:
    """Reads records that waited and addresses them; the text of their properties stays as RocketMQ keeps it."""

    def __init__(self, store: MessageStore, topics: Topics, before: DeliveredBefore | None = None) -> None:
        self._records = store.records
        self._must_wait = store.reader.must_wait
        self._topics = topics
        self._before = before
        self.lost = 0  # records that were damaged or deleted while they waited

    def read(self, position: int, size: int) -> Record | None:
        """The record; None, counted and logged, when it is there no longer.

        Raises CorruptRecordError when it is damaged here and another member may deliver it: the caller waits.
        """
        try:
            record = decode_record(self._records.bytes_at(position, size))
            if record.position == position:
                return record
            damage = CorruptRecordError(position=position, reason=f"it belongs to position {record.position}")
        except CorruptRecordError as error:
            damage = error
        except PositionOutOfRangeError as error:
            self.gone(position, error)
            return None
        self.damaged(damage, size)
        return None

    def damaged(self, damage: CorruptRecordError, size: int) -> None:
        """Count and log a record that nobody can deliver; raises ``damage`` when another member may."""
        if self._must_wait(damage.position, size, damage.reason):
            raise damage
        self.gone(damage.position, damage)

    def gone(self, position: int, reason: object) -> None:
        """Count and log a record that is there no longer."""
        self.lost += 1
        logger.error("delayed message lost: position=%d reason=%s", position, reason)

    def delivery(self, record: Record, added: bytes = b"") -> Draft | None:
        """The message for its own topic; None, logged, when it has none.

        Raises StoreReadOnlyError, which passes, and LocalProtocolError, which does not.
        """
        properties = properties_of(record)
        topic = (find_property(properties, _REAL_TOPIC) or b"").decode("utf-8", "replace")
        queue_id = find_property(properties, _REAL_QUEUE) or b""
        if topic == HALF_TOPIC or not (topic and queue_id.isdigit()):
            self.dropped(record, f"it belongs to queue {queue_id!r} of topic {topic!r}")
            return None
        return again(record, topic, self._queue_id(topic, int(queue_id)), properties + added)

    def was_delivered(self, record: Record, due_ms: int, draft: Draft) -> bool:
        """Whether the message was delivered before this broker was what it is, and its progress was not saved."""
        return self._before is not None and self._before.has(record, due_ms, draft.topic, draft.queue_id)

    def dropped(self, record: Record, reason: object) -> None:
        """No broker could ever deliver it."""
        self.lost += 1
        logger.error("delayed message dropped: position=%d reason=%s", record.position, reason)

    def _queue_id(self, topic: str, queue_id: int) -> int:
        """A queue that consumers look into: the topic may have been deleted, or made smaller, in the meantime."""
        config = self._topics.get(topic)
        if config is None:
            logger.warning("topic of a due message recreated: topic=%s", topic)
            config = self._topics.create(topic, queues=queue_id + 1)
        return queue_id % config.read_queue_nums if config.read_queue_nums else queue_id
