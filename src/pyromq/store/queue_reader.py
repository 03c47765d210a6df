"""Reads of queues: messages from an offset, the offset of a time.

What is read is shown as slices of the log as it lies; nothing is decoded that a filter does not ask for. Records that
recovery did not look at (they are older than the seal) are verified before they are served.

Consumers see records before the *visible end*: the flushed position or, with asynchronous flush, the end of the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

from pyromq.compiled_core import PlainPops, PoppedRead
from pyromq.errors import CorruptRecordError, PositionOutOfRangeError, StoreClosedError
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.queue_entry import FILLER_SIZE, QueueEntry
from pyromq.store.files.health import DiskHealth
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.log.log_reader import LogReader
from pyromq.store.queue_scan import EntryScan, ReadLimits, RecordFilter, TagFilter, WeighedFilter, passes_over
from pyromq.store.read_result import Boundary, QueueRange, ReadResult, ReadStatus
from pyromq.store.settings import StoreSettings
from pyromq.wire.record import Record, decode_record

_NEWEST_ENTRIES = 64


class _ClosedQueues(dict[tuple[str, int], ConsumeQueue]):
    """Has no queue, and does not say so."""

    def get(self, key: object, default: object = None) -> NoReturn:
        raise StoreClosedError("the store is closed")


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
        self.scan = EntryScan(log, records, settings)

    def close(self) -> None:
        """Refuse every later read with StoreClosedError: a queue that is gone from memory was not empty."""
        self._queues = _ClosedQueues()
        self.scan.must_wait = passes_over  # who was asked refers to the store

    def must_wait(self, position: int, size: int, reason: str) -> bool:
        """Asked by whoever would go on without a damaged record: whether another member may have it soon."""
        return self.scan.must_wait(position, size, reason)

    # --- offsets ---

    def range_of(self, topic: str, queue_id: int) -> QueueRange | None:
        """Offsets that can be read; None when the queue was never written. Writes owed entries first."""
        queue = self._queues.get((topic, queue_id))
        return QueueRange(queue.first, self.end_of(queue)) if queue else None

    def lacks_file(self, topic: str, queue_id: int) -> bool:
        """Whether ``range_of`` has to make the first file of a queue, which takes a hundred times as long."""
        queue = self._queues.get((topic, queue_id))
        return queue is not None and queue.lacks_file

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

        Those that the disk refuses cannot be read yet; the store is notified, and writes them when it can.
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
        limits = ReadLimits(self._settings, count_max, bytes_max)
        return self.scan.scan(queue, offset, end, limits, accept_tag, accept_record)

    def read_plain(
        self, lane: PlainPops, topic: str, queue_id: int, offset: int, count_max: int, tags: Sequence[int]
    ) -> PoppedRead | None:
        """``read`` by the compiled core, of messages with these tags; None when it finds none, or is not plain."""
        queue = self._queues.get((topic, queue_id))
        return lane.read(queue, offset, count_max, tags, self.lane_bounds) if queue is not None else None

    @property
    def lane_bounds(self) -> tuple[int, int, int, int, int]:
        """Where the log begins, was verified from, counts as in memory from; where what consumers see, and it, ends."""
        log = self._log
        end, trusted_from = log.end, log.trusted_from
        hot_from = end - self._settings.hot_bytes
        verified_from = trusted_from if trusted_from > hot_from else hot_from  # ``EntryScan.plain_from``, unrolled
        return log.first, verified_from, hot_from, self._visible_end(), end

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


def _real_size(entry: QueueEntry) -> int:
    return 0 if entry.size == FILLER_SIZE else entry.size
