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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path

import msgspec

from pyromq.checksum import crc32
from pyromq.compiled_core import HASHED_KEY_BYTES, core
from pyromq.store.files.disk import Disk, DiskFile

HEADER = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")
_PLACE = struct.Struct(">Iq")  # hash and position, as hashed keys begin
_SLOT_BYTES = 4
_SECONDS_MAX = 0x7FFFFFFF
LINKS_AT_ONCE = 256  # of a chain; then whoever looks for a key may rest


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
        self.path = path
        self.file = file
        self._slots = slots
        self.capacity = capacity
        self._entries_at = HEADER.size + _SLOT_BYTES * slots
        header = HEADER.unpack(file.read_at(0, HEADER.size))
        self.begin_ms, self.end_ms, self.begin_position, self.end_position, self._used_slots, count = header
        self.next_entry: int = max(1, count)
        self._entries_crc = 0  # runs along with the entries
        self._final_slots_crc: int | None = None  # known once the file is full
        self.dirty = False  # has writes that are not synced

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
        first, end, slot_count = self.next_entry, self.next_entry + len(hashes), self._slots
        begin_ms = times_ms[0] if first == 1 else self.begin_ms
        slots = [key_hash % slot_count for key_hash in hashes]
        heads = dict(zip(slots, range(first, end), strict=True))
        previous = self._heads_of(slots)
        if len(heads) < len(slots):
            _link(previous, slots, first)
        data = _entries(hashes, positions, _seconds(times_ms, begin_ms), previous)
        scatter = partial(self.file.scatter, HEADER.size, heads)
        self._write(data, scatter, (begin_ms, positions[0]), (max(times_ms), positions[-1]), previous.count(0))

    def add_hashed(self, keys: bytes) -> None:
        """``add`` of keys that the compiled core has hashed: it makes the entries, too."""
        assert core is not None
        first, end = self.next_entry, self.next_entry + len(keys) // HASHED_KEY_BYTES
        assert end - first <= self.room
        table = self.file.map_once()[HEADER.size : self._entries_at]
        data, slots, begin_ms, end_ms, fresh = core.index_entries(keys, table, self._slots, first, self.begin_ms)
        begin, last = _PLACE.unpack_from(keys)[1], _PLACE.unpack_from(keys, len(keys) - HASHED_KEY_BYTES)[1]
        scatter = partial(self.file.scatter_run, HEADER.size, slots, first)
        self._write(data, scatter, (begin_ms, begin), (end_ms, last), fresh)

    def _write(
        self,
        data: bytes,
        scatter: Callable[[], None],
        begin: tuple[int, int],
        end: tuple[int, int],
        fresh_slots: int,
    ) -> None:
        """Entries, then the slots that point to them, then the header; ``begin`` and ``end``: time and position."""
        first = self.next_entry
        self._final_slots_crc, self.dirty = None, True
        self.file.write_at(self._entries_at + ENTRY.size * first, data)
        scatter()
        if first == 1:
            self.begin_ms, self.begin_position = begin
        self.end_ms, self.end_position = max(self.end_ms, end[0]), end[1]
        self._used_slots, self.next_entry = self._used_slots + fresh_slots, first + len(data) // ENTRY.size
        self._entries_crc = crc32(data, self._entries_crc)
        self.file.write_at(0, self._header())

    def _heads_of(self, slots: Sequence[int]) -> array[int]:
        """Newest entries of the chains of these slots; 0 where there is none, or nonsense."""
        table, newest = self.file.map_once()[HEADER.size : self._entries_at].cast("I"), self.next_entry - 1
        # The processor's cache has none of them. One call for all lets it wait for several at a time; a loop does not.
        heads = array("I", itemgetter(*slots, 0)(table)[:-1])  # one more, because of one alone it makes no tuple
        if sys.byteorder == "little":
            heads.byteswap()
        return heads if max(heads) <= newest else array("I", [head if head <= newest else 0 for head in heads])

    def _header(self) -> bytes:
        times = (self.begin_ms, self.end_ms, self.begin_position, self.end_position)
        return HEADER.pack(*times, self._used_slots, self.next_entry)

    # --- reading ---

    def positions(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Records that may have the key, newest first; times are as coarse as the file's (seconds).

        Between them None, whenever ``LINKS_AT_ONCE`` links of the chain were followed.
        """
        view, last, links = self.file.map_once(), self.next_entry, 0
        number = self._heads_of([key_hash % self._slots])[0]
        while 0 < number < last:
            links += 1
            if not links % LINKS_AT_ONCE:
                yield None
            entry_hash, position, seconds, previous = ENTRY.unpack_from(view, self._entries_at + ENTRY.size * number)
            entry_ms = self.begin_ms + seconds * 1000
            if entry_hash == key_hash and begin_ms - 1000 < entry_ms <= end_ms:
                yield position
            last, number = number, previous  # numbers only go down, so a damaged chain cannot run in a circle

    def entries(self, first: int = 1, end: int | None = None) -> Iterator[tuple[int, int, int, int]]:
        start = self._entries_at + ENTRY.size * first
        stop = self._entries_at + ENTRY.size * (self.next_entry if end is None else end)
        return ENTRY.iter_unpack(self.file.map_once()[start:stop])

    # --- sealing and recovery ---

    def seal(self, *, full: bool) -> IndexSeal:
        """``full``: the file will not be written again, so its slots can be sealed too."""
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
        return int.from_bytes(self.file.map_once()[at : at + 8], "big", signed=True)

    def _entry_bytes(self, end: int) -> memoryview:
        return self.file.map_once()[self._entries_at + ENTRY.size : self._entries_at + ENTRY.size * end]

    def _slots_crc(self) -> int:
        return crc32(self.file.map_once()[HEADER.size : self._entries_at])

    def close(self) -> None:
        self.file.close()


def _link(previous: array[int], slots: Sequence[int], first: int) -> None:
    """Chain new entries that share a slot: ``previous`` has what was there before all of them."""
    newest: dict[int, int] = {}
    for at, slot in enumerate(slots):
        if slot in newest:
            previous[at] = newest[slot]
        newest[slot] = first + at


def _seconds(times_ms: Sequence[int], begin_ms: int) -> array[int]:
    """Since the begin of the file; 0 when an entry has no room for it."""
    seconds = {ms: (ms - begin_ms) // 1000 for ms in set(times_ms)}  # what is committed together has one store time
    fitting = {ms: each if 0 <= each <= _SECONDS_MAX else 0 for ms, each in seconds.items()}
    if len(fitting) == 1:
        return array("I", fitting.values()) * len(times_ms)
    return array("I", [fitting[ms] for ms in times_ms])


def _entries(hashes: Sequence[int], positions: Sequence[int], seconds: array[int], previous: array[int]) -> bytes:
    """Entries as they lie in the file, filled a column of 32-bit words at a time."""
    prepared = array("I", array("Q", positions).tobytes())
    high = 1 if sys.byteorder == "little" else 0
    words = array("I", bytes(ENTRY.size * len(hashes)))
    words[0::5] = array("I", hashes)
    words[1::5], words[2::5] = prepared[high::2], prepared[1 - high :: 2]
    words[3::5], words[4::5] = seconds, previous
    if sys.byteorder == "little":
        words.byteswap()
    return words.tobytes()
