"""Consume queues under a check: every entry that the log asks for is compared, byte for byte, with what is there.

Recovery keeps of a queue what it trusts (by the seal, else by RocketMQ's rules), drops the rest and derives that again
from the part of the log that it scans. So a wrong entry is one of three things:

    behind what is trusted, record behind the seal      ordinary after a crash: recovery would add it
    behind what is trusted, record before the seal      recovery rebuilds it
    trusted, or not in the part that is scanned         stays wrong: an operator has to look

Expected entries wait per queue until there is a chunk of them, so memory depends on the number of queues alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyromq.checksum import crc32
from pyromq.store.check.files import FileRun, Ranges
from pyromq.store.derived.consume_queue import QueueSeal
from pyromq.store.derived.queue_entry import ENTRY, ENTRY_BYTES, FILLER_SIZE
from pyromq.wire.record_layout import RECORD_OVERHEAD_BYTES

_CHUNK_ENTRIES = 256
_EMPTY_ENTRY = bytes(ENTRY_BYTES)


@dataclass(frozen=True, slots=True)
class Trust:
    """What recovery would keep of a queue: entries before offset ``end``, which cover the log before ``covered``."""

    end: int
    covered: int
    intact: bool  # False: something that the seal promised is not there


def trust_sealed(run: FileRun, seals: Sequence[QueueSeal], log_first: int) -> Trust:
    """Decide as ``ConsumeQueue.open_sealed`` does, without touching anything."""
    files = [] if run.faults() else run.files
    bases = {file.base for file in files}
    by_base = {seal.base: seal for seal in seals if seal.base in bases or seal.last_position >= log_first}
    accepted = end = 0
    for file in files if min(by_base, default=0) in bases else ():
        seal = by_base.get(file.base)
        if seal is None or crc32(run.read(file.base, seal.used_bytes)) != seal.crc:
            break
        accepted, end = accepted + 1, (file.base + seal.used_bytes) // ENTRY_BYTES
        if seal.used_bytes < run.file_bytes:
            break
    return Trust(end, _covered(run, end), accepted == len(by_base))


def trust_unsealed(run: FileRun, before_position: int) -> Trust:
    """Decide as ``ConsumeQueue.open_unsealed`` does, without touching anything."""
    end, intact = 0, not run.faults()
    for file in [] if run.faults() else run.files:
        used, before = 0, 0
        for position, size, tag_hash in ENTRY.iter_unpack(_whole_entries(run, file.base)):
            if not (before <= position < before_position and size > 0):
                intact = position >= before_position or not (position or size or tag_hash)
                break
            used, before = used + ENTRY_BYTES, position
        end = (file.base + used) // ENTRY_BYTES
        if used < run.file_bytes:
            break
    return Trust(end, _covered(run, end), intact)


def newest_position(run: FileRun) -> int | None:
    """Where the newest record that a queue lists should be."""
    used = -(-run.data_end() // ENTRY_BYTES) * ENTRY_BYTES
    return int(ENTRY.unpack(run.read(used - ENTRY_BYTES, ENTRY_BYTES))[0]) if used > run.first else None


def _whole_entries(run: FileRun, base: int) -> bytes:
    return run.read(base, run.file_bytes - run.file_bytes % ENTRY_BYTES)


def _covered(run: FileRun, end: int) -> int:
    if end * ENTRY_BYTES <= run.first:
        return 0
    return int(ENTRY.unpack(run.read((end - 1) * ENTRY_BYTES, ENTRY_BYTES))[0]) + 1


@dataclass(frozen=True, slots=True)
class LogView:
    """What a queue has to know of the log."""

    first: int
    durable: int
    rescan_from: int
    damaged: Ranges


class QueueComparison:
    """One queue: takes the entries that the log asks for, in order, and counts what differs from them."""

    def __init__(self, name: str, run: FileRun, trust: Trust, log: LogView, *, compare_tags: bool) -> None:
        self.name = name
        self._run = run
        self._trust = trust
        self._log = log
        self._compare_tags = compare_tags
        self._first_offset = run.first // ENTRY_BYTES
        self._end_offset = -(-run.data_end() // ENTRY_BYTES)  # behind it the files hold nothing
        self._life_start = self._first_real_position()  # older records are from before the topic was deleted
        self._start = 0  # offset of the first pending entry
        self._pending = bytearray()  # entries that the log asks for and that were not compared yet
        self._next: int | None = None  # offset that the next record should have
        self._last_position = 0
        self._restarted = False  # offsets began again at 0
        self.entries = 0  # that the log asks for
        self.fillers = 0
        self.rebuilt = 0  # by recovery, from records before the seal
        self.to_add = 0  # by recovery, from records behind the seal
        self.to_drop = 0  # by recovery
        self.lost = 0  # offsets whose record is damaged or missing
        self.missing = 0  # these four recovery would not notice
        self.different = 0
        self.dangling = 0  # entries without a record
        self.dropped = 0  # good entries that recovery would drop and not enter again
        self.other_tags = 0  # third fields that cannot be compared
        self.older_life = 0  # entries of records from before the topic was deleted
        self._first_older = 0  # offset of the first of them
        self.gaps = 0  # offsets that are missing in the log
        self.repeats = 0  # records with the offset of an earlier one
        self.first_wrong: int | None = None  # the lowest offset at which anything is wrong

    @property
    def wrong(self) -> int:
        return self.missing + self.different + self.dangling + self.dropped

    def add(self, position: int, size: int, offset: int, tag: int) -> None:
        """The next record of the queue, in log order."""
        if offset != self._next:
            self._jump(offset, position)
        self._pending += ENTRY.pack(position, size, tag)
        self._next, self._last_position = offset + 1, position
        self.entries += 1
        if len(self._pending) >= _CHUNK_ENTRIES * ENTRY_BYTES:
            self._compare()

    def finish(self, log_end: int) -> None:
        """All records were added: look at what the files hold behind them."""
        self._compare()
        start = self._first_offset if self._next is None else self._next
        self.lost += self._leftover(start, self._end_offset, log_end, at_end=True)
        if self.older_life and not self._restarted:
            self.different, self.older_life = self.different + self.older_life, 0
            self._note_wrong(self._first_older)

    # --- offsets ---

    def _jump(self, offset: int, position: int) -> None:
        self._compare()
        gap = offset - (self._next or 0)
        damage_explains = self._log.damaged.overlaps(self._last_position, position) and (
            gap <= self._log.damaged.size_bytes // RECORD_OVERHEAD_BYTES
        )
        if self._next is None:
            lost = self._leftover(self._first_offset, offset, position)
            self.lost += max(lost, gap if damage_explains and self._log.first == 0 else 0)
        elif offset == 0:
            self._restarted = True  # the topic was deleted and made again
        elif offset < self._next:
            self.repeats += 1
            self._note_wrong(offset)
        else:
            self._leftover(self._next, offset, position)
            if damage_explains:
                self.lost += gap
            else:
                self.gaps += gap
                self._note_wrong(self._next)
        self._start = offset

    def _first_real_position(self) -> int:
        """Position of the first entry that is not a filler, if it is in the first chunk of the first file."""
        data = self._run.read(self._run.first, min(self._run.file_bytes, _CHUNK_ENTRIES * ENTRY_BYTES))
        entries = ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY_BYTES])
        return next((position for position, size, _ in entries if 0 < size != FILLER_SIZE), 0)

    # --- entries ---

    def _compare(self) -> None:
        expected, start = bytes(self._pending), self._start
        self._pending.clear()
        self._start = start + len(expected) // ENTRY_BYTES
        if not expected:
            return
        actual = self._run.read(start * ENTRY_BYTES, len(expected))
        kept = self._start <= self._trust.end or ENTRY.unpack_from(expected)[0] >= self._log.rescan_from
        if actual == expected and kept:
            return
        for at in range(0, len(expected), ENTRY_BYTES):
            wanted, there, offset = (
                expected[at : at + ENTRY_BYTES],
                actual[at : at + ENTRY_BYTES],
                start + at // ENTRY_BYTES,
            )
            if wanted != there:
                self._judge(offset, wanted, there)
            elif offset >= self._trust.end and ENTRY.unpack(wanted)[0] < self._log.rescan_from:
                self.dropped += 1
                self._note_wrong(offset)

    def _judge(self, offset: int, wanted: bytes, there: bytes) -> None:
        position = ENTRY.unpack(wanted)[0]
        if offset >= self._trust.end and position >= self._log.rescan_from:
            if position >= self._log.durable:
                self.to_add += 1
            else:
                self.rebuilt += 1
        elif position < self._life_start and offset >= self._first_offset:
            self._first_older = min(self._first_older, offset) if self.older_life else offset
            self.older_life += 1
        elif wanted[:12] == there[:12] and not self._compare_tags:
            self.other_tags += 1
        else:
            if there == _EMPTY_ENTRY:
                self.missing += 1
            else:
                self.different += 1
            self._note_wrong(offset)

    def _leftover(self, start: int, end: int, before_position: int, *, at_end: bool = False) -> int:
        """Look at entries that the log does not ask for; returns how many stand for lost records.

        Those of later records are met again; at the end of the log they stand for what is missing from it.
        """
        lost, end = 0, min(end, self._end_offset)  # a damaged record may claim any offset
        for chunk in range(max(start, self._first_offset), end, _CHUNK_ENTRIES):
            count = min(_CHUNK_ENTRIES, end - chunk)
            data = self._run.read(chunk * ENTRY_BYTES, count * ENTRY_BYTES)
            for offset, (position, size, tag) in enumerate(ENTRY.iter_unpack(data), chunk):
                if offset >= self._trust.end:
                    self.to_drop += bool(position or size or tag)
                elif size == FILLER_SIZE:
                    self.fillers += 1
                elif self._log.damaged.holds(position):
                    lost += 1
                elif position >= before_position:
                    lost += at_end
                elif position >= self._log.first:
                    self.dangling += 1
                    self._note_wrong(offset)
        return lost

    def _note_wrong(self, offset: int) -> None:
        self.first_wrong = offset if self.first_wrong is None else min(self.first_wrong, offset)
