"""Files of a store as a check sees them: found, measured and read, never changed.

``SegmentList`` makes a folder right when it loads it; a check must not. ``FileRun`` says what it would find instead:
names, sizes, gaps. A short file reads as if zeros followed, because that is what recovery makes of it, and so does a
part of a file that the disk cannot read: by ``pread`` that is an error, through a mapping it would end the process.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pyromq.store.files.disk import Disk, DiskFile
from pyromq.store.files.segments import is_segment_name, segment_name

_PIECE_BYTES = 1 << 20
_BLOCK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: Path
    base: int
    size: int


class FileRun:
    """The files of one folder that hold one long run of bytes, as far as they are there."""

    def __init__(self, disk: Disk, folder: Path, file_bytes: int, found: Sequence[FoundFile]) -> None:
        self._disk = disk
        self.folder = folder
        self.file_bytes = file_bytes
        self.files = list(found)
        self.empty: list[str] = []  # names of files that a crash left without a byte; loading removes them
        while self.files and self.files[-1].size == 0:
            self.empty.append(self.files.pop().path.name)

    @property
    def first(self) -> int:
        return self.files[0].base if self.files else 0

    @property
    def end(self) -> int:
        return self.files[-1].base + self.file_bytes if self.files else 0

    def faults(self) -> list[tuple[FoundFile, str]]:
        """Why loading the folder would be refused, with the file at which it shows."""
        found = []
        for number, file in enumerate(self.files):
            short_tail = file.size < self.file_bytes and file is self.files[-1]
            if file.size != self.file_bytes and not short_tail:
                found.append((file, f"it has {file.size} bytes instead of {self.file_bytes}"))
            expected = self.files[number - 1].base + self.file_bytes if number else file.base
            if expected != file.base:
                found.append((file, f"{segment_name(expected)} is missing before it"))
        return found

    def holding(self, at: int) -> FoundFile | None:
        number = bisect_right(self.files, at, key=lambda file: file.base) - 1
        return self.files[number] if number >= 0 and at < self.files[number].base + self.file_bytes else None

    def read(self, at: int, size: int) -> bytes:
        """Bytes of the run; zeros where no file is or the disk cannot read."""
        pieces = []
        while size > 0:
            file = self.holding(at)
            file_end = file.base + self.file_bytes if file else at - at % self.file_bytes + self.file_bytes
            count = min(size, file_end - at)
            data = self._read_file(file, at - file.base, count) if file else b""
            pieces.append(data.ljust(count, b"\0"))
            at, size = at + count, size - count
        return b"".join(pieces)

    def data_end(self) -> int:
        """End of the last byte of the run that is not zero."""
        for file in reversed(self.files):
            opened = self._disk.open(file.path, writable=False)
            try:
                end = opened.data_end(0)
            except OSError:
                end = opened.size
            finally:
                opened.close()
            if end:
                return file.base + min(end, self.file_bytes)
        return self.first

    def _read_file(self, file: FoundFile, at: int, size: int) -> bytes:
        opened = self._disk.open(file.path, writable=False)
        try:
            return opened.read_at(at, size)
        except OSError:
            return b""
        finally:
            opened.close()


def find_files(disk: Disk, folder: Path) -> list[FoundFile]:
    """Files of a folder with the name of a segment, oldest first."""
    paths = [folder / name for name in disk.names(folder) if is_segment_name(name)]
    return [FoundFile(path, int(path.name), disk.size_of(path)) for path in paths]


def infer_file_bytes(folders: Iterable[Sequence[FoundFile]]) -> int:
    """How long the files of these folders are meant to be: what most sizes and most distances of names say."""
    votes: Counter[int] = Counter()
    for files in folders:
        votes.update(file.size for file in files if file.size)
        votes.update(after.base - before.base for before, after in pairwise(files))
    return max(votes, key=lambda size: (votes[size], size), default=0)


class SafeView:
    """A whole file, readable without risk: ``data`` has ``size`` bytes, ``unreadable`` lists what reads as zeros."""

    def __init__(self, disk: Disk, path: Path, size: int) -> None:
        self.unreadable: list[tuple[int, int, str]] = []
        self._file = disk.open(path, writable=False)
        self.data_end = self._try_reading(size)
        if self.unreadable or self._file.size < size:
            self.data = memoryview(self._copy(size)).toreadonly()
        else:
            self.data = self._file.map_once()[:size]

    def _try_reading(self, size: int) -> int:
        """Read everything once; the pages are then in memory when the mapping is used."""
        try:
            end = min(self._file.data_end(0), size)
        except OSError:
            end = min(self._file.size, size)
        for at in range(0, end, _PIECE_BYTES):
            self._read(at, min(_PIECE_BYTES, end - at), lambda _at, _data: None)
        return end

    def _copy(self, size: int) -> bytearray:
        copy = bytearray(size)  # pages that stay zero take no memory

        def keep(at: int, data: bytes) -> None:
            copy[at : at + len(data)] = data

        self.unreadable.clear()
        for at in range(0, self.data_end, _PIECE_BYTES):
            self._read(at, min(_PIECE_BYTES, self.data_end - at), keep)
        return copy

    def _read(self, at: int, size: int, take: Callable[[int, bytes], None]) -> None:
        """Hand on what can be read of a piece, block by block where it cannot be read as a whole."""
        try:
            take(at, self._file.read_at(at, size))
        except OSError as error:
            if size <= _BLOCK_BYTES:
                self._add_unreadable(at, at + size, error.strerror or str(error))
                return
            for block in range(at, at + size, _BLOCK_BYTES):
                self._read(block, min(_BLOCK_BYTES, at + size - block), take)

    def _add_unreadable(self, start: int, end: int, reason: str) -> None:
        if self.unreadable and self.unreadable[-1][1] == start:
            start = self.unreadable.pop()[0]
        self.unreadable.append((start, end, reason))

    @property
    def file(self) -> DiskFile:
        return self._file

    def close(self) -> None:
        self.data.release()
        self._file.close()


class Ranges:
    """Many [start, end) in ascending order, sixteen bytes each."""

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, start: int, end: int) -> None:
        self._starts.append(start)
        self._ends.append(end)
        self.size_bytes += end - start

    def overlaps(self, start: int, end: int) -> bool:
        """True when some byte of [start, end) lies in a range."""
        number = bisect_right(self._ends, start)
        return number < len(self._starts) and self._starts[number] < end

    def holds(self, position: int) -> bool:
        return self.overlaps(position, position + 1)
