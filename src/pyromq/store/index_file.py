"""One file of the key index: a hash table whose chains run through an append-only list.

    byte   0         8       16              24            32          36           40 ......... 40 + 4·slots ........
           begin     end     begin           end           slots       next         slot table    entries, 20 bytes
           time      time    position        position      ever used   free entry   (i32 each)

    entry  0      4          12                       16
           hash   position   seconds since begin      number of the entry before it in its chain     big-endian

Entry 0 is never used, so 0 ends a chain and marks an empty slot. Entries only ever get appended: their CRC-32 runs
along and goes into the seal. The slot table can be computed from the entries, and is, whenever it cannot be trusted.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import msgspec

from pyromq.checksum import crc32
from pyromq.store.disk import Disk, DiskFile

HEADER = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")
_SLOT_BYTES = 4
_SECONDS_MAX = 0x7FFFFFFF


class IndexSeal(msgspec.Struct, frozen=True, array_like=True):
    """A promise about one index file; ``slots_crc`` is None while the file is still written."""

    name: str
    next_entry: int
    entries_crc: int
    header: str
    slots_crc: int | None = None

    @property
    def end_position(self) -> int:
        """Position of the last record with a key in the file."""
        return int(HEADER.unpack(bytes.fromhex(self.header))[3])


class IndexFile:
    """Owns one file: header fields in memory, slots and entries on disk."""

    def __init__(self, path: Path, file: DiskFile, slots: int, capacity: int) -> None:
        self.path, self.file, self._slots, self.capacity = path, file, slots, capacity
        self._entries_at = HEADER.size + _SLOT_BYTES * slots
        header = HEADER.unpack(file.read_at(0, HEADER.size))
        self.begin_ms, self.end_ms, self.begin_position, self.end_position, self._used_slots, count = header
        self.next_entry: int = max(1, count)
        self._entries_crc = 0
        self._final_slots_crc: int | None = None
        self.dirty = False

    @classmethod
    def create(cls, disk: Disk, path: Path, slots: int, capacity: int, seed: IndexFile | None) -> IndexFile:
        """A new file; like RocketMQ's it starts with the times and positions at which the one before ended."""
        size = HEADER.size + _SLOT_BYTES * slots + ENTRY.size * capacity
        file = disk.create(path, size, reserve_bytes=HEADER.size + _SLOT_BYTES * slots)
        if seed is not None:
            edge = (seed.end_ms, seed.end_ms, seed.end_position, seed.end_position)
            file.write_at(0, HEADER.pack(*edge, 0, 1))
        else:
            file.write_at(0, HEADER.pack(0, 0, 0, 0, 0, 1))
        disk.sync_folder(path.parent)
        return cls(path, file, slots, capacity)

    @staticmethod
    def shape_of(size: int, slots: int) -> int:
        """How many entries a file of that size holds."""
        return (size - HEADER.size - slots * _SLOT_BYTES) // ENTRY.size

    @property
    def room(self) -> int:
        return self.capacity - self.next_entry

    # --- writing ---

    def add(self, hashes: Sequence[int], positions: Sequence[int], times_ms: Sequence[int]) -> None:
        """Append keys, all of them: first the entries, then the slots that point to them, then the header."""
        assert len(hashes) <= self.room
        slots, slot_count, first = (
            self.file.view[HEADER.size : self._entries_at].cast("I"),
            self._slots,
            self.next_entry,
        )
        begin_ms = times_ms[0] if first == 1 else self.begin_ms
        heads: dict[int, int] = {}
        entries, used_slots, pack = [], self._used_slots, ENTRY.pack
        for number, key_hash, position, stored_ms in zip(count(first), hashes, positions, times_ms, strict=False):
            slot = key_hash % slot_count
            previous = heads.get(slot)
            if previous is None:
                previous = self._head(slots[slot]) if slots[slot] else 0
                used_slots += not previous
            heads[slot] = number
            seconds = (stored_ms - begin_ms) // 1000
            entries.append(pack(key_hash, position, seconds if 0 <= seconds <= _SECONDS_MAX else 0, previous))
        data = b"".join(entries)
        self._final_slots_crc, self.dirty = None, True
        self.file.write_at(self._entries_at + ENTRY.size * first, data)
        self.file.scatter(HEADER.size, heads)
        if first == 1:
            self.begin_ms, self.begin_position = begin_ms, positions[0]
        self.end_ms, self.end_position = max(self.end_ms, *times_ms), positions[-1]
        self._used_slots, self.next_entry = used_slots, first + len(hashes)
        self._entries_crc = crc32(data, self._entries_crc)
        self.file.write_at(0, self._header())

    def _header(self) -> bytes:
        times = (self.begin_ms, self.end_ms, self.begin_position, self.end_position)
        return HEADER.pack(*times, self._used_slots, self.next_entry)

    def _head(self, stored: int) -> int:
        """Newest entry of a chain from its slot, read in this machine's byte order; 0 when it holds nonsense."""
        number = int.from_bytes(stored.to_bytes(4, sys.byteorder), "big")
        return number if number < self.next_entry else 0

    # --- reading ---

    def positions(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Records that may have the key, newest first; times are as coarse as the file's (seconds)."""
        view = self.file.view
        slots, last = view[HEADER.size : self._entries_at].cast("I"), self.next_entry
        number = self._head(slots[key_hash % self._slots])
        while 0 < number < last:
            entry_hash, position, seconds, previous = ENTRY.unpack_from(view, self._entries_at + ENTRY.size * number)
            entry_ms = self.begin_ms + seconds * 1000
            if entry_hash == key_hash and begin_ms - 1000 < entry_ms <= end_ms:
                yield position
            last, number = number, previous  # numbers only go down, so a damaged chain cannot run in a circle

    def entries(self, first: int = 1, end: int | None = None) -> Iterator[tuple[int, int, int, int]]:
        start = self._entries_at + ENTRY.size * first
        stop = self._entries_at + ENTRY.size * (self.next_entry if end is None else end)
        return ENTRY.iter_unpack(self.file.view[start:stop])

    # --- sealing and recovery ---

    def seal(self, *, full: bool) -> IndexSeal:
        """``full`` when nobody will write to the file again, so that its slots can be sealed too."""
        return IndexSeal(
            self.path.name,
            self.next_entry,
            self._entries_crc,
            self._header().hex(),
            self._slots_crc() if full else None,
        )

    def accept(self, seal: IndexSeal) -> bool:
        """Check the file against its seal and trust exactly what the seal covers; False when that is damaged."""
        header = HEADER.unpack(bytes.fromhex(seal.header))
        self.begin_ms, self.end_ms, self.begin_position, self.end_position, self._used_slots, _ = header
        unchanged = self.next_entry == seal.next_entry and self.file.read_at(0, HEADER.size) == self._header()
        self.next_entry = seal.next_entry
        if seal.next_entry > self.capacity:
            return False
        self._entries_crc = crc32(self._entry_bytes(self.next_entry))
        if self._entries_crc != seal.entries_crc:
            return False
        if not unchanged or seal.slots_crc is None or seal.slots_crc != self._slots_crc():
            self.rebuild_slots()
        return True

    def accept_unsealed(self, log_end: int) -> bool:
        """Take a file that another program wrote as it is, if its entries make sense; slots are computed anew."""
        if self.next_entry > self.capacity:
            return False
        before = 0
        for key_hash, position, _, _ in self.entries():
            if not before <= position < log_end or key_hash < 0:
                return False
            before = position
        self._entries_crc = crc32(self._entry_bytes(self.next_entry))
        self.rebuild_slots()
        return True

    def cut_from(self, position: int, end_ms: int) -> None:
        """Drop the entries of records at ``position`` and later; ``end_ms`` is the store time of the last one kept."""
        kept = bisect_left(range(1, self.next_entry), position, key=self._position_of) + 1
        if kept == self.next_entry:
            return
        self.next_entry, self.end_ms = kept, end_ms
        self.end_position = self._position_of(kept - 1) if kept > 1 else 0
        self._entries_crc = crc32(self._entry_bytes(kept))
        self.rebuild_slots()

    def rebuild_slots(self) -> None:
        """Compute the slot table, and the links of chains, from hashes alone."""
        heads = array("i", bytes(_SLOT_BYTES * self._slots))
        assert heads.itemsize == _SLOT_BYTES
        for number, (key_hash, _, _, previous) in enumerate(self.entries(), 1):
            slot = key_hash % self._slots
            if previous != heads[slot]:
                self.file.write_at(self._entries_at + ENTRY.size * number + 16, heads[slot].to_bytes(4, "big"))
            heads[slot] = number
        self._used_slots = self._slots - heads.count(0)
        if sys.byteorder == "little":
            heads.byteswap()
        self.file.write_at(HEADER.size, heads.tobytes())
        self.file.write_at(0, self._header())
        self._entries_crc = crc32(self._entry_bytes(self.next_entry))
        self._final_slots_crc = None
        self.dirty = True

    def _position_of(self, number: int) -> int:
        at = self._entries_at + ENTRY.size * number + 4
        return int.from_bytes(self.file.view[at : at + 8], "big", signed=True)

    def _entry_bytes(self, end: int) -> memoryview:
        return self.file.view[self._entries_at + ENTRY.size : self._entries_at + ENTRY.size * end]

    def _slots_crc(self) -> int:
        return crc32(self.file.view[HEADER.size : self._entries_at])

    def close(self) -> None:
        self.file.close()
