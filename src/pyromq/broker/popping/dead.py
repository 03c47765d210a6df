"""Dead letters of popping groups: a message that was delivered as often as its group allows, and never acknowledged.

    time over, attempts used up ─▶ a copy in %DLQ%group is stored ─▶ the row is acknowledged

In this order: a crash in between leaves both, and the next expiry writes a second copy; none is ever lost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyromq.broker.base.record_copy import again, properties_of
from pyromq.broker.base.stats import Counters
from pyromq.broker.base.window_counters import ONE_MESSAGE
from pyromq.broker.popping.journal import PopJournal, Put, Then
from pyromq.broker.state.topics import Topics
from pyromq.errors import MQError
from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic
from pyromq.store.in_flight.queue import InFlightQueue
from pyromq.wire.message_id import stored_id
from pyromq.wire.property_text import value_of, with_values
from pyromq.wire.record import Draft, Record, decode_record


class DeadLetters:
    """Writes them; ``on_failed`` hears of rows whose copy could not be stored, and that stay."""

    def __init__(self, topics: Topics, journal: PopJournal, put: Put, counters: Counters) -> None:
        self._topics = topics
        self._journal = journal
        self._put = put
        self._counters = counters
        self.on_failed: Callable[[InFlightQueue, int], None] = lambda queue, offset: None

    def bury(self, queue: InFlightQueue, offset: int, stored: memoryview, topic: str, then: Then | None = None) -> None:
        """Store the copy, then acknowledge the row; nobody else gets it meanwhile."""
        record, attempts = decode_record(bytes(stored)), queue.rows[offset].attempts
        queue.settling.add(offset)
        done = partial(self._stored, queue, offset, then)
        try:
            placed = self._put(self._letter(queue.name.group, record, topic, attempts), done)
        except MQError as error:
            done(error)
            return
        self._counters.dead[topic, queue.name.group] += ONE_MESSAGE + placed.size

    def _letter(self, group: str, record: Record, topic: str, attempts: int) -> Draft:
        dead = self._topics.create(dead_letter_topic(group), queues=1)
        text = properties_of(record).decode()
        first_id = value_of(text, names.ORIGIN_MESSAGE_ID) or stored_id(record.store_host, record.position)
        values = {
            names.ORIGIN_MESSAGE_ID: first_id,
            names.RETRY_TOPIC: value_of(text, names.RETRY_TOPIC) or topic,
            names.WAIT: "false",
            names.DELAY: "0",
        }
        return again(record, dead.topic_name, 0, with_values(text, values).encode(), failures=attempts)

    def _stored(self, queue: InFlightQueue, offset: int, then: Then | None, error: MQError | None) -> None:
        queue.settling.discard(offset)
        if error is None:
            self._journal.ack(queue, (offset,), then)
            return
        self.on_failed(queue, offset)
        if then is not None:
            then(error)
