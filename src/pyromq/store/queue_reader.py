"""Reads of queues: messages from an offset, the offset of a time.

What is read is shown as slices of the log as it lies; nothing is decoded that a filter does not ask for. Records that
recovery did not look at (they are older than the seal) are verified before they are served.

Consumers see records before the *visible end*: the flushed position or, with asynchronous flush, the end of the log.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, compress, islice
from operator import add, eq, le
from typing import NamedTuple

from pyromq.compiled_core import Core, PullLane, core
from pyromq.errors import CorruptRecordError, PositionOutOfRangeError
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.queue_entry import (
    ENTRY_BYTES,
    FILLER_SIZE,
    POSITION_AND_SIZE,
    QueueEntry,
    positions_and_sizes,
    tag_hashes,
)
from pyromq.store.files.health import DiskHealth
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.log.log_reader import LogReader
from pyromq.store.read_result import Boundary, QueueRange, ReadResult, ReadStatus
from pyromq.store.settings import StoreSettings
from pyromq.wire.record import Record, decode_record
from pyromq.wire.record_layout import RECORD_OVERHEAD_BYTES

logger = logging.getLogger(__name__)

_NEWEST_ENTRIES = 64
_FILTER_BYTES_MAX = 16 << 20  # of records that a filter looks into for one read: other requests wait meanwhile
_FILTER_WORK_MAX = 1 << 28  # likewise, terms × bytes: about 30 ms
_TERM_BYTES = 1_000  # a term costs as much as looking for it in so many bytes
_PROPERTY_BYTES_MAX = 32_767
_TAGS_MAX = 16  # that the compiled core compares one after the other
TagFilter = Callable[[int], bool]
RecordFilter = Callable[[memoryview], bool]


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


class QueueReader:
    """Shows consumers the records that end at or before ``visible_end``."""

    def __init__(
        self,
        log: CommitLog,
        records: LogReader,
        queues: Mapping[tuple[str, int], ConsumeQueue],
        settings: StoreSettings,
        health: DiskHealth,
        visible_end: Callable[[], int],
    ) -> None:
        self._log = log
        self._records = records
        self._queues = queues
        self._settings = settings
        self._health = health
        self._visible_end = visible_end
        self.damaged_reads = 0  # records that were passed over since the store was opened

    # --- offsets ---

    def range_of(self, topic: str, queue_id: int) -> QueueRange | None:
        """Offsets that can be read; None when the queue was never written. Writes owed entries first."""
        queue = self._queues.get((topic, queue_id))
        return QueueRange(queue.first, self.end_of(queue)) if queue else None

    def end_of(self, queue: ConsumeQueue) -> int:
        """Behind the last offset that consumers see. Writes owed entries first."""
        if queue.owed_bytes:
            self._write_owed(queue)
        visible = self._visible_end()
        if visible >= self._log.end:
            return queue.end
        newest = max(queue.first, queue.end - _NEWEST_ENTRIES)  # what is not flushed yet is among the newest
        entries = queue.entries(newest, _NEWEST_ENTRIES)
        if entries and len(entries) == queue.end - newest and entries[0].position + _real_size(entries[0]) <= visible:
            return newest + bisect_right(entries, visible, key=lambda entry: entry.position + _real_size(entry))
        return queue.search(lambda entry: entry.position + _real_size(entry) > visible)

    def _write_owed(self, queue: ConsumeQueue) -> None:
        """Bring the entries of committed messages into the files, from which they are read.

        Those that the disk refuses cannot be read yet; the store is told, and writes them when it can.
        """
        try:
            queue.write_owed()
        except OSError as error:
            if self._health.trusted:  # else it is known
                self._health.failed_write("consume queues", error)

    def offset_by_time(self, topic: str, queue_id: int, stored_ms: int, boundary: Boundary = Boundary.LOWER) -> int:
        """The offset at a store time; 0 for an unknown queue."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return 0
        end = self.end_of(queue)
        if boundary is Boundary.LOWER:
            found = queue.search(lambda entry: self._stored_ms(entry) >= stored_ms)
        else:
            found = queue.search(lambda entry: self._stored_ms(entry) > stored_ms) - 1
        return max(queue.first, min(found, end))

    def earliest_ms(self, topic: str, queue_id: int) -> int | None:
        """Store time of the oldest message of a queue."""
        queue = self._queues.get((topic, queue_id))
        return self._stored_ms(queue.entry(queue.first)) if queue and queue.first < self.end_of(queue) else None

    def stored_ms(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Store time of one message."""
        position = next((entry[0] for entry in self.entries(topic, queue_id, offset, 1)), None)
        return self._stored_ms_at(position) if position is not None else None

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Position, size and tag hash of up to ``count`` messages, flushed or not, as far as one queue file goes.

        Writes owed entries first, as every read here does.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return iter(())
        if queue.owed_bytes:
            self._write_owed(queue)
        return queue.raw_entries(offset, count)

    def _stored_ms(self, entry: QueueEntry) -> int:
        return self._stored_ms_at(entry.position)

    def _stored_ms_at(self, position: int) -> int:
        try:
            return self._records.stored_ms(position)
        except PositionOutOfRangeError:
            return 0  # older than the log: before every time that is asked for

    # --- messages of a queue ---

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        count_max: int = 32,
        bytes_max: int | None = None,
        accept_tag: TagFilter | None = None,
        accept_record: RecordFilter | WeighedFilter | None = None,
    ) -> ReadResult:
        """Messages from ``offset`` on, as many as the limits allow and at least one if there is one.

        Without ``bytes_max`` the settings limit the number too.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return ReadResult(ReadStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        first, end = queue.first, self.end_of(queue)
        if end == 0:
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, first, end)
        if offset < first:
            return ReadResult(ReadStatus.OFFSET_TOO_SMALL, first, first, end)
        if offset == end:
            return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, offset, first, end)
        if offset > end:
            return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, end, first, end)
        return self._collect(
            queue, offset, end, _Limits(self._settings, count_max, bytes_max), accept_tag, accept_record
        )

    def _collect(
        self,
        queue: ConsumeQueue,
        offset: int,
        end: int,
        limits: _Limits,
        accept_tag: TagFilter | None,
        accept_record: RecordFilter | WeighedFilter | None,
    ) -> ReadResult:
        if core is not None and accept_record is None:
            tags = tags_of(accept_tag)
            if tags is not None:
                result = self._collect_compiled(core, queue, offset, end, limits, tags)
                if result is not None:
                    return result
        if accept_record is None:
            plain = self._collect_plain(queue, offset, end, limits, accept_tag)
            if plain is not None:
                return plain
        test, terms = accept_record if isinstance(accept_record, WeighedFilter) else (accept_record, 1)
        records, trusted_from, log_first = self._records, self._log.trusted_from, self._log.first
        hot_from = self._log.end - self._settings.hot_bytes
        scan_count = self._settings.scan_entries_max if accept_tag or accept_record else limits.count
        runs: list[tuple[int, int]] = []  # positions [start, end) that follow each other in the log
        run_start = run_end = -1
        count = size_bytes = removed = looked_bytes = work = 0
        next_offset = offset
        for position, size, tag_hash in queue.raw_entries(offset, min(scan_count, end - offset)):
            if accept_tag is not None and not accept_tag(tag_hash):
                next_offset += 1
                continue
            if size == FILLER_SIZE or position < log_first:
                next_offset, removed = next_offset + 1, removed + 1
                continue
            if count and limits.reached(count, size_bytes + size, position < hot_from):
                break
            if looked_bytes > _FILTER_BYTES_MAX or work > _FILTER_WORK_MAX:
                break
            next_offset += 1
            if position < trusted_from and not self._verified(position):
                removed += 1
                continue
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
            status = ReadStatus.MESSAGE_WAS_REMOVING if removed else ReadStatus.NO_MATCHED_MESSAGE
            return ReadResult(status, next_offset, queue.first, end)
        runs.append((run_start, run_end))
        return ReadResult(
            ReadStatus.FOUND, next_offset, queue.first, end, records.slices(runs), count, size_bytes, run_end
        )

    def _collect_plain(
        self, queue: ConsumeQueue, offset: int, end: int, limits: _Limits, accept_tag: TagFilter | None
    ) -> ReadResult | None:
        """``_collect`` of messages that are plain; None when some are not, or some are neighbours in the log."""
        within = (self.plain_from, self._log.end)
        found = self.plain_records(queue, offset, end, limits.in_memory, accept_tag, within)
        if found is not None and not found.positions:
            return ReadResult(ReadStatus.NO_MATCHED_MESSAGE, found.next_offset, queue.first, end)
        if found is None or found.has_neighbours():
            return None
        count, size_bytes, runs = len(found.positions), found.size_bytes, found.pieces()
        return ReadResult(ReadStatus.FOUND, found.next_offset, queue.first, end, runs, count, size_bytes, found.end)

    @property
    def plain_from(self) -> int:
        """Records from there on were verified, and count as in memory."""
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

    def _collect_compiled(
        self, core: Core, queue: ConsumeQueue, offset: int, end: int, limits: _Limits, tags: Sequence[int]
    ) -> ReadResult | None:
        """``_collect`` by the compiled core, short runs in one piece; None when a record has to be verified first."""
        log, records = self._log, self._records
        scan_count = self._settings.scan_entries_max if tags else limits.count
        entries = queue.entry_bytes(offset, min(scan_count, end - offset))
        segment = log.segments.holding(int.from_bytes(entries[:8], "big"))
        if segment is None:
            return None
        bounds = (log.first, log.trusted_from, log.end - self._settings.hot_bytes)
        view = segment.open_once().map_once()
        found = core.pull_entries(entries, offset, bounds, limits.numbers, tags or None, view, segment.base, log.end)
        if found is None:
            return None
        runs, joined, count, size_bytes, end_position, next_offset, removed = found
        if not count:
            status = ReadStatus.MESSAGE_WAS_REMOVING if removed else ReadStatus.NO_MATCHED_MESSAGE
            return ReadResult(status, next_offset, queue.first, end)
        pieces = records.slices(runs) if joined is None else (memoryview(joined),)
        return ReadResult(ReadStatus.FOUND, next_offset, queue.first, end, pieces, count, size_bytes, end_position)

    def _verified(self, position: int) -> bool:
        try:
            self._records.verify(position)
        except CorruptRecordError as error:
            self.damaged_reads += 1
            logger.error("record passed over: position=%d reason=%s", position, error.reason)
            return False
        return True

    def limits_in_memory(self, count_max: int, bytes_max: int | None) -> tuple[int, int]:
        """How many messages and bytes ``read`` finds at most, as long as these are in memory."""
        of = self._settings
        if bytes_max is not None:
            return _Limits(of, count_max, bytes_max).in_memory
        count = of.read_count_max
        return max(1, count_max) if count_max < count else count, of.read_bytes_max

    def new_lane(self, core: Core, frame_bytes_max: int, response: Sequence[bytes]) -> PullLane:
        """A lane of the compiled core that reads as ``read`` does; each call of it wants ``lane_bounds``."""
        of = self._settings
        cold = (of.cold_read_count_max, of.cold_read_bytes_max)
        limits = (of.read_count_max, of.read_bytes_max, *cold, of.scan_entries_max, RECORD_OVERHEAD_BYTES)
        return core.PullLane(self._log.segments, self._records, limits, frame_bytes_max, response)

    @property
    def lane_bounds(self) -> tuple[int, int, int, int, int]:
        """Where the log begins, was verified from, counts as in memory from; where what consumers see, and it, ends."""
        log = self._log
        end = log.end
        return log.first, log.trusted_from, end - self._settings.hot_bytes, self._visible_end(), end

    # --- single messages ---

    def record_at(self, position: int) -> Record:
        """The message at a log position; raises PositionOutOfRangeError or CorruptRecordError."""
        stored = self._records.record_bytes(position)
        if position + len(stored) > self._visible_end():
            raise PositionOutOfRangeError(requested=position, first=self._log.first, end=self._visible_end())
        record = decode_record(stored)
        if record.position != position:  # a position may come from anywhere, also from the middle of a body
            raise CorruptRecordError(position=position, reason=f"it says it belongs to position {record.position}")
        return record

    def bytes_of(self, position: int) -> memoryview:
        """Its stored bytes, verified: a position may come from anywhere."""
        found = self._records.verify(position)
        if position + found.size > self._visible_end():
            raise PositionOutOfRangeError(requested=position, first=self._log.first, end=self._visible_end())
        return self._records.bytes_at(position, found.size)


class _Limits:
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


def _real_size(entry: QueueEntry) -> int:
    return 0 if entry.size == FILLER_SIZE else entry.size
