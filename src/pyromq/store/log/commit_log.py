"""Commit log: every record of every queue, one behind the other in one long run of bytes.

The words, here and in the rest of the store:

- a *record* is one message as it is stored (``wire/record.py`` has its layout);
- a *position* is the number of a byte in the run, counted from the first byte ever written; a record is known by the
  position at which it starts, and keeps it for good. (An *offset* counts something else: the messages of one queue.)
- a *segment* is one file of the run. All have the same size, and each is named by the position of its first byte. A
  record never lies in two segments: when the next one does not fit, a *blank mark* closes the segment.

Appending has two steps. ``stage`` gives records their positions and keeps their bytes in memory; ``write_staged``
writes all of them with one write per segment, or undoes all of them. A record that is only staged does not exist.

    [first ........ flushed ........ end ~~~~ staged_end)
      durable        in page cache    in memory only

A crash may leave anything behind ``flushed``; recovery cuts the log after its last whole record. Behind ``end`` a
segment holds zeros only: a failed write is wiped, so that its remains can never be taken for records later.
"""

from __future__ import annotations

import contextlib
import logging
import struct
from itertools import accumulate

import msgspec

from pyromq.checksum import CRC_MASK, crc32
from pyromq.compiled_core import Buffer
from pyromq.errors import (
    LocalProtocolError,
    MessageTooLargeError,
    PropertiesTooLargeError,
)
from pyromq.store.files.disk import DiskFile
from pyromq.store.files.segments import Segment, SegmentList
from pyromq.store.settings import StoreSettings
from pyromq.wire.batch import Batch
from pyromq.wire.fast.record_batch import Places, SharedFields, encode_records, pack_shared
from pyromq.wire.properties import ITEM_END_BYTE, PROPERTIES_BYTES_MAX
from pyromq.wire.record import (
    Draft,
    plain_properties,
    record_magic,
    topic_field,
    with_checksum_room,
)
from pyromq.wire.record_layout import (
    ANY_V6,
    BLANK_BYTES,
    BORN_V6,
    CHECKSUM_BACKWARDS,
    CHECKSUM_BYTES,
    CHECKSUM_NAME,
    FIXED,
    HOST_V4_BYTES,
    MAGIC_BLANK,
    PREFIX,
    STORE_V6,
)

logger = logging.getLogger(__name__)

WORTH_NO_COPY = 16_384
"""Bodies of this size are written from where they are."""

_HASH_SIGN = CHECKSUM_NAME[-2]  # at the end of the name; without it there is no checksum of an earlier life

_Write = tuple[Segment | None, int, list[Buffer]]


class TopicBytes:
    """What every record of a topic repeats."""

    __slots__ = ("field", "field_bytes", "key_prefix", "magic")

    def __init__(self, topic: str) -> None:
        raw = topic.encode()
        self.key_prefix = raw + b"#"  # in front of a key when the index hashes it
        self.field = topic_field(raw)
        self.magic = record_magic(raw)
        self.field_bytes = len(self.field)


