"""Files and folders in memory, in two versions each: what programs see, and what a disk would have. Pure.

    write, truncate      ─▶ seen; durable with fsync of the file
    create, remove,
    rename, link, mkdir  ─▶ seen; durable with fsync of the folder (of either one, for a rename between two)

``after_power_loss`` is the disk that a machine finds when its power is back: what is durable, and by its mode some of
the rest. Nothing here promises more than POSIX does: flushing a file does not make its name durable, as ext4 would.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Final

PAGE: Final = 4096
SECTOR: Final = 512
ROOT: Final = 1
_NOTHING: Final = bytes(PAGE)


class PowerLoss(Enum):
    """What of the un-flushed operations a power loss leaves."""

    FORGET = "forget"  # nothing
    TORN = "torn"  # the first ones of each file, the last of them in part
    REORDER = "reorder"  # any of them: pages of writes, and names


@dataclass(frozen=True, slots=True)
class Write:
    offset: int
    data: bytes

    def pages(self) -> Iterator[Write]:
        """The same in pieces that a disk writes at once."""
        at = 0
        while at < len(self.data):
            size = min(PAGE - (self.offset + at) % PAGE, len(self.data) - at)
            yield Write(self.offset + at, self.data[at : at + size])
            at += size

    def torn(self, rng: Random) -> Write:
        """Some of its sectors, from the first one on."""
        return Write(self.offset, self.data[: rng.randrange(len(self.data) // SECTOR + 1) * SECTOR])


@dataclass(frozen=True, slots=True)
class Resize:
    size: int


class Contents:
    """Bytes of a file: pages that hold something, and its size."""

    def __init__(self, pages: dict[int, bytes] | None = None, size: int = 0) -> None:
        self.pages = pages if pages is not None else {}
        self.size = size

    def copy(self) -> Contents:
        return Contents(dict(self.pages), self.size)

    def apply(self, change: Write | Resize) -> None:
        if isinstance(change, Resize):
            self._resize(change.size)
        else:
            for piece in change.pages():
                self._put(piece)

    def _put(self, piece: Write) -> None:
        number, at = divmod(piece.offset, PAGE)
        if len(piece.data) == PAGE:
            self.pages[number] = bytes(piece.data)
        else:
            page = bytearray(self.pages.get(number, _NOTHING))
            page[at : at + len(piece.data)] = piece.data
            self.pages[number] = bytes(page)
        self.size = max(self.size, piece.offset + len(piece.data))

    def _resize(self, size: int) -> None:
        if size < self.size:
            last, kept = divmod(size, PAGE)
            for number in [each for each in self.pages if each >= last + bool(kept)]:
                del self.pages[number]
            if kept and last in self.pages:
                self.pages[last] = self.pages[last][:kept] + bytes(PAGE - kept)
        self.size = size

    def read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self.size)
        parts = []
        while offset < end:
            number, at = divmod(offset, PAGE)
            parts.append(self.pages.get(number, _NOTHING)[at : at + end - offset])
            offset += len(parts[-1])
        return b"".join(parts)

    def next_data(self, offset: int) -> int:
        """Where bytes begin that were written, at ``offset`` or later. Raises OSError (ENXIO) when there are none."""
        first = offset // PAGE
        found = min((number for number in self.pages if number >= first), default=None)
        if found is None or max(offset, found * PAGE) >= self.size:
            raise OSError(errno.ENXIO, "no data behind this place")
        return max(offset, found * PAGE)

    def next_hole(self, offset: int) -> int:
        if offset >= self.size:
            raise OSError(errno.ENXIO, "behind the end")
        while offset // PAGE in self.pages:
            offset = (offset // PAGE + 1) * PAGE
        return min(offset, self.size)


@dataclass
class Node:
    """A file, or a folder with its entries."""

    number: int
    mode: int
    seen: Contents = field(default_factory=Contents)
    durable: Contents = field(default_factory=Contents)
    unsynced: list[Write | Resize] = field(default_factory=list)
    entries: dict[bytes, int] = field(default_factory=dict)
    durable_entries: dict[bytes, int] = field(default_factory=dict)
    modified_ns: int = field(default_factory=time.time_ns)
    lookups: int = 0  # that the kernel has not given back

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    def change(self, change: Write | Resize) -> None:
        self.seen.apply(change)
        self.unsynced.append(change)
        self.modified_ns = time.time_ns()

    def flush(self) -> None:
        for change in self.unsynced:
            self.durable.apply(change)
        self.unsynced.clear()


@dataclass(frozen=True, slots=True)
class Naming:
    """Entries that change together: (folder, name, node or None for no longer)."""

    steps: tuple[tuple[int, bytes, int | None], ...]

    def touches(self, folder: int) -> bool:
        return any(step[0] == folder for step in self.steps)


class Volume:
    """A tree of nodes, by number; the folder with number ``ROOT`` is the top."""

    def __init__(self) -> None:
        self.nodes = {ROOT: Node(ROOT, stat.S_IFDIR | 0o755)}
        self.namings: list[Naming] = []  # that no folder has flushed
        self._last = ROOT
        self._removed = 0

    # --- what programs do; each raises OSError ---

    def node(self, number: int) -> Node:
        try:
            return self.nodes[number]
        except KeyError:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE)) from None

    def look_up(self, folder: int, name: bytes) -> Node:
        try:
            return self.nodes[self.node(folder).entries[name]]
        except KeyError:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from None

    def make(self, folder: int, name: bytes, mode: int) -> Node:
        """A new file or folder."""
        if name in self.node(folder).entries:
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._last += 1
        self.nodes[self._last] = node = Node(self._last, mode)
        self._name((folder, name, node.number))
        return node

    def link(self, number: int, folder: int, name: bytes) -> Node:
        if name in self.node(folder).entries:
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._name((folder, name, number))
        return self.node(number)

    def remove(self, folder: int, name: bytes) -> None:
        node = self.look_up(folder, name)
        if node.is_folder and node.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        self._name((folder, name, None))
        self._removed += 1
        if self._removed % 256 == 0:
            self.collect()

    def rename(self, folder: int, name: bytes, to_folder: int, to_name: bytes) -> None:
        node = self.look_up(folder, name)
        if (folder, name) != (to_folder, to_name):
            self._name((folder, name, None), (to_folder, to_name, node.number))

    def sync_folder(self, number: int) -> None:
        left = []
        for naming in self.namings:
            if naming.touches(number):
                self._settle(naming)
            else:
                left.append(naming)
        self.namings = left

    def _name(self, *steps: tuple[int, bytes, int | None]) -> None:
        naming = Naming(steps)
        _apply(naming, lambda number: self.nodes[number].entries)
        self.namings.append(naming)

    def _settle(self, naming: Naming) -> None:
        _apply(naming, lambda number: self.nodes[number].durable_entries)

    def links_to(self, number: int) -> int:
        return sum(each == number for node in self.nodes.values() if node.is_folder for each in node.entries.values())

    def used_bytes(self) -> int:
        return sum(len(node.seen.pages) for node in self.nodes.values()) * PAGE

    def collect(self) -> None:
        """Nodes that no name leads to, seen or durable or in between, are dropped once the kernel gave them back."""
        used = {ROOT} | {node.number for node in self.nodes.values() if node.lookups}
        for node in self.nodes.values():
            used.update(node.entries.values(), node.durable_entries.values())
        used |= {step[2] for naming in self.namings for step in naming.steps if step[2] is not None}
        used |= {step[0] for naming in self.namings for step in naming.steps}
        self.nodes = {number: node for number, node in self.nodes.items() if number in used}

    # --- what a machine finds when its power is back ---

    def after_power_loss(self, mode: PowerLoss, rng: Random) -> Volume:
        """Another volume; this one is gone."""
        for naming in _survivors(self.namings, mode, rng):
            self._settle(naming)
        found = Volume()
        found._last = self._last
        found.nodes = {}
        self._take(ROOT, found, mode, rng)
        return found

    def _take(self, number: int, into: Volume, mode: PowerLoss, rng: Random) -> None:
        old = self.nodes[number]
        if number in into.nodes:
            return
        for change in _surviving_changes(old.unsynced, mode, rng):
            old.durable.apply(change)
        entries = old.durable_entries
        into.nodes[number] = Node(
            number, old.mode, old.durable.copy(), old.durable, [], dict(entries), dict(entries), old.modified_ns
        )
        for child in entries.values():
            self._take(child, into, mode, rng)


def _apply(naming: Naming, entries_of: Callable[[int], dict[bytes, int]]) -> None:
    for folder, name, number in naming.steps:
        if number is None:
            entries_of(folder).pop(name, None)
        else:
            entries_of(folder)[name] = number


def _survivors(namings: list[Naming], mode: PowerLoss, rng: Random) -> Iterable[Naming]:
    """Journals keep their order; without one, any names may have reached the disk."""
    if mode is PowerLoss.FORGET:
        return []
    if mode is PowerLoss.TORN:
        return namings[: rng.randrange(len(namings) + 1)]
    return [naming for naming in namings if rng.random() < 0.5]


def _surviving_changes(changes: list[Write | Resize], mode: PowerLoss, rng: Random) -> Iterator[Write | Resize]:
    if mode is PowerLoss.TORN and changes:
        kept = rng.randrange(len(changes) + 1)
        yield from changes[:kept]
        if kept < len(changes) and isinstance(last := changes[kept], Write):
            yield last.torn(rng)
    elif mode is PowerLoss.REORDER:
        for change in changes:
            pieces = change.pages() if isinstance(change, Write) else [change]
            yield from (piece for piece in pieces if rng.random() < 0.5)
