"""The key index under a check: files against the seal, chains against entries, entries against the log.

Opening takes the files that it trusts, oldest first, and from the first bad one on builds the index again; slot tables
are computed again whenever in doubt. What it trusts is compared with the keys of the log's records, both in log order,
so one walk through both is enough.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyromq.checksum import crc32
from pyromq.store.check.files import Ranges, SafeView
from pyromq.store.check.report import Findings, IndexCheck, StoreSeverity
from pyromq.store.derived.index_file import ENTRY, HEADER, IndexFile, IndexSeal
from pyromq.store.derived.key_index import is_index_name
from pyromq.store.files.disk import Disk
from pyromq.wire.fast.key_hashes import key_hashes

_BATCH_KEYS = 4_096


@dataclass(frozen=True, slots=True)
class TrustedFile:
    """An index file and how many of its entries recovery would keep: [1, next_entry)."""

    path: Path
    next_entry: int
    end_position: int
    slots_count: bool  # the slot table can be compared: nothing was written to the file after what is kept


class IndexShape:
    """Reads index files of one shape."""

    def __init__(self, disk: Disk, folder: Path, slots: int) -> None:
        self.disk = disk
        self.folder = folder
        self.slots = slots
        self.entries_at = HEADER.size + 4 * slots
        self.names = [name for name in disk.names(folder) if is_index_name(name)]

    def capacity_of(self, name: str) -> int:
        return IndexFile.shape_of(self.disk.size_of(self.folder / name), self.slots)

    def open(self, path: Path) -> SafeView:
        return SafeView(self.disk, path, self.disk.size_of(path))

    def entry_bytes(self, view: SafeView, next_entry: int) -> memoryview:
        return view.data[self.entries_at + ENTRY.size : self.entries_at + ENTRY.size * next_entry]


class IndexTrust:
    """What recovery would take of the index, without touching anything."""

    def __init__(self, shape: IndexShape, findings: Findings) -> None:
        self._shape = shape
        self._findings = findings
        self.files: list[TrustedFile] = []
        self._warned: set[str] = set()

    @property
    def covered(self) -> int:
        """Records before this position are in the index."""
        return self.files[-1].end_position + 1 if self.files and self.files[-1].next_entry > 1 else 0

    def by_seal(self, seals: list[IndexSeal], log_first: int, *, clean: bool) -> None:
        """Decide as ``KeyIndex.open_sealed`` does: from the first lost or damaged file on nothing is kept."""
        by_name: dict[str, IndexSeal] = {}
        for seal in seals:
            if seal.name in self._shape.names:
                by_name[seal.name] = seal
            elif seal.end_position >= log_first:  # else retention removed it
                break
        for name in self._shape.names:
            seal_of = by_name.get(name)
            trusted = self._sealed(name, seal_of, is_last=seal_of is seals[-1], clean=clean) if seal_of else None
            if trusted is None:
                break
            self.files.append(trusted)
        last_kept = self.files[-1].path.name if self.files else ""
        for seal in seals:
            if seal.name > last_kept and seal.name not in self._warned and seal.end_position >= log_first:
                present = seal.name in self._shape.names
                self._warn(seal.name, "it comes behind a lost or damaged file" if present else "it is missing")

    def _sealed(self, name: str, seal: IndexSeal, *, is_last: bool, clean: bool) -> TrustedFile | None:
        if self._shape.capacity_of(name) < max(2, seal.next_entry):
            self._warn(name, f"{self._shape.disk.size_of(self._shape.folder / name)} bytes are too few for its entries")
            return None
        view = self._shape.open(self._shape.folder / name)
        try:
            if crc32(self._shape.entry_bytes(view, seal.next_entry)) != seal.entries_crc:
                self._warn(
                    name, f"its entries are not those that the seal promises (if it has {self._shape.slots} slots)"
                )
                return None
            header = HEADER.unpack(bytes.fromhex(seal.header))
            unchanged = bytes(view.data[: HEADER.size]).hex() == seal.header
            if not unchanged and (clean or not is_last):
                self._warn(name, "its header is not the one that the seal promises")
            return TrustedFile(
                self._shape.folder / name, seal.next_entry, header[3], unchanged and (clean or not is_last)
            )
        finally:
            view.close()

    def by_order(self, log_end: int, cut_from: int | None) -> None:
        """RocketMQ's files: entries must go up in the log; after a crash those behind ``cut_from`` are dropped."""
        for name in self._shape.names:
            trusted = self._ordered(name, log_end, cut_from)
            if trusted is None:
                self._warn(name, "its entries make no sense, or it has another number of slots (--index-slots)")
                break
            if trusted.next_entry > 1 or cut_from is None:
                self.files.append(trusted)

    def _ordered(self, name: str, log_end: int, cut_from: int | None) -> TrustedFile | None:
        if self._shape.capacity_of(name) < 2:
            return None
        path = self._shape.folder / name
        view = self._shape.open(path)
        try:
            count = max(1, HEADER.unpack(view.data[: HEADER.size])[5])
            if count > self._shape.capacity_of(name):
                return None
            before, kept, last = 0, 1, 0
            for key_hash, position, _, _ in ENTRY.iter_unpack(self._shape.entry_bytes(view, count)):
                if not before <= position < log_end or key_hash < 0:
                    return None
                before = position
                if cut_from is None or position < cut_from:
                    kept, last = kept + 1, position
            return TrustedFile(path, kept, last, kept == count)
        finally:
            view.close()

    def _warn(self, name: str, reason: str) -> None:
        self._warned.add(name)
        text = f"{reason}; opening the store builds it again"
        self._findings.add(StoreSeverity.WARNING, "index-damaged", f"index/{name}", text)


