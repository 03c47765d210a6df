"""File access, handed to the store so that tests can make it fail: ``RealDisk`` here, ``FaultyDisk`` in testing.

Durability contract of every implementation: bytes are durable after ``DiskFile.sync``; a created, renamed or removed
name is durable after ``sync_folder`` of its folder. Until then a crash may keep or drop any part of it, in any order.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import resource
import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from pyromq.compiled_core import Buffer, core
from pyromq.errors import StoreInUseError
from pyromq.whole_text import sync_folder, write_flushed

# struct flock, as the kernel wants it: type, whence, start, length, process; the BSDs have type and whence at the end.
_FLOCK = struct.Struct("hhqqi" if sys.platform == "linux" else "qqihh")
_FLOCK_TYPE_AT = 0 if sys.platform == "linux" else 3

_IOV_MAX = 1024
_ZEROS = bytes(256 << 10)
_WORTH_RELEASING_BYTES = 1 << 20
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700  # messages are nobody else's business, whatever the umask allows


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

    def map_once(self) -> memoryview:
        """The whole file, read-only, always showing what was written last; the first call maps it. Raises OSError."""

    def read_at(self, at: int, size: int) -> bytes: ...

    def write_at(self, at: int, data: Buffer) -> None: ...

    def write_parts(self, at: int, parts: Sequence[Buffer]) -> None:
        """``write_at`` of all parts, one behind the other, without copying them together first."""

    def scatter(self, at: int, words: Mapping[int, int]) -> None:
        """Write 32-bit words of a table that starts at ``at``, by number, big-endian; only inside the reserved part."""

    def scatter_run(self, at: int, numbers: bytes, first: int) -> None:
        """``scatter`` of ``first``, ``first + 1``, … to words by their numbers (u32, native); the last one counts."""

    def sync(self) -> None: ...

    def is_removed(self) -> bool:
        """Whether its last name is gone: whatever is written here goes with it. Raises OSError."""

    def is_at(self, path: Path) -> bool:
        """Whether this file is still the one of that name: nobody removed, renamed or replaced it. Raises OSError."""

    def zero_from(self, at: int) -> None:
        """Turn everything from ``at`` on into zeros that take no space."""

    def data_end(self, at: int) -> int:
        """End of the last byte from ``at`` on that is not zero; ``at`` when there is none."""

    def release_from(self, at: int) -> None:
        """Give back the space of zeros from ``at`` on, as cp, tar and rsync leave them: ``data_end`` reads them all."""

    def close(self) -> None: ...


class DiskLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def open(self, path: Path, *, writable: bool = True) -> DiskFile: ...

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0, sync_folders: bool = True) -> DiskFile:
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

    def is_locked(self, path: Path) -> bool:
        """Whether a process holds that lock; takes nothing and changes nothing."""


class RealFile:
    """Appends by pwrite, reads by mmap: the two are coherent, and a full disk is an error instead of SIGBUS."""

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self._fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size
        self._view: memoryview | None = None  # of a mapping for reading, or of ``_map``
        self._map: mmap.mmap | None = None  # for ``scatter``, which writes words here and there

    def map_once(self) -> memoryview:
        if self._view is None:
            self._view = memoryview(self._mapped()) if self.size else memoryview(b"")
        return self._view

    def _mapped(self) -> mmap.mmap:
        try:
            return mmap.mmap(self._fd, self.size, prot=mmap.PROT_READ)
        except OSError:  # ext4 that turned read-only after an error maps no file that is open for writing
            for_reading = os.open(f"/proc/self/fd/{self._fd}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                return mmap.mmap(for_reading, self.size, prot=mmap.PROT_READ)
            finally:
                os.close(for_reading)

    def read_at(self, at: int, size: int) -> bytes:
        return os.pread(self._fd, size, at)

    def write_at(self, at: int, data: Buffer) -> None:
        written = os.pwrite(self._fd, data, at)
        while written < len(data):  # a short write: the next one goes on, or raises the reason
            written += os.pwrite(self._fd, data[written:], at + written)

    def write_parts(self, at: int, parts: Sequence[Buffer]) -> None:
        for start in range(0, len(parts), _IOV_MAX):
            some = parts[start : start + _IOV_MAX]
            written, size = os.pwritev(self._fd, some, at), sum(map(len, some))
            if written < size:
                self.write_at(at + written, b"".join(some)[written:])
            at += size

    def _table(self, at: int) -> memoryview:
        if self._map is None:
            self._map = mmap.mmap(self._fd, self.size)
            self._view = memoryview(self._map).toreadonly()  # one mapping: what was just read is cheap to write
        return memoryview(self._map)[at : at + (self.size - at) // 4 * 4]

    def scatter_run(self, at: int, numbers: bytes, first: int) -> None:
        assert core is not None, "only the core makes such runs"
        core.scatter_words(self._table(at), numbers, first)

    def scatter(self, at: int, words: Mapping[int, int]) -> None:
        table = self._table(at).cast("I")
        swapped = array("I", words.values())
        if sys.byteorder == "little":
            swapped.byteswap()
        for number, word in zip(words, swapped, strict=True):
            table[number] = word

    def sync(self) -> None:
        if self._fd < 0:
            raise OSError(errno.EBADF, "the file is closed")
        os.fdatasync(self._fd)

    def is_removed(self) -> bool:
        return os.fstat(self._fd).st_nlink == 0

    def is_at(self, path: Path) -> bool:
        try:
            return os.path.samestat(os.fstat(self._fd), path.stat())
        except (FileNotFoundError, NotADirectoryError):
            return False

    def zero_from(self, at: int) -> None:
        os.ftruncate(self._fd, at)
        os.ftruncate(self._fd, self.size)

    def data_end(self, at: int) -> int:
        piece = bytearray(len(_ZEROS))
        for start, end in reversed(self._data_extents(at)):
            while end - start >= len(piece):  # in whole pieces: comparing is ten times faster than stripping
                os.preadv(self._fd, (piece,), end - len(piece))
                if piece != _ZEROS:
                    break
                end -= len(piece)
            begin = max(start, end - len(piece))
            if kept := len(os.pread(self._fd, end - begin, begin).rstrip(b"\0")):
                return begin + kept
        return at

    def release_from(self, at: int) -> None:
        if sum(end - start for start, end in self._data_extents(at)) >= _WORTH_RELEASING_BYTES:
            self.zero_from(at)

    def _data_extents(self, at: int) -> list[tuple[int, int]]:
        """Ranges that may hold anything but zeros, by the file system's own account."""
        extents = []
        try:
            while at < self.size:
                start = os.lseek(self._fd, at, os.SEEK_DATA)
                at = os.lseek(self._fd, start, os.SEEK_HOLE)
                extents.append((start, at))
        except OSError as error:
            if error.errno != errno.ENXIO:  # not "no data behind this point": the file system cannot know
                extents.append((at, self.size))
        return extents

    def close(self) -> None:
        """Views handed out before stay valid; the mapping goes when the last of them does."""
        self._view = self._map = None  # first: the last close of a removed file may take long, without the GIL then
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _asked_flock() -> tuple[int, ...]:
    """The question to the kernel: which lock would keep byte 0 from being locked for writing?"""
    kind, where = (fcntl.F_WRLCK, os.SEEK_SET), (0, 1, 0)
    return kind + where if sys.platform == "linux" else where + kind


