"""Delivered before: what an earlier life of this broker, or the master before it, has delivered is in the log.

    saved progress ─▶ messages from there on wait here, some were delivered since ─▶ a copy lies at the end of its queue

Progress of delay levels and timers is saved every second, and reaches replicas every few; after a crash or a failover
it is a little old. So a message that waited when the store was opened is looked for among the newest of the queue that
it belongs to, before it is delivered: a copy has the same unique key, birth, body and number of attempts, lies behind
it in the log, and was stored when it was due. One copy stands for one message.

In doubt a message is delivered: without a unique key; when its queue got too many messages since to be looked through;
and when one before it in its level, which is done, looks the same. Senders that use one object for many
messages make such twins, and the copy may be the other one's.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from pyromq.broker.base.queue_key import QueueKey
from pyromq.clock import Clock
from pyromq.errors import CorruptRecordError, PositionOutOfRangeError
from pyromq.model.names import SCHEDULE_TOPIC
from pyromq.model.property_names import REAL_TOPIC, TIMER_OUT_MS, UNIQUE_KEY
from pyromq.store.derived.queue_entry import FILLER_SIZE
from pyromq.store.log.log_reader import stored_ms_of
from pyromq.store.message_store import MessageStore
from pyromq.wire.properties import find_property
from pyromq.wire.record import Record, decode_record
from pyromq.wire.record_layout import BODY_CRC_AND_BORN_MS, BODY_SIZE_AT

logger = logging.getLogger(__name__)

_UNIQUE_KEY: Final = UNIQUE_KEY.encode()
_COMPARED: Final = tuple(name.encode() for name in (UNIQUE_KEY, REAL_TOPIC, TIMER_OUT_MS))
_SCHEDULE_TOPIC: Final = SCHEDULE_TOPIC.encode()
_EARLY_MS: Final = 500  # a commit has the time of its first message
_OF_A_QUEUE_MAX: Final = 20_000  # messages that are looked at, the newest first
_OF_ALL_MAX: Final = 200_000
_AT_ONCE: Final = 256
_TWINS_MS: Final = 10_000  # messages that were born together are stored within this time
_REMEMBERED_MS: Final = 60_000  # what may have been delivered is due by then


class _Copy(NamedTuple):
    """A message that may be a copy of one that waited."""

    position: int
    size: int
    stored_ms: int


class _Newest:
    """The newest messages of a queue, by checksum and birth, as far back as was looked."""

    def __init__(self, end: int) -> None:
        self.offset = end  # everything from here on was looked at
        self.looked_at = 0
        self.since_ms = 1 << 62  # everything stored from then on was
        self.copies: dict[tuple[int, int], list[_Copy]] = {}


class DeliveredBefore:
    """Made when the store is opened, used on the loop; forgets everything after a minute."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._end = store.end_position  # of what was there
        self._until_ms = clock.now_ms() + _REMEMBERED_MS
        self._queues: dict[QueueKey, _Newest] = {}
        self._done: dict[QueueKey, _Newest] = {}  # of levels: what lies before the first message that waited
        self._left = _OF_ALL_MAX
        self.found = 0

    def has(self, waiting: Record, due_ms: int, topic: str, queue_id: int) -> bool:
        """Whether that queue has a copy of a message that waited until then; the same copy is not found again."""
        if waiting.position >= self._end:
            return False
        if self._clock.now_ms() > self._until_ms:
            self._queues.clear()
            self._done.clear()
            return False
        key = find_property(waiting.properties, _UNIQUE_KEY)
        queue = self._store.queues.get((topic, queue_id))
        if not key or queue is None:
            return False
        done = self._done.setdefault((waiting.topic.decode(), waiting.queue_id), _Newest(waiting.offset))
        newest = self._queues.setdefault((topic, queue_id), _Newest(queue.committed_end))
        self._look_back(newest, topic, queue_id, queue.first, due_ms - _EARLY_MS)
        found = newest.copies.get((waiting.body_crc, waiting.born_ms), [])
        for copy in reversed(found):  # the oldest first: a later one may be of a later attempt
            if copy.position > waiting.position and copy.stored_ms >= due_ms - _EARLY_MS:
                if self._is_same(waiting, copy) and not self._has_twin(waiting, done):
                    found.remove(copy)
                    self._note()
                    return True
        return False

    def _has_twin(self, waiting: Record, done: _Newest) -> bool:
        """Whether a message of its level that is done cannot be distinguished from it, or there are too many to know.

        Timers need no such look: those that agree in their time are done together.
        """
        if waiting.topic != _SCHEDULE_TOPIC:
            return False
        level, since_ms = (SCHEDULE_TOPIC, waiting.queue_id), waiting.stored_ms - _TWINS_MS
        first = self._store.queues[level].first
        self._look_back(done, *level, first, since_ms)
        if done.since_ms > since_ms and done.offset > first:
            return True
        return any(self._is_same(waiting, each) for each in done.copies.get((waiting.body_crc, waiting.born_ms), ()))

    def _look_back(self, newest: _Newest, topic: str, queue_id: int, first: int, since_ms: int) -> None:
        """Look at messages that were stored from then on, as many as is reasonable."""
        while newest.since_ms > since_ms and newest.offset > first:
            if newest.looked_at >= _OF_A_QUEUE_MAX or self._left <= 0:
                return
            begin, end = max(first, newest.offset - _AT_ONCE), newest.offset
            for position, size in reversed(self._entries(topic, queue_id, begin, end)):
                newest.offset -= 1
                newest.looked_at += 1
                self._left -= 1
                if size == FILLER_SIZE or position >= self._end:
                    continue
                try:
                    fixed = self._store.records.bytes_at(position, BODY_SIZE_AT)
                except PositionOutOfRangeError:
                    continue
                copy = _Copy(position, size, stored_ms_of(fixed))
                newest.copies.setdefault(BODY_CRC_AND_BORN_MS.unpack_from(fixed), []).append(copy)
                newest.since_ms = min(newest.since_ms, copy.stored_ms)
            newest.offset = min(newest.offset, begin)

    def _entries(self, topic: str, queue_id: int, begin: int, end: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        while begin + len(found) < end:
            at = begin + len(found)
            some = [(each[0], each[1]) for each in self._store.reader.entries(topic, queue_id, at, end - at)]
            if not some:
                break
            found += some
        return found

    def _is_same(self, waiting: Record, copy: _Copy) -> bool:
        try:
            record = decode_record(self._store.records.bytes_at(copy.position, copy.size))
        except (CorruptRecordError, PositionOutOfRangeError):
            return False
        return _facts(record) == _facts(waiting)

    def _note(self) -> None:
        self.found += 1
        if self.found == 1:
            logger.info("delayed messages that are in the log already are not delivered again")


def _facts(record: Record) -> tuple[object, ...]:
    """What a message that waited and its copy have in common."""
    values = tuple(find_property(record.properties, name) for name in _COMPARED)
    return record.body, record.born_host, record.delivery_attempt, values
