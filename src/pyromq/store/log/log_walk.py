"""Log walk: through a commit log record by record, past blank marks and damage, without believing anything.

Up to its *durable end* the log was flushed once: what is damaged there is the disk's fault, and the walk goes on at the
next whole record. Behind it damage is what a crash leaves, and the walk ends: the log ends there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyromq.store.files.segments import Segment, SegmentList
from pyromq.wire.fast.record_run import scan_run
from pyromq.wire.record import Damage, NothingWritten, RecordFound, Scanned, SegmentEnd, find_record_after, scan_record

BEHIND_END = "it lies behind the end of the log"
_SCAN_BYTES = 4 << 20

Found = tuple[int, RecordFound]


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes inside the log that were a record once; they stay where they are and are never served."""

    position: int
    end: int
    reason: str


class LogWalk:
    """Iterate to get lists of records with their positions. Then ``position`` is where the log ends, ``reason`` why.

    Before ``durable_end`` the log cannot end: what is damaged there is passed over and noted in ``damaged``.
    """

    def __init__(self, segments: SegmentList, start: int, durable_end: int) -> None:
        self._segments = segments
        self._durable_end = durable_end
        self.position = start
        self.reason = BEHIND_END
        self.damaged: list[DamagedRange] = []

    def __iter__(self) -> Iterator[list[Found]]:
        while (segment := self._segments.holding(self.position)) is not None:
            data = segment.open_once().read_at(self.position - segment.base, _SCAN_BYTES)
            records, size = scan_run(data, self.position)
            self.position += size
            if records:
                yield records
            if size >= _SCAN_BYTES // 2:
                continue
            if others := self._other_records(segment):
                yield others
            match self._look(segment):
                case RecordFound():
                    continue
                case SegmentEnd():
                    self.position = segment.end
                case NothingWritten() if self.position < self._durable_end:
                    self._pass_damage(segment, "nothing is written there")
                case Damage(reason) if self.position < self._durable_end:
                    self._pass_damage(segment, reason)
                case NothingWritten():
                    return
                case Damage(reason):
                    self.reason = reason
                    return

    def _look(self, segment: Segment) -> Scanned:
        at, torn = self.position - segment.base, self.position >= self._durable_end
        return scan_record(segment.open_once().map_once(), at, self.position, may_be_torn=torn)

    def _other_records(self, segment: Segment) -> list[Found]:
        """Whole records that are not plain (of RocketMQ, IPv6, long topics), as many as one read would bring."""
        found: list[Found] = []
        end = self.position + _SCAN_BYTES
        while self.position < end:
            record = self._look(segment)
            if not isinstance(record, RecordFound):
                break
            found.append((self.position, record))
            self.position += record.size
        return found

    def _pass_damage(self, segment: Segment, reason: str) -> None:
        """Go on at the next record, or where the log was durable."""
        found = find_record_after(segment.open_once().map_once(), self.position + 1 - segment.base, self.position + 1)
        end = min(segment.base + found if found is not None else segment.end, self._durable_end)
        self.damaged.append(DamagedRange(self.position, end, reason))
        self.position = end