class RealLock:
    """Byte 0 of the lock file, as Java locks it; POSIX lets one process lock twice, so a set guards against that."""

    _held: set[Path] = set()  # noqa: RUF012 - shared on purpose by all locks of this process

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        if self._path in self._held:
            raise StoreInUseError(f"{path.parent} is already open in this process")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(self._fd)
            raise StoreInUseError(
                f"{path.parent} is in use by another process; stop it, or choose another data folder"
            ) from error
        self._held.add(self._path)
        try:
            os.pwrite(self._fd, b"lock", 0)
        except OSError:
            self.release()
            raise

    @classmethod
    def is_held(cls, path: Path) -> bool:
        if path.resolve() in cls._held:  # do not even open it: closing any descriptor of it would end our own lock
            return True
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            response = fcntl.fcntl(fd, fcntl.F_GETLK, _FLOCK.pack(*_asked_flock()))
        finally:
            os.close(fd)
        return bool(_FLOCK.unpack(response)[_FLOCK_TYPE_AT] != fcntl.F_UNLCK)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._held.discard(self._path)


class RealDisk:
    """Disk of the machine: its file system."""

    def __init__(self) -> None:
        # Every queue keeps its newest file open, so thousands of queues need more than the usual soft limit of 1024.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def open(self, path: Path, *, writable: bool = True) -> RealFile:
        return RealFile(path, writable=writable)

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0, sync_folders: bool = True) -> RealFile:
        self._make_folder(path.parent, sync=sync_folders)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
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
        except (FileNotFoundError, NotADirectoryError):
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
        write_flushed(path, data)

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        path.rmdir()

    def sync_folder(self, path: Path) -> None:
        sync_folder(path)

    def usage(self, path: Path) -> DiskUsage:
        stat = os.statvfs(path)
        total = stat.f_blocks * stat.f_frsize
        return DiskUsage(total, total - stat.f_bfree * stat.f_frsize, stat.f_bavail * stat.f_frsize)

    def lock(self, path: Path) -> RealLock:
        self._make_folder(path.parent)
        return RealLock(path)

    def is_locked(self, path: Path) -> bool:
        return RealLock.is_held(path)

    def _make_folder(self, folder: Path, *, sync: bool = True) -> None:
        """Make a folder and its parents, each durable in the one above before anything is put in it."""
        if folder.is_dir():
            return
        self._make_folder(folder.parent, sync=sync)
        folder.mkdir(_FOLDER_MODE, exist_ok=True)
        if sync:
            try:
                self.sync_folder(folder.parent)
            except OSError:  # the next attempt must not take it for durable
                folder.rmdir()
                raise
