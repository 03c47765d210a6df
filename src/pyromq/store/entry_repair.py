"""Entry repair: a queue entry that points at the wrong place of the log is corrected from the log, which is the truth.

    entry before it ──▶ end of that record ──▶ walk the log ──▶ the record of this queue with this offset
                                                   └─ as far as the record of the entry behind it

Queue files have no checksum for each entry; seals have one for a whole file, which is compared when a store is opened.
A bit that flips later shows when a reader finds another record at the place than the one the entry stands for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from pyromq.errors import CorruptRecordError, PositionOutOfRangeError
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.queue_entry import FILLER_SIZE
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.log.log_reader import LogReader
from pyromq.store.log.log_walk import LogWalk
from pyromq.wire.record import RecordFound

logger = logging.getLogger(__name__)

_NEIGHBOURS_MAX: Final = 8  # that are asked where the record may lie
_WALKED_MAX: Final = 4 << 20  # bytes of the log; other requests wait meanwhile, for up to 60 ms
_POSITION_BITS: Final = 64
_MISSING_MAX: Final = 10_000
_FLIPPED_MAX: Final = 2  # bits of an entry; two places of records seldom differ in so few


class RecordPlace(NamedTuple):
    """Where the record of an entry lies."""

    position: int
    size: int


class EntryRepair:
    """Verifies what entries point at, and corrects those that point elsewhere; on the thread of the store."""

    def __init__(self, log: CommitLog, records: LogReader) -> None:
        self._log = log
        self._records = records
        self._missing: set[tuple[str, int, int]] = set()  # entries whose record was searched for in vain, once each

    def verified(self, queue: ConsumeQueue, offset: int, position: int, size: int) -> RecordPlace:
        """The whole record that this entry stands for. Raises CorruptRecordError when the log does not have it."""
        damage = CorruptRecordError(position=position, reason="its queue entry has another size")
        try:
            found = self._records.verify(position)
            if found.size == size and _is_of(found, queue, offset):
                return RecordPlace(position, size)
        except CorruptRecordError as error:
            found, damage = None, error
        except PositionOutOfRangeError as error:
            found, damage = None, CorruptRecordError(position=position, reason=str(error))
        place = self._find_once(queue, offset, RecordPlace(position, size))
        if place is not None and place != (position, size):
            self._correct(queue, offset, place)
            return place
        if found is not None and found.size == size:  # a log of RocketMQ may count offsets in another way
            return RecordPlace(position, size)
        raise damage

    def _find_once(self, queue: ConsumeQueue, offset: int, entry: RecordPlace) -> RecordPlace | None:
        """Consumers come to a damaged record again and again; the log is walked for the first of them alone."""
        key = queue.topic, queue.queue_id, offset
        if key in self._missing:
            return None
        place = self._unflipped(queue, offset, entry) or self._find(queue, offset, entry)
        if place is None:
            if len(self._missing) >= _MISSING_MAX:
                self._missing.clear()
            self._missing.add(key)
        return place

    def _unflipped(self, queue: ConsumeQueue, offset: int, entry: RecordPlace) -> RecordPlace | None:
        """The record at the position of this entry, or at one that differs in a single bit, however far away."""
        unsigned = entry.position % (1 << _POSITION_BITS)
        for position in (unsigned, *(unsigned ^ 1 << bit for bit in range(_POSITION_BITS))):
            if self._log.first <= position < self._log.flushed:
                with suppress(CorruptRecordError, PositionOutOfRangeError):
                    record = self._records.verify(position)
                    if _is_of(record, queue, offset):
                        return RecordPlace(position, record.size)
        return None

    def _find(self, queue: ConsumeQueue, offset: int, entry: RecordPlace) -> RecordPlace | None:
        """Search the log between the records of its neighbours.

        Where no neighbour in front is sound, the log may have a record with this offset of a deleted topic of the same
        name: then the last one counts, and only if an accident of the disk makes this entry of its place.
        """
        log = self._log
        before = self._first_sound(queue, range(offset - 1, max(queue.first, offset - _NEIGHBOURS_MAX) - 1, -1))
        behind = self._first_sound(queue, range(offset + 1, min(queue.end, offset + _NEIGHBOURS_MAX)))
        end = behind.position if behind is not None else log.flushed
        start = before.position + before.size if before is not None else max(log.first, end - _WALKED_MAX)
        walk, found = LogWalk(log.segments, start, log.flushed), None
        for records in walk:
            for position, record in records:
                if position < end and _is_of(record, queue, offset):
                    found = RecordPlace(position, record.size)
            if walk.position >= end or walk.position - start > _WALKED_MAX or (found and before):
                break
        return found if found and (before or _may_be(entry, found)) else None

    def _first_sound(self, queue: ConsumeQueue, offsets: Iterable[int]) -> RecordPlace | None:
        """Find the first of these entries whose record is where it says."""
        for offset in offsets:
            position, size, _ = queue.entry(offset)
            if size == FILLER_SIZE:
                continue
            try:
                if _is_of(self._records.verify(position), queue, offset):
                    return RecordPlace(position, size)
            except (CorruptRecordError, PositionOutOfRangeError):
                continue
        return None

    def _correct(self, queue: ConsumeQueue, offset: int, place: RecordPlace) -> None:
        try:
            queue.correct(offset, *place)
        except OSError as error:
            logger.warning(
                "queue entry not corrected: topic=%s queue=%d offset=%d reason=%s",
                *(queue.topic, queue.queue_id, offset, error),
            )
            return
        logger.error(
            "queue entry was damaged on disk, corrected from the log: topic=%s queue=%d offset=%d position=%d",
            *(queue.topic, queue.queue_id, offset, place.position),
        )


def _may_be(entry: RecordPlace, place: RecordPlace) -> bool:
    """Whether the entry is this place with a few flipped bits, or wiped."""
    flipped = (entry.position ^ place.position).bit_count() + (entry.size ^ place.size).bit_count()
    return flipped <= _FLIPPED_MAX or entry == (0, 0)


def _is_of(record: RecordFound, queue: ConsumeQueue, offset: int) -> bool:
    return record.offset == offset and record.queue_id == queue.queue_id and record.topic == queue.topic.encode()