class CommitLog:
    """Owns the segments, the end of the log and what is staged behind it; one thread. ``LogReader`` reads it."""

    def __init__(self, segments: SegmentList, settings: StoreSettings, store_host: bytes) -> None:
        self._segments = segments
        self._settings = settings
        self._store_host = store_host
        self._host_flag = 0 if len(store_host) == HOST_V4_BYTES else STORE_V6
        self._checksum_bytes = CHECKSUM_BYTES if settings.checksums else 0
        self._body_bytes_max = settings.body_bytes_max
        self._size_max = min(settings.record_bytes_max, segments.segment_bytes - BLANK_BYTES)
        self.end = self.first  # behind the last record that is written
        self.flushed = self.end  # behind the last one that is durable; moved by ``LogFlushes``
        self.trusted_from = self.end  # from here on records were verified by recovery, or written since
        self.last_stored_ms = 0  # store time of the newest record
        self._segment: Segment | None = None  # where the next record goes, with ``room`` bytes left
        self.room = 0
        self._parts: list[Buffer] = []  # staged for this segment, to be written at ``_write_start``
        self._full_writes: list[_Write] = []  # staged for segments before it
        self.staged_end = self.end  # behind the last record that is staged
        self._write_start = self.end
        self._unwiped: list[tuple[Segment, int]] = []  # where failed writes may have left something
        self._has_large = False  # some body is better written from where it is than copied first
        self._forget_staged()

    # --- positions ---

    @property
    def segments(self) -> SegmentList:
        return self._segments

    @property
    def first(self) -> int:
        """Position of the oldest byte that is still kept."""
        return self._segments.start

    def open_at(self, end: int, *, trusted_from: int, last_stored_ms: int) -> None:
        """Recovery's verdict: the log ends at ``end``, is durable, and was verified from ``trusted_from`` on."""
        self.end = self.flushed = end
        self.trusted_from = trusted_from
        self.last_stored_ms = last_stored_ms
        self._forget_staged()

    # --- appending ---

    def stage(self, draft: Draft, topic: TopicBytes, offset: int, stored_ms: int) -> tuple[int, int]:
        """Encode a record behind what is staged; returns its position and size. Raises before anything changed.

        The hottest function of a broker: ``encode_record`` with everything unrolled, and tested against it.
        """
        body, properties, sys_flag = draft.body, draft.properties, draft.sys_flag
        if sys_flag & ANY_V6 or self._host_flag or len(draft.born_host) != HOST_V4_BYTES:
            sys_flag = self._stored_sys_flag(draft)
        # one byte is found six times as fast as a name, if it is given as a number
        if properties and (properties[-1] != ITEM_END_BYTE or _HASH_SIGN in properties or not self._checksum_bytes):
            properties = self._stored_properties(properties)
        body_bytes, properties_bytes = len(body), len(properties) + self._checksum_bytes
        fixed = FIXED[sys_flag >> 4 & 3]
        size = fixed.size + body_bytes + topic.field_bytes + 2 + properties_bytes
        if body_bytes > self._body_bytes_max or properties_bytes > PROPERTIES_BYTES_MAX or size > self._size_max:
            self._check_limits(draft, topic)
        if size + BLANK_BYTES > self.room:
            self._next_segment(size)
        if body_bytes >= WORTH_NO_COPY:
            self._has_large = True
        position = self.staged_end
        try:
            head = fixed.pack(
                size,
                topic.magic,
                crc32(body) & CRC_MASK,
                draft.queue_id,
                draft.flag,
                offset,
                position,
                sys_flag,
                draft.born_ms,
                draft.born_host,
                stored_ms,
                self._store_host,
                draft.delivery_attempt,
                draft.prepared_position,
                body_bytes,
            )
        except struct.error as error:
            raise LocalProtocolError(f"a field of the message does not fit in a record: {error}") from error
        tail = topic.field + properties_bytes.to_bytes(2, "big") + properties
        if self._checksum_bytes:
            checksum = CHECKSUM_BACKWARDS % (crc32(tail, crc32(body, crc32(head))) & CRC_MASK)
            self._parts += (head, body, tail, checksum[::-1])
        else:
            self._parts += (head, body, tail)
        self.staged_end = position + size
        self.room -= size
        return position, size

    def stage_batch(self, shared: Draft, batch: Batch, topic: TopicBytes, offset: int, stored_ms: int) -> Places:
        """``stage`` for messages that differ in body, properties and flag alone, side by side in one segment.

        Raises before anything changed: all are staged or none.
        """
        sys_flag = self._stored_sys_flag(shared)
        kind = sys_flag >> 4 & 3
        middle, bodies, texts = self._middle(shared, sys_flag, stored_ms), batch.bodies, self._batch_properties(batch)
        fixed_bytes = FIXED[kind].size + topic.field_bytes + 2 + self._checksum_bytes
        sizes = [fixed_bytes + len(body) + len(text) for body, text in zip(bodies, texts, strict=True)]
        size, largest_body = sum(sizes), max(map(len, bodies))
        if (
            largest_body > self._body_bytes_max
            or max(sizes) > self._size_max
            or max(map(len, texts)) + self._checksum_bytes > PROPERTIES_BYTES_MAX
        ):
            for body, properties in zip(bodies, batch.properties, strict=True):
                self._check_limits(msgspec.structs.replace(shared, body=body, properties=properties), topic)
        if size + BLANK_BYTES > self.room:
            self._next_segment(size)
        *positions, end = accumulate(sizes, initial=self.staged_end)
        places = Places(positions, sizes, offset)
        fields = SharedFields(kind, topic.magic, shared.queue_id, middle, topic.field, bool(self._checksum_bytes))
        self._parts += encode_records(Batch(bodies, texts, batch.flags), fields, places)
        self._has_large = self._has_large or largest_body >= WORTH_NO_COPY
        self.room -= size
        self.staged_end = end
        return places

    @property
    def body_bytes_max(self) -> int:
        return self._body_bytes_max

    @property
    def record_bytes_max(self) -> int:
        return self._size_max

    def stage_encoded(self, records: bytes) -> int:
        """Whole records that were made for ``staged_end`` and fit in ``room``, with a blank mark behind them.

        Returns their position.
        """
        size, position = len(records), self.staged_end
        assert size + BLANK_BYTES <= self.room
        if size >= WORTH_NO_COPY:
            self._has_large = True
        self._parts.append(records)
        self.staged_end = position + size
        self.room -= size
        return position

    def _middle(self, shared: Draft, sys_flag: int, stored_ms: int) -> bytes:
        """What the fixed parts of a batch's records have in common, from the system flag on."""
        try:
            return pack_shared(shared, sys_flag, stored_ms, self._store_host)
        except struct.error as error:
            raise LocalProtocolError(f"a field of the batch does not fit in a record: {error}") from error

    def _batch_properties(self, batch: Batch) -> list[bytes]:
        """Encode the properties of a batch as stored. Raises LocalProtocolError for a flag that does not fit."""
        if any(batch.flags) and not -(1 << 31) <= min(batch.flags) <= max(batch.flags) < 1 << 31:
            raise LocalProtocolError(f"a flag among {batch.flags} does not fit in a record")
        texts = batch.properties
        if not self._checksum_bytes:
            return [self._stored_properties(text) for text in texts]
        if not any(texts):
            return texts
        return [
            self._stored_properties(text) if text and (text[-1] != ITEM_END_BYTE or _HASH_SIGN in text) else text
            for text in texts
        ]

    def _check_limits(self, draft: Draft, topic: TopicBytes) -> int:
        """Bytes the record will take; raises when no limit allows it."""
        body_bytes = len(draft.body)
        properties_bytes = len(self._stored_properties(draft.properties)) + self._checksum_bytes
        size = FIXED[self._stored_sys_flag(draft) >> 4 & 3].size + body_bytes + topic.field_bytes + 2 + properties_bytes
        if body_bytes > self._body_bytes_max:
            raise MessageTooLargeError(what="body", size_bytes=body_bytes, bytes_max=self._body_bytes_max)
        if properties_bytes > PROPERTIES_BYTES_MAX:
            raise PropertiesTooLargeError(
                what="properties with their checksum", size_bytes=properties_bytes, bytes_max=PROPERTIES_BYTES_MAX
            )
        if size > self._size_max:
            raise MessageTooLargeError(what="record", size_bytes=size, bytes_max=self._size_max)
        return size

    def begin_at(self, position: int) -> None:
        """The log of another broker begins there, and this one, which is empty, is to be its copy. Raises OSError."""
        assert not len(self._segments) and not self.end, "only an empty log can begin anywhere"
        self._segments.get_or_create(position)
        self.open_at(position, trusted_from=position, last_stored_ms=0)

    def stage_copied(self, data: Buffer) -> None:
        """Bytes as another broker's log has them here: whole records, or a blank mark that fills its segment.

        They lie in one segment, and are not copied: they stay as they are until ``write_staged``. Raises OSError when
        the next segment cannot be created.
        """
        if self._segment is None:
            self._segment = self._segments.get_or_create(self.staged_end)
            self.room = self._segment.end - self.staged_end
        assert len(data) <= self.room, "copied bytes lie in two segments"
        self._parts.append(data)
        self.staged_end += len(data)
        self.room -= len(data)
        if not self.room:  # the mark was part of it: what follows goes into the next segment
            self._full_writes.append((self._segment, self._write_start, self._parts))
            self._segment, self._parts, self._write_start = None, [], self.staged_end

    def write_staged(self, stored_ms: int) -> None:
        """Write everything staged, or raise OSError with the log as it was before the first ``stage``.

        ``stored_ms`` is the store time of all of it; 0 when nothing is staged.
        """
        try:
            if self._full_writes:
                for segment, at, parts in self._full_writes:
                    self._write(segment, at, parts)
            if self._parts:
                self._write(self._segment, self._write_start, self._parts)
        except OSError:
            writes = [*self._full_writes, (self._segment, self._write_start, self._parts)]
            self._forget_staged()
            self._unwiped = [(segment, at) for segment, at, _ in writes if segment is not None]
            with contextlib.suppress(OSError):  # then it is tried again before the store becomes writable
                self.wipe_remains()
            raise
        self.end, self._has_large = self.staged_end, False
        self.last_stored_ms = stored_ms or self.last_stored_ms
        self._parts, self._full_writes, self._write_start = [], [], self.end

    def _write(self, segment: Segment | None, at: int, parts: list[Buffer]) -> None:
        assert segment is not None
        if self._has_large:
            segment.open_once().write_parts(at - segment.base, parts)
        else:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            segment.open_once().write_at(at - segment.base, data)

    def drop_staged(self) -> None:
        """Forget what was staged and not written."""
        self._forget_staged()

    def wipe_remains(self) -> None:
        """Zero what a failed write may have left, so that it can never be taken for records. Raises OSError."""
        while self._unwiped:
            segment, at = self._unwiped[-1]
            segment.open_once().zero_from(at - segment.base)
            self._unwiped.pop()

    def _stored_properties(self, properties: bytes) -> bytes:
        return with_checksum_room(properties) if self._checksum_bytes else plain_properties(properties)

    def _stored_sys_flag(self, draft: Draft) -> int:
        flag = draft.sys_flag & ~ANY_V6 | self._host_flag
        return flag if len(draft.born_host) == HOST_V4_BYTES else flag | BORN_V6

    def _next_segment(self, size: int) -> None:
        """Close the current segment with a blank mark and go on in the next one."""
        size_max = self._segments.segment_bytes - BLANK_BYTES
        if size > size_max:
            raise MessageTooLargeError(what="batch", size_bytes=size, bytes_max=size_max)
        full = self._segment
        segment = self._segments.get_or_create(full.end if full else self.staged_end)
        if full is not None:
            self._parts.append(PREFIX.pack(self.room, MAGIC_BLANK))
            self._full_writes.append((full, self._write_start, self._parts))
            self._parts, self._write_start, self.staged_end = [], segment.base, segment.base
        self._segment, self.room = segment, segment.end - self.staged_end

    def _forget_staged(self) -> None:
        self._parts, self._full_writes, self._has_large = [], [], False
        self.staged_end = self._write_start = self.end
        self._segment = self._segments.holding(self.end)
        self.room = self._segment.end - self.end if self._segment else 0

    # --- flushing ---

    @property
    def unflushed_bytes(self) -> int:
        return self.end - self.flushed

    def unflushed_files(self) -> tuple[DiskFile, ...]:
        """The files to sync so that everything written up to now is durable."""
        return tuple(
            segment.open_once() for segment in self._segments if self.flushed < segment.end and segment.base < self.end
        )
