"""Scrub: a slow look at the sealed part of the log, again and again, for what a disk has changed by itself.

    every second a piece (``scrub_bytes_s``), on a worker thread ─▶ whole records? ─▶ position moves on
                                                                    └ no: damaged, told, kept in config/scrub.json

A consumer that reads a damaged record finds it, too. This finds it while there is still a copy elsewhere. What is
damaged stays in the list until it was mended (``mend``: the same bytes again, from a copy of this log) or retention
took it. What recovery passed over is in the list from the start. A pass begins at the oldest file, an hour after the
last one began at the earliest.

A master that can hand over to another member (``holds_reads``) lets consumers wait in front of a damaged message, until
it has handed over, and passes over the message when nobody took its place for ``HOLD_MS``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from pyromq.clock import Clock
from pyromq.errors import CorruptFileError, CorruptRecordError
from pyromq.store.files.disk import Disk
from pyromq.store.files.layout import Layout
from pyromq.store.files.segments import Segment, SegmentList
from pyromq.store.files.whole_file import WholeFile
from pyromq.store.log.log_walk import DamagedRange, LogWalk
from pyromq.store.message_store import MessageStore
from pyromq.wire.record import Damage, RecordFound, scan_record
from pyromq.wire.record_layout import BLANK_BYTES, MAGIC_BLANK, PREFIX

logger = logging.getLogger(__name__)

FILE_NAME: Final = "scrub.json"
RANGES_MAX: Final = 1_000  # that are remembered; a disk with more needs to be replaced
HOLD_MS: Final = 30_000  # several times as long as a planned change takes
_PIECE_MS: Final = 1_000
_PASS_MS: Final = 3_600_000
_SAVE_MS: Final = 60_000
Job = Callable[[], None]


class ScrubNote(msgspec.Struct, frozen=True, kw_only=True):
    """What survives a restart, and a change of role."""

    position: int = 0
    end: int = 0  # of the sealed log
    passes: int = 0
    at_ms: int = 0  # when it was noted
    damaged: tuple[DamagedRange, ...] = ()


def read_note(disk: Disk, root: Path) -> ScrubNote | None:
    """What the broker of a folder noted last; None before the first time. Raises CorruptFileError, OSError."""
    return WholeFile(disk, Layout(root).config / FILE_NAME).load(msgspec.json.Decoder(ScrubNote).decode)


class ScrubPiece:
    """A part of one file of the log; ``run`` on any thread, with a descriptor of its own."""

    def __init__(self, disk: Disk, segment: Segment, start: int, end: int, bytes_max: int) -> None:
        self._disk = disk
        self._path: Path = segment.path
        self._base, self._size = segment.base, segment.size
        self._start, self._end, self._bytes_max = start, min(end, segment.end), bytes_max
        self.position = start  # everything before it was looked at
        self.damaged: list[DamagedRange] = []
        self.is_over = False

    def run(self) -> None:
        try:
            self._look()
        except FileNotFoundError:  # retention was faster
            self.position = self._end
        except OSError as error:
            self.position = self._end  # where records begin behind it is not known
            self.damaged.append(DamagedRange(self._start, self._end, f"the disk cannot read it: {error}"))
        finally:
            self.is_over = True

    def _look(self) -> None:
        file = self._disk.open(self._path, writable=False)
        try:
            segment = Segment(self._disk, self._path, self._base, self._size, file)
            walk = LogWalk(SegmentList(self._disk, self._path.parent, self._size, [segment]), self._start, self._end)
            for _ in walk:
                if walk.position - self._start >= self._bytes_max or walk.position >= self._end:
                    break
            self.position, self.damaged = walk.position, walk.damaged
        finally:
            file.close()


class Scrub:
    """Owned by the maintenance of a store: ``tick`` on its thread."""

    def __init__(self, store: MessageStore, disk: Disk, clock: Clock, elsewhere: Callable[[Job], object]) -> None:
        """Resume where the note says; one that cannot be read is forgotten, and the scrub begins at the start of the
        log.
        """
        self._store = store
        self._disk = disk
        self._clock = clock
        self._elsewhere = elsewhere
        self._file = WholeFile(disk, store.layout.config / FILE_NAME)
        try:
            saved = read_note(disk, store.layout.root) or ScrubNote()
        except (CorruptFileError, OSError) as error:
            logger.warning("note of the scrub not read: reason=%s", error)
            saved = ScrubNote()
        # from the start of a file: the log may have been cut since, and where it was noted no record begins any more
        segment = store.log.segments.holding(saved.position)
        self.position = segment.base if segment is not None else 0  # the next byte to look at
        self.passes = saved.passes  # whole ones, so far
        known = {each.position: each for each in (*saved.damaged, *store.recovered.passed_over)}
        self.damaged = [each for _, each in sorted(known.items()) if each.position < store.end_position][:RANGES_MAX]
        self._piece: ScrubPiece | None = None
        now_ms = clock.monotonic_ms()
        self._looked_ms = self._began_ms = self._saved_ms = now_ms
        self._is_resting = False  # until the next pass
        self.holds_reads = False  # another member may have what is damaged here, and take over
        self._held_ms: dict[int, int] = {}  # by position: since when reads wait in front of it
        store.reader.scan.must_wait = self._was_read
        self._note_damage()

    @property
    def damaged_bytes(self) -> int:
        return sum(each.end - each.position for each in self.damaged)

    @property
    def progress(self) -> float:
        """How much of the sealed log this pass has looked at, between 0 and 1."""
        first, end = self._store.first_position, self._store.seals.position
        return min(1.0, max(0, self.position - first) / (end - first)) if end > first else 1.0

    def facts(self) -> dict[str, object]:
        """Progress and findings in the names of run-time information."""
        return {
            "scrubProgress": f"{self.progress:.4f}",
            "scrubPasses": self.passes,
            "storeDamagedBytes": self.damaged_bytes,
            "storeDamage": self._store.health.damage,
        }

    def tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._piece is not None and self._piece.is_over:
            self._take(self._piece)
            self._piece = None
        rate = self._store.settings.scrub_bytes_s
        if self._piece is None and rate and now_ms - self._looked_ms >= _PIECE_MS:
            self._looked_ms = now_ms
            self._forget_deleted()
            self._begin_piece(now_ms, rate)

    def _begin_piece(self, now_ms: int, rate: int) -> None:
        first, end = self._store.first_position, self._store.seals.position
        if self._is_resting:
            if now_ms - self._began_ms < _PASS_MS:
                return
            self._is_resting, self._began_ms, self.position = False, now_ms, first
        self.position = max(self.position, first)
        segment = self._store.log.segments.holding(self.position)
        if self.position >= end or segment is None:
            if end > first:
                self.passes += 1
            self._is_resting = True
            self._save()
            return
        self._piece = ScrubPiece(self._disk, segment, self.position, end, rate)
        self._elsewhere(self._piece.run)
        if now_ms - self._saved_ms >= _SAVE_MS:
            self._save()

    def _take(self, piece: ScrubPiece) -> None:
        self.position = piece.position
        known = {each.position for each in self.damaged}
        new = [each for each in piece.damaged if each.position not in known][: RANGES_MAX - len(known)]
        for each in new:
            facts = each.position, each.end - each.position, each.reason
            logger.error("log damaged on disk: position=%d bytes=%d reason=%s", *facts)
        if new:
            self.damaged += new
            self._changed()

    def _was_read(self, position: int, size: int, reason: str) -> bool:
        """A consumer came upon a damaged message: note it at once; whether the consumer has to wait."""
        now_ms = self._clock.monotonic_ms()
        if not any(each.position <= position < each.end for each in self.damaged):
            if len(self.damaged) >= RANGES_MAX:
                return False  # what is not remembered is not mended either
            logger.error("log damaged on disk, found by a read: position=%d bytes=%d reason=%s", position, size, reason)
            self.damaged.append(DamagedRange(position, position + size, reason))
            self._changed()
        return self.holds_reads and now_ms - self._held_ms.setdefault(position, now_ms) < HOLD_MS

    def is_damaged(self, noted: DamagedRange) -> bool:
        """Look again, on any thread, whether something is wrong with these bytes of the log."""
        segment = self._store.log.segments.holding(noted.position)
        if segment is None:
            return False
        piece = ScrubPiece(self._disk, segment, segment.base, min(segment.end, self._store.flushed_position), 1 << 62)
        piece.run()
        return any(each.position < noted.end and noted.position < each.end for each in piece.damaged)

    def mended(self, position: int) -> None:
        """What was damaged from there on is whole again, on disk."""
        self.damaged = [each for each in self.damaged if each.position != position]
        self._held_ms.pop(position, None)
        self._changed()

    def _forget_deleted(self) -> None:
        kept = [each for each in self.damaged if each.end > self._store.first_position]
        if len(kept) != len(self.damaged):
            self.damaged = kept
            self._changed()

    def _changed(self) -> None:
        self._note_damage()
        self._save()

    def _note_damage(self) -> None:
        damaged = self.damaged
        self._store.health.damage = (
            f"the log is damaged on disk: {self.damaged_bytes} bytes, the first at position {damaged[0].position} "
            f"({damaged[0].reason})"
            if damaged
            else ""
        )

    def _save(self) -> None:
        self._saved_ms = self._clock.monotonic_ms()
        note = ScrubNote(
            position=self.position,
            end=self._store.seals.position,
            passes=self.passes,
            at_ms=self._clock.now_ms(),
            damaged=tuple(self.damaged),
        )
        text = msgspec.json.encode(note)

        def save() -> None:
            try:
                self._file.save(text)
            except OSError as error:
                logger.warning("note of the scrub not saved: reason=%s", error)

        self._elsewhere(save)


def mend(store: MessageStore, position: int, end: int, data: bytes | bytearray) -> int:
    """Write the whole records at the start of ``data`` over what is damaged in [position, end); returns their bytes.

    Queues that lack them list them again. The caller syncs the file. Raises CorruptRecordError for what is no part of
    this log, OSError.
    """
    segment = store.log.segments.holding(position)
    if segment is None or end > segment.end:
        raise CorruptRecordError(position=position, reason="it is not in one file of the log any more")
    at, records = 0, list[tuple[int, RecordFound]]()
    with memoryview(data) as view:
        while position + at < end and len(view) - at >= BLANK_BYTES:
            total, magic = PREFIX.unpack_from(view, at)
            if magic == MAGIC_BLANK and total == segment.end - position - at:
                segment.open_once().write_at(position - segment.base, view[: at + BLANK_BYTES])
                store.relist(records)
                return end - position  # the rest of the file is never read
            if total > end - position - at:
                raise CorruptRecordError(position=position + at, reason="the copy has another record there")
            if total > len(view) - at:
                break
            found = scan_record(view[at : at + total], 0, position + at)
            if not isinstance(found, RecordFound):
                reason = found.reason if isinstance(found, Damage) else "no record starts there"
                raise CorruptRecordError(position=position + at, reason=f"the copy is damaged, too: {reason}")
            records.append((position + at, found))
            at += total
        segment.open_once().write_at(position - segment.base, view[:at])
    store.relist(records)
    return at


def sync_of(store: MessageStore, position: int) -> Callable[[], object] | None:
    """What syncs the file that holds this position, on any thread; None when retention has deleted it."""
    segment = store.log.segments.holding(position)
    return None if segment is None else segment.open_once().sync
