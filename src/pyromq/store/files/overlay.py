"""A disk over a folder that is only read: what is written goes to a second folder, or stays in memory.

    root     opened for reading only; no lock is taken, no byte and no name in it changes
    scratch  files that are new or replaced, under the same names; its owner removes it
    memory   pages of root's files that were written: copy-on-write mappings

A store that is opened on it recovers as on the real disk and shows the folder as a broker would find it. Nothing here
is durable, and nothing needs to be.
"""

from __future__ import annotations

import mmap
import os
import shutil
import sys
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyromq.compiled_core import Buffer
from pyromq.store.files.disk import DiskFile, DiskUsage, RealDisk, RealFile

_PIECE_BYTES: Final = 1 << 20
_PRIVATE: Final = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)


class CopiedFile:
    """A file of the root; pages that are written become this process's own."""

    def __init__(self, path: Path) -> None:
        self._file = RealFile(path, writable=False)
        self.size = self._file.size
        self._written_end = 0
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            readable = mmap.PROT_READ | mmap.PROT_WRITE
            self._map = mmap.mmap(fd, self.size, flags=_PRIVATE, prot=readable) if self.size else None
        finally:
            os.close(fd)

    def _bytes(self) -> memoryview:
        return memoryview(b"") if self._map is None else memoryview(self._map)

    def map_once(self) -> memoryview:
        return self._bytes().toreadonly()

    def read_at(self, at: int, size: int) -> bytes:
        return bytes(self._bytes()[at : at + size])

    def write_at(self, at: int, data: Buffer) -> None:
        self._bytes()[at : at + len(data)] = data
        self._written_end = max(self._written_end, at + len(data))

    def write_parts(self, at: int, parts: Sequence[Buffer]) -> None:
        self.write_at(at, b"".join(parts))

    def scatter(self, at: int, words: Mapping[int, int]) -> None:
        table = self._bytes()[at : at + (self.size - at) // 4 * 4].cast("I")
        swapped = array("I", words.values())
        if sys.byteorder == "little":
            swapped.byteswap()
        for number, word in zip(words, swapped, strict=True):
            table[number] = word
            self._written_end = max(self._written_end, at + 4 * number + 4)

    def scatter_run(self, at: int, numbers: bytes, first: int) -> None:
        words = memoryview(numbers).cast("I")
        self.scatter(at, dict(zip(words, range(first, first + len(words)), strict=True)))

    def sync(self) -> None:
        pass

    def is_removed(self) -> bool:
        return False

    def is_at(self, path: Path) -> bool:
        return True

    def zero_from(self, at: int) -> None:
        for start in range(at, self.data_end(at), _PIECE_BYTES):
            size = min(_PIECE_BYTES, self.size - start)
            self._bytes()[start : start + size] = bytes(size)

    def release_from(self, at: int) -> None:
        """The file below stays as it is."""

    def data_end(self, at: int) -> int:
        end, view = max(at, self._file.data_end(at), self._written_end), self._bytes()
        while end > at:
            begin = max(at, end - _PIECE_BYTES)
            if kept := len(bytes(view[begin:end]).rstrip(b"\0")):
                return begin + kept
            end = begin
        return at

    def close(self) -> None:
        """Views handed out before stay valid; the mapping goes when the last of them does."""
        self._map = None
        self._file.close()


class _NoLock:
    def release(self) -> None:
        pass


class OverlayDisk:
    """Implements ``Disk`` for ``root``, which it never changes. Paths outside of it are refused."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root = root.absolute()
        self._scratch = scratch
        self._real = RealDisk()
        self._removed: set[Path] = set()  # of the root: names that are not to be seen any more

    def open(self, path: Path, *, writable: bool = True) -> DiskFile:
        found = self._seen(path)
        return self._real.open(found, writable=writable) if found == self._own(path) else CopiedFile(found)

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0, sync_folders: bool = True) -> DiskFile:
        return self._real.create(self._own(path), size)  # no space is reserved: it costs some, and is not needed

    def exists(self, path: Path) -> bool:
        return self._place(path) is not None

    def names(self, folder: Path) -> list[str]:
        there = set(self._real.names(self._own(folder)))
        if not self._is_removed(folder):
            there |= {name for name in self._real.names(folder) if folder.absolute() / name not in self._removed}
        return sorted(there)

    def is_folder(self, path: Path) -> bool:
        place = self._place(path)
        return place is not None and place.is_dir()

    def size_of(self, path: Path) -> int:
        return self._real.size_of(self._seen(path))

    def resize(self, path: Path, size: int) -> None:
        self._real.resize(self._copied(path), size)

    def modified_ms(self, path: Path) -> int:
        return self._real.modified_ms(self._seen(path))

    def read(self, path: Path) -> bytes:
        return self._real.read(self._seen(path))

    def write(self, path: Path, data: bytes) -> None:
        own = self._own(path)
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_bytes(data)

    def rename(self, old: Path, new: Path) -> None:
        source, target = self._copied(old), self._own(new)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.replace(target)
        self._removed.add(old.absolute())

    def remove(self, path: Path) -> None:
        self._real.remove(self._own(path))
        self._removed.add(path.absolute())

    def remove_folder(self, path: Path) -> None:
        own = self._own(path)
        if own.is_dir():
            own.rmdir()
        self._removed.add(path.absolute())

    def sync_folder(self, path: Path) -> None:
        pass

    def usage(self, path: Path) -> DiskUsage:
        return self._real.usage(self._root)

    def lock(self, path: Path) -> _NoLock:
        return _NoLock()

    def is_locked(self, path: Path) -> bool:
        return path.exists() and self._real.is_locked(path)

    # --- where things are ---

    def _own(self, path: Path) -> Path:
        """Its name in the scratch folder."""
        return self._scratch / path.absolute().relative_to(self._root)

    def _place(self, path: Path) -> Path | None:
        own = self._own(path)
        if own.exists():
            return own
        return path if path.exists() and not self._is_removed(path) else None

    def _seen(self, path: Path) -> Path:
        place = self._place(path)
        if place is None:
            raise FileNotFoundError(2, "no such file", str(path))
        return place

    def _is_removed(self, path: Path) -> bool:
        found = path.absolute()
        return any(each in self._removed for each in (found, *found.parents))

    def _copied(self, path: Path) -> Path:
        own, seen = self._own(path), self._seen(path)
        if seen != own:
            own.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(seen, own)
        return own
