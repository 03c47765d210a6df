"""Records of the commit log by position, flushed or not.

For the store itself and for services of the broker that follow what they wrote (delays, transactions). Consumers are
served by ``QueueReader``, which shows them nothing that a crash could take back.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyromq.errors import CorruptRecordError, PositionOutOfRangeError
from pyromq.store.log.commit_log import CommitLog
from pyromq.wire.record import Damage, RecordFound, scan_record
from pyromq.wire.record_layout import BLANK_BYTES, BODY_SIZE_AT, BORN_V6, HOST_BITS_AT, STORED_MS_AT, V6_MORE_BYTES


class LogReader:
    """Reads between the first position of the log and its end; one thread."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._segments = log.segments

    @property
    def end(self) -> int:
        """Position where the log ends."""
        return self._log.end

    def bytes_at(self, position: int, size: int) -> memoryview:
        """Stored bytes as they lie; raises PositionOutOfRangeError when they are not (or no longer) there."""
        segment = self._segments.holding(position)
        if segment is None or position + size > min(self._log.end, segment.end) or position < 0:
            raise PositionOutOfRangeError(requested=position, first=self._log.first, end=self._log.end)
        start = position - segment.base
        return segment.open_once().map_once()[start : start + size]

    def trusted_bytes(self, position: int, size: int) -> memoryview:
        """``bytes_at`` of a record, verified first unless recovery did that. Raises CorruptRecordError too."""
        if position < self._log.trusted_from:
            self.verify(position)
        return self.bytes_at(position, size)

    def record_bytes(self, position: int) -> memoryview:
        """Read as many bytes as the record there claims; the caller decodes, and so checks, them."""
        segment = self._segments.holding(position)
        if segment is None or position + BLANK_BYTES > min(self._log.end, segment.end) or position < 0:
            raise PositionOutOfRangeError(requested=position, first=self._log.first, end=self._log.end)
        view, start = segment.open_once().map_once(), position - segment.base
        end = start + int.from_bytes(view[start : start + 4], "big")
        if segment.base + end > min(self._log.end, segment.end):
            raise PositionOutOfRangeError(requested=segment.base + end, first=self._log.first, end=self._log.end)
        return view[start:end]

    def slices(self, runs: Sequence[tuple[int, int]]) -> tuple[memoryview, ...]:
        """``bytes_at`` for many runs [start, end) that rise; most of them lie in the same segment."""
        found, base, segment_end = [], 0, 0
        view = memoryview(b"")
        for start, end in runs:
            if not base <= start < segment_end:
                self.bytes_at(start, end - start)
                segment = self._segments.holding(start)
                assert segment is not None
                view, base, segment_end = segment.open_once().map_once(), segment.base, segment.end
            found.append(view[start - base : end - base])
        return tuple(found)

    def stored_ms(self, position: int) -> int:
        """Store time of the record at a position."""
        return stored_ms_of(self.bytes_at(position, BODY_SIZE_AT))

    def verify(self, position: int) -> RecordFound:
        """The record at a position, checked byte for byte; raises CorruptRecordError or PositionOutOfRangeError."""
        self.bytes_at(position, BLANK_BYTES)
        segment = self._segments.holding(position)
        assert segment is not None
        found = scan_record(segment.open_once().map_once(), position - segment.base, position)
        if isinstance(found, RecordFound) and position + found.size <= self._log.end:
            return found
        reason = found.reason if isinstance(found, Damage) else "no record starts there"
        raise CorruptRecordError(position=position, reason=reason)


def stored_ms_of(fixed: bytes | memoryview) -> int:
    """Store time in the first BODY_SIZE_AT bytes of a record."""
    at = STORED_MS_AT + V6_MORE_BYTES if fixed[HOST_BITS_AT] & BORN_V6 else STORED_MS_AT
    return int.from_bytes(fixed[at : at + 8], "big", signed=True)
