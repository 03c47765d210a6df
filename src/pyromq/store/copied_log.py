"""Copied log: what another broker's log has is taken over byte for byte, and entered into queues and index here.

    bytes of the other log, from our end on ─▶ whole records? ─▶ one write ─▶ queue entries owed, keys wait
                                                 └ the rest: the caller brings it again, with more behind it

With the compiled core, runs of ordinary records are checked and entered in one call each (``core/src/copied.rs``);
where such a run ends, what is here goes on. It is the reference, and the only one that says what is wrong.

Only whole records, and whole blank marks, are written. So after a crash recovery finds what it finds in any log, and
the copy is at every moment a prefix of the original: same bytes, same positions, same offsets. Bytes are checked before
they are written: lengths must add up, checksums must match, a record must know its own position.

Offsets are those of the original. Where they jump (the original lost something, or its oldest files are gone) filler
entries stand for what is missing; where they go back the topic was deleted and made again, and its queue starts anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pyromq.compiled_core import Buffer, core
from pyromq.errors import CorruptRecordError, ForeignLogError, InvalidNameError, LocalProtocolError
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.entry_backlog import EntryBacklog
from pyromq.store.derived.entry_tag import entry_tag
from pyromq.store.derived.indexer import Indexer
from pyromq.store.derived.queue_entry import FILLER_SIZE
from pyromq.store.files.health import DiskHealth
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.sealing.seals import Seals
from pyromq.wire.fast.record_run import scan_run
from pyromq.wire.record import Damage, RecordFound, SegmentEnd, is_indexed, is_visible, scan_record
from pyromq.wire.record_layout import (
    BLANK_BYTES,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX,
    RECORD_OVERHEAD_BYTES,
)

logger = logging.getLogger(__name__)

_FILLERS_MAX: Final = 1_000_000  # a queue that misses more starts anew at the offset that follows
_AT_ONCE_BYTES: Final = 16_384  # beside the core: so much, and at least one record, is taken where it stopped

Queues = dict[tuple[str, int], ConsumeQueue]
_Placed = tuple[int, RecordFound]


class CopiedLog:
    """Appends to the log of its store; for stores to which no client sends. Owned by the store, on its thread."""

    def __init__(
        self,
        log: CommitLog,
        queues: Queues,
        backlog: EntryBacklog,
        indexer: Indexer,
        seals: Seals,
        health: DiskHealth,
        new_queue: Callable[[str, int], ConsumeQueue],
    ) -> None:
        self._log = log
        self._queues = queues
        self._backlog = backlog
        self._indexer = indexer
        self._seals = seals
        self._health = health
        self._new_queue = new_queue
        self.ladder_ms: tuple[int, ...] = ()
        self._nameless: set[tuple[bytes, int]] = set()  # records of these belong to no queue; each is logged once

    @property
    def is_empty(self) -> bool:
        """Nothing was ever stored here: the copy may begin anywhere."""
        return not len(self._log.segments) and not self._log.end

    def newest_listed(self, topic: str | None = None) -> int | None:
        """Position of the newest record that a queue lists, of any topic or of one; None when there is none.

        Raises StoreReadOnlyError.
        """
        newest = -1
        try:
            for (name, _), queue in self._queues.items():
                if topic is not None and name != topic:
                    continue
                queue.write_owed()
                if queue.end > queue.first and (last := queue.entry(queue.end - 1)).size != FILLER_SIZE:
                    newest = max(newest, last.position)
        except OSError as error:
            raise self._health.failed_write("consume queues", error) from error
        return newest if newest >= self._log.first else None

    def begin_at(self, position: int) -> None:
        """The original begins there, at the start of a file. Raises ForeignLogError, StoreReadOnlyError."""
        segment_bytes = self._log.segments.segment_bytes
        if position % segment_bytes:
            raise ForeignLogError(_other_size(position, segment_bytes))
        try:
            self._log.begin_at(position)
        except OSError as error:
            raise self._health.failed_write("a commit log file", error) from error

    def take(self, data: Buffer) -> dict[tuple[str, int], None]:
        """Append the whole records at the start of ``data``, which lies behind the log's end; returns their queues.

        How much was taken, the end of the log says, also when an error is raised: CorruptRecordError, ForeignLogError,
        StoreReadOnlyError.
        """
        if not self._health.writable:
            raise self._health.error()
        touched: dict[tuple[str, int], None] = {}
        start, segment_bytes = self._log.end, self._log.segments.segment_bytes
        with memoryview(data) as view:
            while (at := self._log.end - start) < len(view):
                room = segment_bytes - self._log.end % segment_bytes
                with view[at : at + room] as piece:
                    if not self._take_run(piece, room, touched) and not self._take_some(piece, room, touched):
                        break
        return touched

    def _take_run(self, piece: memoryview, room: int, touched: dict[tuple[str, int], None]) -> bool:
        """Ordinary records from the start of the piece on, by the core; False without one."""
        if core is None:
            return False
        position = self._log.end
        run = core.copied_records(piece, position, room, self._indexer.index.keys_max)
        if run is None:
            return False
        size, count, stored_ms, keys, found = run
        targets = [(self._queue_of(topic.encode(), number), first, entries) for topic, number, first, entries in found]
        if any(queue is not None and queue.next_offset != first for queue, first, _ in targets):
            return False  # one has to be brought there first
        for queue, _, entries in targets:
            if queue is not None:
                queue.stage_encoded(entries)
                self._backlog.add(queue)
                touched[queue.topic, queue.queue_id] = None
        self._indexer.stage_hashed(keys, count, position)
        with piece[:size] as records:
            self._write(records, stored_ms)
        return True

    def _take_some(self, piece: memoryview, room: int, touched: dict[tuple[str, int], None]) -> bool:
        """All records of the piece; beside the core only some, which is for ordinary ones. False without one."""
        most = len(piece) if core is None else max(_AT_ONCE_BYTES, int.from_bytes(piece[:4], "big"))
        data = bytes(piece[:most])
        records, size = self._whole(data, room)
        if size:
            self._enter(data[:size], records, touched)
        return size > 0

    # --- what is whole ---

    def _whole(self, data: bytes, room: int) -> tuple[list[_Placed], int]:
        """Whole records at the start of what lies in one segment, and their size, with the blank mark behind them.

        Raises when there is none, and what is there can become none.
        """
        position = self._log.end
        records, size = scan_run(data, position)
        view = memoryview(data)
        try:
            while (found := self._look(view, size, room)) is not None:
                if not isinstance(found, RecordFound):
                    return records, room
                records.append((position + size, found))
                size += found.size
        except (CorruptRecordError, ForeignLogError):
            if not size:
                raise
        return records, size

    def _look(self, data: memoryview, at: int, room: int) -> RecordFound | SegmentEnd | None:
        """A whole record, or the blank mark; None when there is not enough of it yet. Raises when it cannot be one."""
        if len(data) - at < BLANK_BYTES:
            return None
        position, left = self._log.end + at, room - at
        total, magic = PREFIX.unpack_from(data, at)
        if magic == MAGIC_BLANK:
            if total != left:
                raise ForeignLogError(_other_size(position, self._log.segments.segment_bytes))
            return SegmentEnd() if len(data) - at >= left else None
        if magic not in (MAGIC_V1, MAGIC_V2) or total < RECORD_OVERHEAD_BYTES:
            raise CorruptRecordError(position=position, reason="no record starts there")
        if total > left - BLANK_BYTES:
            raise ForeignLogError(_other_size(position, self._log.segments.segment_bytes))
        if total > len(data) - at:
            return None
        found = scan_record(data, at, position)
        if not isinstance(found, RecordFound):
            reason = found.reason if isinstance(found, Damage) else "no record starts there"
            raise CorruptRecordError(position=position, reason=reason)
        return found

    # --- writing ---

    def _enter(self, data: bytes, records: list[_Placed], touched: dict[tuple[str, int], None]) -> None:
        """Write them; a queue whose offsets jump is brought there when everything before is written."""
        base, written, stored_ms = self._log.end, 0, 0
        targets: dict[tuple[bytes, int], ConsumeQueue | None] = {}  # most records of a run belong to few queues
        keys, ladder_ms = self._indexer.staged, self.ladder_ms
        for position, record in records:
            flag, topic, properties, stored_ms = record.sys_flag, record.topic, record.properties, record.stored_ms
            if not flag or is_visible(flag):
                key = topic, record.queue_id
                if key not in targets:
                    targets[key] = self._queue_of(*key)
                queue = targets[key]
                if queue is not None:
                    if record.offset != queue.next_offset:
                        self._write(data[written : position - base], stored_ms)
                        written = position - base
                        self._bridge(queue, position, record.offset)
                    queue.stage(position, record.size, entry_tag(queue.topic, properties, stored_ms, ladder_ms))
                    self._backlog.add(queue)
            if not flag or is_indexed(flag):
                keys.append((topic + b"#", properties, position, stored_ms))
        self._write(data[written:], stored_ms)
        touched |= {(queue.topic, queue.queue_id): None for queue in targets.values() if queue is not None}

    def _write(self, data: Buffer, stored_ms: int) -> None:
        if not data:
            return
        try:
            self._log.stage_copied(data)
            self._log.write_staged(stored_ms)
        except OSError as error:
            self._log.drop_staged()
            self._backlog.drop_staged()
            self._indexer.drop_staged()
            raise self._health.failed_write("the commit log", error) from error
        if self._backlog.commit():
            self._write_entries()
        if self._indexer.commit():
            self._indexer.index_some()

    def _write_entries(self) -> None:
        try:
            self._backlog.write()
        except OSError as error:  # the log has the records: the entries go on waiting
            self._health.failed_write("consume queues", error)

    def _bridge(self, queue: ConsumeQueue, position: int, offset: int) -> None:
        """Make ``offset`` the next one of a queue that has nothing staged."""
        gap = offset - queue.next_offset
        begins_anew = gap < 0 or gap > _FILLERS_MAX or not queue.next_offset
        if begins_anew and queue.next_offset:
            self._seals.record_restart(queue.topic, queue.queue_id)
        try:
            if begins_anew:
                queue.restart_at(offset)
            else:
                queue.fill_up_to(offset, position)
        except OSError as error:
            raise self._health.failed_write("consume queues", error) from error

    def _queue_of(self, raw_topic: bytes, queue_id: int) -> ConsumeQueue | None:
        topic = raw_topic.decode("utf-8", "replace")
        key = topic, queue_id
        if (queue := self._queues.get(key)) is not None:
            return queue
        if (raw_topic, queue_id) in self._nameless:
            return None
        try:
            queue = self._queues[key] = self._new_queue(*key)
        except (InvalidNameError, LocalProtocolError) as error:
            self._nameless.add((raw_topic, queue_id))
            logger.error("record belongs to no queue: topic=%r reason=%s", topic, error)
        return queue


def _other_size(position: int, segment_bytes: int) -> str:
    return (
        f"the log of the other broker is cut into files of another size: position {position} does not fit into files "
        f"of {segment_bytes} bytes; give both brokers the same store.segment_bytes (RocketMQ: mappedFileSizeCommitLog)"
    )
