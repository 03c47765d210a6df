"""Timer log: which messages are due in which second, one unit for each, linked backwards within their second.

    byte   0    4          12      16         24      28         36     40           44         52
           52   previous   kind    written    delay   position   size   topic hash   reserved        big-endian
                unit       (bits)  (ms)       (ms)    of the record in the commit log

Files have one length (100 MiB); a unit never crosses from one into the next: when fewer than 68 bytes are left, a mark
of 16 bytes (i32 rest, i64 0, magic BLANK) ends the file. ``written`` plus ``delay`` is when the unit is due. RocketMQ
knows whole seconds only, so both are multiples of 1000 in its units, and what is due at such a second goes out when it
is over; units of PyroMQ are due to the millisecond, which ``written`` shows by never being a multiple of 1000.

Derived data: everything is in the timer topic too. What a crash leaves behind the position noted in ``check`` is
dropped and rebuilt.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntFlag
from typing import Final, NamedTuple

from pyromq.store.files.segments import Segment, SegmentList
from pyromq.wire.record_layout import MAGIC_BLANK

UNIT: Final = struct.Struct(">iqiqiqiiq")
UNIT_BYTES: Final = UNIT.size
NOWHERE: Final = -1
SECOND_MS: Final = 1_000
_END_MARK: Final = struct.Struct(">iqI")
_KIND_MAX: Final = 15


class TimerAction(IntFlag):
    """What is to be done when a unit is due."""

    DELIVER = 1
    ROLL = 2  # not due yet, only too far away: it goes through the topic once more
    CANCEL = 4


class TimerUnit(NamedTuple):
    previous: int
    kind: int
    written_ms: int
    delay_ms: int
    position: int
    size: int
    topic_hash: int = 0

    @property
    def second(self) -> int:
        return (self.written_ms + self.delay_ms) // SECOND_MS

    @property
    def release_ms(self) -> int:
        """The millisecond to let it go: its own, or the end of its second if RocketMQ wrote it."""
        due_ms = self.written_ms + self.delay_ms
        by_rocketmq = not (self.written_ms % SECOND_MS or due_ms % SECOND_MS)
        return due_ms + SECOND_MS if by_rocketmq else due_ms

    def pack(self) -> bytes:
        return UNIT.pack(UNIT_BYTES, *self, 0)


class TimerLog:
    """Owns the files. New units wait in memory until ``write``, which keeps them when the disk refuses."""

    def __init__(self, segments: SegmentList) -> None:
        self._segments = segments
        self.end = segments.last.end if len(segments) else 0  # ``cut`` says where it really ends
        self._parts: list[bytes] = []  # units that are not written yet
        self._written = self.end  # where these begin

    @property
    def first(self) -> int:
        return self._segments.first.base if len(self._segments) else 0

    @property
    def file_bytes(self) -> int:
        return self._segments.segment_bytes

    def dirty_files(self, since: int) -> list[Segment]:
        """Files with units at ``since`` or behind."""
        return [segment for segment in self._segments if segment.end > since and segment.base <= self.end]

    # --- writing ---

    def append(self, unit: TimerUnit) -> int:
        """Its position. Raises OSError when a file is full and the next one cannot be made; then nothing happened."""
        segment = self._segments.get_or_create(self.end)
        if segment.end - self.end < UNIT_BYTES + _END_MARK.size:
            self.write()
            rest = segment.end - self.end
            segment.open_once().write_at(self.end - segment.base, _END_MARK.pack(rest, 0, MAGIC_BLANK))
            segment = self._segments.get_or_create(segment.end)
            self.end = self._written = segment.base
        position = self.end
        self._parts.append(unit.pack())
        self.end += UNIT_BYTES
        return position

    def write(self) -> None:
        """Write the units that wait. Raises OSError, and then they go on waiting."""
        if self._parts:
            segment = self._segments.get_or_create(self._written)
            segment.open_once().write_at(self._written - segment.base, b"".join(self._parts))
            self._parts, self._written = [], self.end

    # --- reading ---

    def read(self, position: int) -> TimerUnit | None:
        """The unit there; None when there is none, or when it was deleted with its file."""
        segment = self._segments.holding(position) if 0 <= position < self._written else None
        if segment is None or segment.end - position < UNIT_BYTES:
            return None
        size, *fields, _ = UNIT.unpack_from(segment.open_once().map_once(), position - segment.base)
        return TimerUnit(*fields) if size == UNIT_BYTES and 0 < fields[1] <= _KIND_MAX else None

    def chain(self, last: int) -> list[tuple[int, TimerUnit]]:
        """The units of one second with their positions, oldest first. ``write`` comes before."""
        found = []
        before, position = self.end, last
        while NOWHERE < position < before and (unit := self.read(position)) is not None:
            found.append((position, unit))
            before, position = position, unit.previous
        found.reverse()
        return found

    def scan(self, start: int) -> Iterator[tuple[int, TimerUnit]]:
        """Units from the beginning of a file, or from one of them, up to the first place that holds none."""
        position = max(start, self.first)
        while (segment := self._segments.holding(position)) is not None:
            unit = self.read(position)
            if unit is not None:
                yield position, unit
                position += UNIT_BYTES
            elif segment.end - position < UNIT_BYTES + _END_MARK.size:
                position = segment.end
            else:
                return

    # --- recovery and retention ---

    def cut(self, end: int) -> None:
        """Drop everything from ``end`` on."""
        self._parts = []
        segment = self._segments.holding(end)
        self._segments.remove_from(end + 1 if segment else end)
        if segment is not None and segment.open_once().data_end(end - segment.base) > end - segment.base:
            segment.open_once().zero_from(end - segment.base)
        self.end = self._written = end

    def restart(self, behind: int) -> None:
        """Drop everything and go on in a new file behind all positions that may be noted elsewhere."""
        behind = max(behind, self.end)
        self._segments.remove_from(0)
        self._parts = []
        self.end = self._written = -(-behind // self.file_bytes) * self.file_bytes

    def forget_before(self, log_first: int) -> None:
        """Remove files whose units all speak of records that the commit log has no longer."""
        while len(self._segments) > 1:
            segment = self._segments.first
            count = (segment.size - _END_MARK.size) // UNIT_BYTES
            newest = self.read(segment.base + (count - 1) * UNIT_BYTES)
            if newest is not None and newest.position >= log_first:
                return
            self._segments.remove_first()

    def close(self) -> None:
        self._segments.close()