class IndexComparison:
    """Takes the keys of every record in log order and walks along the entries that recovery would keep.

    Keys of records at ``add_from`` and later are added when the store is opened; those before have to be there.
    RocketMQ from 5.4 on also indexes a message's tag, as ``topic#T#tag`` behind its keys: that may be there or not.
    """

    def __init__(
        self,
        shape: IndexShape,
        trust: IndexTrust,
        add_from: int,
        log_first: int,
        damaged: Ranges,
        findings: Findings,
    ) -> None:
        self._shape = shape
        self._trust = trust
        self._findings = findings
        self._add_from = add_from
        self._log_first = log_first
        self._damaged = damaged
        self._texts: list[bytes] = []  # keys that wait to be compared, with the position of their record
        self._positions: list[int] = []
        self._optional: list[bool] = []  # the index may have the key or not
        self._walk = self._entries()
        self._current = next(self._walk, None)  # the entry to be compared next
        self._entry_count = 0
        self._missing = 0  # keys that the index should have
        self._extra = 0  # entries that belong to no record
        self._to_add = 0  # keys that opening the store indexes

    def add(self, position: int, topic: bytes, keys: list[bytes], tag: bytes | None = None) -> None:
        if position < self._add_from:
            tag_keys = [b"T#" + tag] if tag else []
            self._texts += [topic + b"#" + key for key in (*keys, *tag_keys)]
            self._positions += [position] * (len(keys) + len(tag_keys))
            self._optional += [False] * len(keys) + [True] * len(tag_keys)
            if len(self._texts) >= _BATCH_KEYS:
                self._compare()
        else:
            self._to_add += len(keys)

    def finish(self) -> IndexCheck:
        self._compare()
        while self._current is not None:
            self._pass_over(self._current)
        if self._missing or self._extra:
            text = f"{self._missing} keys of the log are not in it, {self._extra} entries belong to no record"
            advice = "opening the store does not repair this unless the folder is removed first"
            self._findings.add(StoreSeverity.WARNING, "index-wrong", "index", f"{text}; {advice}")
        return IndexCheck(len(self._shape.names), self._entry_count, self._missing, self._extra, self._to_add)

    def _compare(self) -> None:
        wanted = zip(key_hashes(self._texts), self._positions, strict=True)
        for expected, is_optional in zip(wanted, self._optional, strict=True):
            while self._current is not None and self._current[1] < expected[1]:
                self._pass_over(self._current)
            if self._current == expected:
                self._advance()
            elif not is_optional:
                self._missing += 1
        self._texts, self._positions, self._optional = [], [], []

    def _pass_over(self, entry: tuple[int, int]) -> None:
        if entry[1] >= self._log_first and not self._damaged.holds(entry[1]):
            self._extra += 1
        self._advance()

    def _advance(self) -> None:
        self._entry_count += 1
        self._current = next(self._walk, None)

    def _entries(self) -> Iterator[tuple[int, int]]:
        """Hash and position of every entry that is kept; chains are checked on the way."""
        for file in self._trust.files:
            view = self._shape.open(file.path)
            heads = array("i", bytes(4 * self._shape.slots))
            broken = 0
            try:
                entries = ENTRY.iter_unpack(self._shape.entry_bytes(view, file.next_entry))
                for number, (key_hash, position, _, previous) in enumerate(entries, 1):
                    slot = key_hash % self._shape.slots
                    broken += max(0, previous) != heads[slot]
                    heads[slot] = number
                    yield key_hash, position
                del entries
                self._check_chains(file, view, heads, broken)
            finally:
                view.close()

    def _check_chains(self, file: TrustedFile, view: SafeView, heads: array[int], broken: int) -> None:
        wrong_slots = 0
        if file.slots_count:
            slots = array("i", bytes(view.data[HEADER.size : self._shape.entries_at]))
            if sys.byteorder == "little":
                slots.byteswap()
            if slots != heads:
                wrong_slots = sum(map(int.__ne__, (max(0, slot) for slot in slots), heads))
        if broken or wrong_slots:
            text = (
                f"{broken} links and {wrong_slots} slots of its chains are wrong; opening the store computes them again"
            )
            self._findings.add(StoreSeverity.WARNING, "index-chains", f"index/{file.path.name}", text)
