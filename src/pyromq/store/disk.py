"""File access, handed to the store so that tests can make it fail: ``RealDisk`` here, ``FaultyDisk`` in testing.

Durability contract of every implementation: bytes are durable after ``DiskFile.sync``; a created, renamed or removed
name is durable after ``sync_folder`` of its folder. Until then a crash may keep or drop any part of it, in any order.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from pyromq.errors import StoreInUseError


class DiskUsage(NamedTuple):
    total_bytes: int
    used_bytes: int
    free_bytes: int

    @property
    def used_percent(self) -> int:
        """Used part of what is usable, rounded up to whole percent."""
        usable = self.used_bytes + self.free_bytes
        return -(-100 * self.used_bytes // usable) if usable else 100


class DiskFile(Protocol):
    """A file of fixed size. Writes are whole or raise OSError, and then some of their bytes may have been written."""

    size: int

    @property
    def view(self) -> memoryview:
        """The whole file, read-only, always showing what was written last."""

    def read_at(self, at: int, size: int) -> bytes: ...

    def write_at(self, at: int, data: bytes) -> None: ...

    def scatter(self, writes: Iterable[tuple[int, bytes]]) -> None:
        """Many small writes inside the part that was reserved at creation."""

    def sync(self) -> None: ...

    def zero_from(self, at: int) -> None:
        """Turn everything from ``at`` on into zeros that take no space."""

    def data_end(self, at: int) -> int:
        """End of the last byte from ``at`` on that is not zero; ``at`` when there is none."""

    def close(self) -> None: ...


class DiskLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def open(self, path: Path, *, writable: bool = True) -> DiskFile: ...

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0) -> DiskFile:
        """A new file of zeros; only the first ``reserve_bytes`` take space at once. Folders are made as needed."""

    def exists(self, path: Path) -> bool: ...

    def names(self, folder: Path) -> list[str]:
        """Sorted names in a folder; empty when there is no such folder."""

    def is_folder(self, path: Path) -> bool: ...

    def size_of(self, path: Path) -> int: ...

    def resize(self, path: Path, size: int) -> None: ...

    def modified_ms(self, path: Path) -> int: ...

    def read(self, path: Path) -> bytes: ...

    def write(self, path: Path, data: bytes) -> None:
        """Create or replace a small file and sync it; not atomic: callers write aside and rename."""

    def rename(self, old: Path, new: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def remove_folder(self, path: Path) -> None: ...

    def sync_folder(self, path: Path) -> None: ...

    def usage(self, path: Path) -> DiskUsage: ...

    def lock(self, path: Path) -> DiskLock:
        """An exclusive lock that ends with the process; raises StoreInUseError."""


class RealFile:
    """Appends by pwrite, reads by mmap: the two are coherent, and a full disk is an error instead of SIGBUS."""

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self._fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size
        self._view: memoryview | None = None
        self._map: mmap.mmap | None = None

    @property
    def view(self) -> memoryview:
        if self._view is None:
            self._view = (
                memoryview(mmap.mmap(self._fd, self.size, prot=mmap.PROT_READ)) if self.size else memoryview(b"")
            )
        return self._view

    def read_at(self, at: int, size: int) -> bytes:
        return os.pread(self._fd, size, at)

    def write_at(self, at: int, data: bytes) -> None:
        written = os.pwrite(self._fd, data, at)
        while written < len(data):  # a short write: the next one goes on or says why it cannot
            written += os.pwrite(self._fd, data[written:], at + written)

    def scatter(self, writes: Iterable[tuple[int, bytes]]) -> None:
        if self._map is None:
            self._map = mmap.mmap(self._fd, self.size)
        target = self._map
        for at, data in writes:
            target[at : at + len(data)] = data

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def zero_from(self, at: int) -> None:
        os.ftruncate(self._fd, at)
        os.ftruncate(self._fd, self.size)

    def data_end(self, at: int) -> int:
        for start, end in reversed(self._data_extents(at)):
            while end > start:
                begin = max(start, end - (1 << 20))
                kept = len(os.pread(self._fd, end - begin, begin).rstrip(b"\0"))
                if kept:
                    return begin + kept
                end = begin
        return at

    def _data_extents(self, at: int) -> list[tuple[int, int]]:
        """Ranges that may hold anything but zeros, by the file system's own account."""
        extents = []
        with contextlib.suppress(OSError):  # ENXIO: no data behind this point
            while at < self.size:
                start = os.lseek(self._fd, at, os.SEEK_DATA)
                at = os.lseek(self._fd, start, os.SEEK_HOLE)
                extents.append((start, at))
        return extents

    def close(self) -> None:
        """Views handed out before stay valid; the mapping goes when the last of them does."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._view = self._map = None


class RealLock:
    """Byte 0 of the lock file, as Java locks it; POSIX lets one process lock twice, so a set guards against that."""

    _held: set[Path] = set()  # noqa: RUF012 - shared on purpose by all locks of this process

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        if self._path in self._held:
            raise StoreInUseError(f"{path.parent} is already open in this process")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(self._fd)
            raise StoreInUseError(
                f"{path.parent} is in use by another process; stop it, or choose another data folder"
            ) from error
        os.pwrite(self._fd, b"lock", 0)
        self._held.add(self._path)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._held.discard(self._path)


class RealDisk:
    """The file system."""

    def __init__(self) -> None:
        # Every queue keeps its newest file open, so thousands of queues need more than the usual soft limit of 1024.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def open(self, path: Path, *, writable: bool = True) -> RealFile:
        return RealFile(path, writable=writable)

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0) -> RealFile:
        self._make_folder(path.parent)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(fd, size)
            if reserve_bytes:
                os.posix_fallocate(fd, 0, reserve_bytes)
        except OSError:
            path.unlink()
            raise
        finally:
            os.close(fd)
        return RealFile(path)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def names(self, folder: Path) -> list[str]:
        try:
            return sorted(os.listdir(folder))  # noqa: PTH208 - names are wanted, not paths
        except FileNotFoundError:
            return []

    def is_folder(self, path: Path) -> bool:
        return path.is_dir()

    def size_of(self, path: Path) -> int:
        return path.stat().st_size

    def resize(self, path: Path, size: int) -> None:
        os.truncate(path, size)

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def write(self, path: Path, data: bytes) -> None:
        self._make_folder(path.parent)
        with path.open("wb", buffering=0) as file:
            file.write(data)
            os.fsync(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        path.rmdir()

    def sync_folder(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def usage(self, path: Path) -> DiskUsage:
        stat = os.statvfs(path)
        total = stat.f_blocks * stat.f_frsize
        return DiskUsage(total, total - stat.f_bfree * stat.f_frsize, stat.f_bavail * stat.f_frsize)

    def lock(self, path: Path) -> RealLock:
        self._make_folder(path.parent)
        return RealLock(path)

    def _make_folder(self, folder: Path) -> None:
        """Make a folder and its parents, each durable in the one above before anything is put in it."""
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        self.sync_folder(folder.parent)
