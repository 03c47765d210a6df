"""Scan of a queue: which messages a read finds, and the stored bytes of these.

It is decided in three places that give the same answer, and ``scan`` takes the fastest that can:

    core        ``pulls.scan`` of the compiled core, also in its pull lane    no filter but tags, nothing to verify
    Python      ``plain_records``, also in the Python lane                    the same, and all in one segment in memory
    reference   ``_scan_reference``                                           everything
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, compress, islice
from operator import add, eq, le
from typing import NamedTuple

from pyromq.compiled_core import Core, PlainPops, PullLane, core
from pyromq.errors import CorruptRecordError
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.queue_entry import (
    ENTRY_BYTES,
    FILLER_SIZE,
    POSITION_AND_SIZE,
    positions_and_sizes,
    tag_hashes,
)
from pyromq.store.entry_repair import EntryRepair
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.log.log_reader import LogReader
from pyromq.store.read_result import ReadResult, ReadStatus
from pyromq.store.settings import StoreSettings
from pyromq.wire.record_layout import RECORD_OVERHEAD_BYTES

logger = logging.getLogger(__name__)

_FILTER_BYTES_MAX = 16 << 20  # of records that a filter looks into for one read: other requests wait meanwhile
_FILTER_WORK_MAX = 1 << 28  # likewise, terms × bytes: about 30 ms
_TERM_BYTES = 1_000  # a term costs as much as looking for it in so many bytes
_PROPERTY_BYTES_MAX = 32_767
_WAITS = -1  # in place of a count of removed messages: the read stopped at one that another member has
_TAGS_MAX = 16  # that the compiled core compares one after the other
TagFilter = Callable[[int], bool]
RecordFilter = Callable[[memoryview], bool]
DamagedRead = Callable[[int, int, str], bool]
"""Asked about a record that is damaged: position, size, what is wrong. True when reads have to stop before it."""


def passes_over(position: int, size: int, reason: str) -> bool:
    """Answer of a broker alone: no other member has the message."""
    return False


Scanned = tuple[tuple[memoryview, ...], int, int, int, int, int]
"""What a read found: pieces, messages, bytes, where the last one ends, the next offset, entries without a record."""


class WeighedFilter(NamedTuple):
    """A test of records that says how many terms it looks at in each."""

    accept: RecordFilter
    terms: int


class PlainRecords(NamedTuple):
    """Records of one segment, which begins at ``base`` of the log: where each lies in the log, in order; or none."""

    view: memoryview
    base: int
    positions: Sequence[int]
    sizes: Sequence[int]
    size_bytes: int
    next_offset: int  # behind those that were looked at

    @property
    def end(self) -> int:
        """Where the last one ends in the log."""
        return self.positions[-1] + self.sizes[-1]

    def has_neighbours(self) -> bool:
        """Some follow others in the log, but not all."""
        if self.end - self.positions[0] == self.size_bytes:
            return False
        return any(map(eq, map(add, self.positions, self.sizes), self.positions[1:]))

    def pieces(self) -> tuple[memoryview, ...]:
        """All in one piece if they follow each other in the log, else each by itself."""
        view, base, positions, sizes, size_bytes, _ = self
        start = positions[0] - base
        if positions[-1] + sizes[-1] - positions[0] == size_bytes:
            return (view[start : start + size_bytes],)
        if base:
            return tuple([view[(at := each - base) : at + size] for each, size in zip(positions, sizes, strict=True)])
        return tuple([view[at : at + size] for at, size in zip(positions, sizes, strict=True)])


class EntryScan:
    """Scan of queue entries of one store; ``QueueReader`` knows where queues begin and end."""

    def __init__(self, log: CommitLog, records: LogReader, settings: StoreSettings) -> None:
        self._log = log
        self._records = records
        self._settings = settings
        self._repair = EntryRepair(log, records)
        self.damaged_reads = 0  # records that were passed over since the store was opened
        self.must_wait: DamagedRead = passes_over

    def scan(
        self,
        queue: ConsumeQueue,
        offset: int,
        end: int,
        limits: ReadLimits,
        accept_tag: TagFilter | None,
        accept_record: RecordFilter | WeighedFilter | None,
    ) -> ReadResult:
        """Messages of [offset, end), as many as the limits allow and at least one if there is one."""
        found: Scanned | None = None
        if accept_record is None:
            if core is not None and (tags := tags_of(accept_tag)) is not None:
                found = self._scan_compiled(core, queue, offset, end, limits, tags)
            found = found or self._scan_plain(queue, offset, end, limits, accept_tag)
        found = found or self._scan_reference(queue, offset, end, limits, accept_tag, accept_record)
        pieces, count, size_bytes, end_position, next_offset, removed = found
        if count:
            status = ReadStatus.FOUND
        elif removed == _WAITS:
            status = ReadStatus.OFFSET_OVERFLOW_ONE  # as if it had not come yet
        else:
            status = ReadStatus.MESSAGE_WAS_REMOVING if removed else ReadStatus.NO_MATCHED_MESSAGE
        return ReadResult(status, next_offset, queue.first, end, pieces, count, size_bytes, end_position)

    def _scan_reference(
        self,
        queue: ConsumeQueue,
        offset: int,
        end: int,
        limits: ReadLimits,
        accept_tag: TagFilter | None,
        accept_record: RecordFilter | WeighedFilter | None,
    ) -> Scanned:
        """Look at one entry after the other, and verify what has to be."""
        test, terms = accept_record if isinstance(accept_record, WeighedFilter) else (accept_record, 1)
        records, log_first, hot_from = self._records, self._log.first, self._log.end - self._settings.hot_bytes
        plain_from = self.plain_from
        scan_count = self._settings.scan_entries_max if accept_tag or accept_record else limits.count
        runs: list[tuple[int, int]] = []  # positions [start, end) that follow each other in the log
        run_start = run_end = -1
        count = size_bytes = removed = looked_bytes = work = 0
        next_offset = offset
        entries = list(queue.raw_entries(offset, min(scan_count, end - offset)))
        following = [position for position, _, _ in entries[1:]] + [self._log.end]
        for (position, size, tag_hash), position_behind in zip(entries, following, strict=True):
            if accept_tag is not None and not accept_tag(tag_hash):
                next_offset += 1
                continue
            if size == FILLER_SIZE or (0 <= position < log_first and self._is_in_line(queue, next_offset)):
                next_offset, removed = next_offset + 1, removed + 1
                continue
            if count and limits.reached(count, size_bytes + size, position < hot_from):
                break
            if looked_bytes > _FILTER_BYTES_MAX or work > _FILTER_WORK_MAX:
                break
            if position < plain_from or position + size > position_behind:
                try:
                    position, size = self._repair.verified(queue, next_offset, position, size)
                except CorruptRecordError as damage:
                    if self.must_wait(position, size, damage.reason):
                        removed = _WAITS
                        break
                    self.damaged_reads += 1
                    logger.error("record passed over: position=%d reason=%s", position, damage.reason)
                    next_offset, removed = next_offset + 1, removed + 1
                    continue
            next_offset += 1
            if test is not None:
                looked_bytes += size
                work += terms * (_TERM_BYTES + min(size, _PROPERTY_BYTES_MAX))
                if not test(records.bytes_at(position, size)):
                    continue
            if position != run_end:
                if count:
                    runs.append((run_start, run_end))
                run_start = position
            run_end = position + size
            count, size_bytes = count + 1, size_bytes + size
        if not count:
            return (), 0, 0, 0, next_offset, removed
        runs.append((run_start, run_end))
        return records.slices(runs), count, size_bytes, run_end, next_offset, removed

    def _scan_plain(
        self, queue: ConsumeQueue, offset: int, end: int, limits: ReadLimits, accept_tag: TagFilter | None
    ) -> Scanned | None:
        """Messages that are plain; None when some are not, or some are neighbours in the log."""
        within = (self.plain_from, self._log.end)
        found = self.plain_records(queue, offset, end, limits.in_memory, accept_tag, within)
        if found is None:
            return None
        if not found.positions:
            return (), 0, 0, 0, found.next_offset, 0
        if found.has_neighbours():
            return None
        return found.pieces(), len(found.positions), found.size_bytes, found.end, found.next_offset, 0

    @property
    def plain_from(self) -> int:
        """Records from there on were verified when the store was opened, or written since, and count as in memory."""
        return max(self._log.trusted_from, self._log.end - self._settings.hot_bytes)

    def plain_records(
        self,
        queue: ConsumeQueue,
        offset: int,
        end: int,
        limits: tuple[int, int],
        accept_tag: TagFilter | None,
        within: tuple[int, int],
    ) -> PlainRecords | None:
        """What ``read`` finds in [offset, end) if that is verified, in memory and in one segment; else None.

        ``limits``: messages and bytes. ``within``: ``plain_from``, and the end of the log. What is asked of messages is
        asked of all at once: a loop would cost more than all the rest of a pull.
        """
        count_max, bytes_max = limits
        positions: Sequence[int]
        sizes: Sequence[int]
        if accept_tag is None:
            positions, sizes = positions_and_sizes(queue.entry_bytes(offset, min(count_max, end - offset)))
            numbers: Sequence[int] = range(len(sizes) + 1)
        else:
            scanned = min(self._settings.scan_entries_max, end - offset)
            passing = _passing(queue, offset, scanned, count_max, accept_tag)
            if passing is None:
                return None
            positions, sizes, numbers = passing
        if not sizes:
            return PlainRecords(memoryview(b""), 0, (), (), 0, offset + numbers[0])
        size_bytes = sum(sizes)
        if size_bytes > bytes_max or size_bytes >= FILLER_SIZE:
            if FILLER_SIZE in sizes:
                return None
            fitting = max(1, bisect_right(list(accumulate(sizes)), bytes_max))
            positions, sizes = positions[:fitting], sizes[:fitting]
            size_bytes = sum(sizes)
        next_offset = offset + numbers[len(sizes)]
        first, last_end = positions[0], positions[-1] + sizes[-1]
        segment = self._log.segments.holding(first)
        if segment is None or first < within[0] or last_end > segment.end or last_end > within[1]:
            return None
        if last_end - first != size_bytes and not _go_forward(positions, sizes):
            return None  # one of them points elsewhere: the ordinary way finds out which
        return PlainRecords(segment.open_once().map_once(), segment.base, positions, sizes, size_bytes, next_offset)

    def _scan_compiled(
        self, core: Core, queue: ConsumeQueue, offset: int, end: int, limits: ReadLimits, tags: Sequence[int]
    ) -> Scanned | None:
        """By the compiled core, short runs in one piece; None when a record has to be verified first."""
        log, records = self._log, self._records
        scan_count = self._settings.scan_entries_max if tags else limits.count
        entries = queue.entry_bytes(offset, min(scan_count, end - offset))
        segment = log.segments.holding(int.from_bytes(entries[:8], "big"))
        if segment is None:
            return None
        bounds = (log.first, self.plain_from, log.end - self._settings.hot_bytes)
        view = segment.open_once().map_once()
        found = core.pull_entries(entries, offset, bounds, limits.numbers, tags or None, view, segment.base, log.end)
        if found is None:
            return None
        runs, joined, count, size_bytes, end_position, next_offset, removed = found
        if not count:
            return (), 0, 0, 0, next_offset, removed
        if end_position > log.end:  # the last one points elsewhere
            return None
        pieces = records.slices(runs) if joined is None else (memoryview(joined),)
        return pieces, count, size_bytes, end_position, next_offset, removed

    def _is_in_line(self, queue: ConsumeQueue, offset: int) -> bool:
        """Whether retention took the record of this entry: then it took that of the entry before it, too."""
        return offset <= queue.first or queue.entry(offset - 1).position < self._log.first

    def limits_in_memory(self, count_max: int, bytes_max: int | None) -> tuple[int, int]:
        """How many messages and bytes ``read`` finds at most, as long as these are in memory."""
        of = self._settings
        if bytes_max is not None:
            return ReadLimits(of, count_max, bytes_max).in_memory
        count = of.read_count_max
        return max(1, count_max) if count_max < count else count, of.read_bytes_max

    def new_lane(self, core: Core, frame_bytes_max: int, response: Sequence[bytes]) -> PullLane:
        """A lane of the compiled core that reads as ``read`` does; each call of it wants ``lane_bounds``."""
        return core.PullLane(self._log.segments, self._records, self._lane_limits, frame_bytes_max, response)

    def new_pop_lane(self, core: Core, frame_bytes_max: int, response: Sequence[bytes]) -> PlainPops:
        """A lane of the compiled core for pops, which reads as ``read`` does."""
        return core.PopLane(self._log.segments, self._records, self._lane_limits, frame_bytes_max, response)

    @property
    def _lane_limits(self) -> tuple[int, int, int, int, int, int]:
        of = self._settings
        cold = (of.cold_read_count_max, of.cold_read_bytes_max)
        return (of.read_count_max, of.read_bytes_max, *cold, of.scan_entries_max, RECORD_OVERHEAD_BYTES)


class ReadLimits:
    """When a read is full: fewer and smaller messages when they have to come from disk.

    A read with a limit in bytes is not limited in number: bytes alone say what it costs.
    """

    __slots__ = ("_bytes", "_cold_bytes", "_cold_count", "count")

    def __init__(self, settings: StoreSettings, count_max: int, bytes_max: int | None) -> None:
        self._bytes, count, cold_count = settings.read_bytes_max, settings.read_count_max, settings.cold_read_count_max
        if bytes_max:
            self._bytes = min(bytes_max, self._bytes)
            count = cold_count = max(count, self._bytes // RECORD_OVERHEAD_BYTES)
        self._cold_bytes = min(self._bytes, settings.cold_read_bytes_max)
        self.count = max(1, min(count_max, count))
        self._cold_count = min(self.count, cold_count)

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """Messages and bytes, and how many of both when they have to come from disk."""
        return self.count, self._bytes, self._cold_count, self._cold_bytes

    @property
    def in_memory(self) -> tuple[int, int]:
        """Messages and bytes, when they are in memory."""
        return self.count, self._bytes

    def reached(self, count: int, size_bytes: int, cold: bool) -> bool:
        if cold:
            return count >= self._cold_count or size_bytes > self._cold_bytes
        return count >= self.count or size_bytes > self._bytes


def _go_forward(positions: Sequence[int], sizes: Sequence[int]) -> bool:
    """Each begins where the one before it ends, or behind that; so all lie between the first and the last."""
    return min(sizes) > 0 and all(map(le, map(add, positions, sizes), positions[1:]))


def _passing(
    queue: ConsumeQueue, offset: int, scanned: int, count_max: int, accept_tag: TagFilter
) -> tuple[Sequence[int], Sequence[int], Sequence[int]] | None:
    """Positions and sizes of up to ``count_max`` of the next ``scanned`` messages that pass the filter; None before a
    filler.

    Then their numbers among all that were looked at, and the number of the next one to look at. At first only a few are
    looked at, for it may be that all pass; then as many as it seems to take.
    """
    width = count_max + 1
    while True:
        data = queue.entry_bytes(offset, min(width, scanned))
        passes = list(map(accept_tag, tag_hashes(data)))
        passed = sum(passes)
        if passed > count_max or width >= scanned or len(passes) < width:
            break
        width = width * (count_max + 1) // passed * 5 // 4 + 1 if passed else scanned
    numbers: Sequence[int] = range(len(passes) + 1)
    if passed == len(passes):
        positions, sizes = positions_and_sizes(data)
    else:
        found = list(islice(compress(numbers, passes), count_max + 1))
        entries = [POSITION_AND_SIZE.unpack_from(data, at * ENTRY_BYTES) for at in found]
        positions, sizes = tuple([position for position, _ in entries]), tuple([size for _, size in entries])
        numbers = [*found, len(passes)]
    if len(sizes) > count_max:
        if sizes[count_max] == FILLER_SIZE:
            return None
        positions, sizes = positions[:count_max], sizes[:count_max]
    return positions, sizes, numbers


def tags_of(accept_tag: TagFilter | None) -> Sequence[int] | None:
    """The tags that pass, empty when all do; None when the test is not one of a few tags."""
    if accept_tag is None:
        return ()
    tags = getattr(accept_tag, "__self__", None)
    if not isinstance(tags, frozenset) or accept_tag != tags.__contains__:
        return None
    return tuple(tags) if 0 < len(tags) <= _TAGS_MAX else None
