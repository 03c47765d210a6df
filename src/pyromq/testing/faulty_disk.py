"""A disk in memory that fails on command and forgets, like a real one, what was not flushed before a crash.

    disk = FaultyDisk()
    disk.crash_at(17)                      # the 17th operation does not happen (or half of it): raises Crashed
    …                                      # run the code under test until Crashed comes out
    disk = disk.after_crash(CrashMode.FORGET)   # what a machine finds after the power came back

Counted operations are those that change something: writes, syncs, creations, renames, removals. Two versions of
everything are kept: what programs see and what is durable. Bytes become durable by ``sync``, names by ``sync_folder``.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random

from pyromq.errors import StoreInUseError
from pyromq.store.files.disk import DiskUsage
from pyromq.testing.sparse_bytes import Sparse, copied, zeroes

_PAGE_BYTES = 512


class Crashed(BaseException):
    """The machine stopped here. Not an Exception, so that nothing under test can catch it by accident."""


class CrashMode(Enum):
    """What of the un-flushed data a crash leaves."""

    FORGET = "forget"  # nothing
    KEEP = "keep"  # everything, as after kill -9 of the process alone
    MIX = "mix"  # some pages and some names, at random: what real disks do


class _Contents:
    """Bytes of one file: as seen, and as durable.

    Files are large, almost empty, and synced often: both versions are sparse, and a sync copies what changed since the
    last one. A flush thread may sync while others write.
    """

    def __init__(self, size: int = 0) -> None:
        self.seen = zeroes(size)
        self.durable = zeroes(size)
        self.used = 0  # from here on both versions are zeroes
        self._changed: list[tuple[int, int]] | None = []  # ranges since the last sync; None: all of it
        self._lock = threading.Lock()
        self.modified_ms = 0
        self.is_removed = False

    def change(self, at: int, data: bytes) -> None:
        end = at + len(data)
        with self._lock:
            if end > len(self.seen):
                self.seen = copied(self.seen, self.used, end)
            self.seen[at:end] = data
            self.used = max(self.used, end)
            if self._changed is not None:
                self._changed.append((at, end))

    def resize(self, size: int) -> None:
        """Cut the file, or add zeroes."""
        with self._lock:
            self.seen, self._changed = copied(self.seen, self.used, size), None

    def sync(self) -> None:
        with self._lock:
            if self._changed is None or len(self.seen) != len(self.durable):
                self.durable = copied(self.seen, self.used)
            else:
                for start, end in self._changed:
                    self.durable[start:end] = self.seen[start:end]
            self._changed = []

    def survivor(self, mode: CrashMode, rng: Random) -> _Contents:
        with self._lock:
            if mode is CrashMode.KEEP:
                data = self.seen
            elif mode is CrashMode.FORGET or self._is_durable():
                data = self.durable
            else:
                data = _mixed_pages(self.durable, self.seen, self.used, rng)
            kept = _Contents()
            kept.seen, kept.durable = copied(data, self.used), copied(data, self.used)
            kept.used, kept.modified_ms = self.used, self.modified_ms
        return kept

    def _is_durable(self) -> bool:
        same_size = len(self.seen) == len(self.durable)
        return same_size and self.seen[: self.used] == self.durable[: self.used]

    def written(self) -> bytes:
        """What a program sees, without the zeroes at the end."""
        return bytes(self.seen[: self.used]).rstrip(b"\0")


def _mixed_pages(old: Sparse, new: Sparse, used: int, rng: Random) -> Sparse:
    size = len(rng.choice((old, new)))
    mixed, other = copied(old, used, size), copied(new, used, size)
    for at in range(0, min(used, size), _PAGE_BYTES):
        page = slice(at, min(at + _PAGE_BYTES, size))
        mixed[page] = rng.choice((mixed, other))[page]
    return mixed


@dataclass
class _Folder:
    """Names in one folder: as seen, and as durable."""

    seen: dict[str, _Contents | _Folder] = field(default_factory=dict)
    durable: dict[str, _Contents | _Folder] = field(default_factory=dict)

    def survivor(self, mode: CrashMode, rng: Random) -> _Folder:
        kept = _Folder()
        for name in sorted(self.seen.keys() | self.durable.keys()):
            versions = (self.durable.get(name), self.seen.get(name))
            node = versions[mode is CrashMode.KEEP] if mode is not CrashMode.MIX else rng.choice(versions)
            if node is not None:
                kept.seen[name] = node.survivor(mode, rng)
        kept.durable = dict(kept.seen)
        return kept


class FaultyFile:
    """A file of a FaultyDisk."""

    def __init__(self, disk: FaultyDisk, contents: _Contents, *, writable: bool = True) -> None:
        self._disk = disk
        self._contents = contents
        self._writable = writable
        self.size = len(contents.seen)
        self._view: memoryview | None = None

    def map_once(self) -> memoryview:
        if self._view is None:
            self._view = memoryview(self._contents.seen).toreadonly()
        return self._view

    def read_at(self, at: int, size: int) -> bytes:
        return bytes(self._contents.seen[at : at + size])

    def write_at(self, at: int, data: bytes | bytearray | memoryview) -> None:
        self._must_be_writable()
        self._disk._write(self._contents, at, bytes(data))

    def write_parts(self, at: int, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        self._disk._write(self._contents, at, b"".join(parts))

    def scatter(self, at: int, words: Mapping[int, int]) -> None:
        self._must_be_writable()
        for number, word in words.items():
            self._disk._write(self._contents, at + 4 * number, word.to_bytes(4, "big"))

    def scatter_run(self, at: int, numbers: bytes, first: int) -> None:
        words = memoryview(numbers).cast("I")
        self.scatter(at, dict(zip(words, range(first, first + len(words)), strict=True)))

    def sync(self) -> None:
        self._disk._operation("sync")
        self._contents.sync()

    def is_removed(self) -> bool:
        return self._contents.is_removed

    def is_at(self, path: Path) -> bool:
        return self._disk._node(path) is self._contents

    def zero_from(self, at: int) -> None:
        self._must_be_writable()
        self._disk._operation("zero")
        self._contents.change(at, bytes(max(0, min(self.size, self._contents.used) - at)))

    def release_from(self, at: int) -> None:
        """Do nothing: files here take no space."""

    def data_end(self, at: int) -> int:
        return max(at, len(self._contents.written()))

    def close(self) -> None:
        self._view = None

    def _must_be_writable(self) -> None:
        if not self._writable:
            raise OSError(errno.EBADF, "file was opened for reading only")


class _HeldLock:
    def __init__(self, held: set[Path], path: Path) -> None:
        self._held = held
        self._path = path
        held.add(path)

    def release(self) -> None:
        self._held.discard(self._path)


class FaultyDisk:
    """Implements ``pyromq.store.files.disk.Disk`` in memory; ``operations`` counts what changed something."""

    def __init__(self, *, capacity_bytes: int = 1 << 40, clock_ms: Callable[[], int] = lambda: 0) -> None:
        self._root = _Folder()
        self._locks: set[Path] = set()
        self._clock_ms = clock_ms
        self.capacity_bytes = capacity_bytes
        self.other_bytes = 0  # used by others on the same disk
        self.operations = 0
        self.log: list[str] = []
        self._crash_at = 0
        self._torn = False
        self._crashed = False
        self._errors: dict[int, int] = {}
        self._broken_syncs = False
        self._before: Callable[[str], None] | None = None

    # --- faults ---

    def crash_at(self, operation: int, *, torn: bool = False) -> None:
        """Stop at the n-th operation from the start; a torn write leaves its first half."""
        self._crash_at, self._torn = operation, torn

    def fail_at(self, operation: int, code: int = errno.EIO) -> None:
        """Let the n-th operation raise OSError with this errno (EIO, ENOSPC, …); a write leaves its first half."""
        self._errors[operation] = code

    def fail_syncs(self) -> None:
        """Every sync from now on raises EIO, as a dying disk does."""
        self._broken_syncs = True

    def before_each(self, hook: Callable[[str], None]) -> None:
        """Called with the kind of every operation before it happens: delay it, look at things, raise."""
        self._before = hook

    def after_crash(self, mode: CrashMode = CrashMode.FORGET, rng: Random | None = None) -> FaultyDisk:
        """Return the disk after power came back: no locks, no faults, and of un-flushed data what ``mode`` says."""
        disk = FaultyDisk(capacity_bytes=self.capacity_bytes, clock_ms=self._clock_ms)
        disk.other_bytes = self.other_bytes
        disk._root = self._root.survivor(mode, rng or Random(0))
        return disk

    def flip_bit(self, path: Path, bit: int) -> None:
        """Damage one bit of a file, on the medium."""
        contents = self._contents(path)
        contents.change(bit // 8, bytes([contents.seen[bit // 8] ^ 1 << bit % 8]))
        contents.sync()

    def files(self) -> list[Path]:
        """Every file on the disk."""
        return sorted(_walk(self._root, Path("/")))

    # --- the Disk protocol ---

    def open(self, path: Path, *, writable: bool = True) -> FaultyFile:
        return FaultyFile(self, self._contents(path), writable=writable)

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0, sync_folders: bool = True) -> FaultyFile:
        folder = self._make_folder(path.parent, sync=sync_folders)
        self._operation("create")
        self._need_space(reserve_bytes)
        contents = _Contents(size)
        contents.modified_ms = self._clock_ms()
        folder.seen[path.name] = contents
        return FaultyFile(self, contents)

    def exists(self, path: Path) -> bool:
        return self._node(path) is not None

    def is_folder(self, path: Path) -> bool:
        return isinstance(self._node(path), _Folder)

    def names(self, folder: Path) -> list[str]:
        node = self._node(folder)
        return sorted(node.seen) if isinstance(node, _Folder) else []

    def size_of(self, path: Path) -> int:
        return len(self._contents(path).seen)

    def resize(self, path: Path, size: int) -> None:
        self._operation("resize")
        self._contents(path).resize(size)

    def modified_ms(self, path: Path) -> int:
        return self._contents(path).modified_ms

    def read(self, path: Path) -> bytes:
        return bytes(self._contents(path).seen)

    def write(self, path: Path, data: bytes) -> None:
        folder = self._make_folder(path.parent)
        self._operation("create")
        self._need_space(len(data))
        contents = folder.seen.get(path.name)
        if not isinstance(contents, _Contents):
            contents = folder.seen[path.name] = _Contents()
        contents.resize(0)  # an existing file is cut in place: its old bytes are safe no longer
        self._write(contents, 0, data)
        self._operation("sync")
        contents.sync()

    def rename(self, old: Path, new: Path) -> None:
        source, target = self._folder(old.parent), self._folder(new.parent)
        if old.name not in source.seen:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(old))
        self._operation("rename")
        target.seen[new.name] = source.seen.pop(old.name)

    def remove(self, path: Path) -> None:
        self._operation("remove")
        removed = self._folder(path.parent).seen.pop(path.name, None)
        if isinstance(removed, _Contents):
            removed.is_removed = True

    def remove_folder(self, path: Path) -> None:
        self._operation("remove")
        folder = self._folder(path)
        if folder.seen:
            raise OSError(errno.ENOTEMPTY, "folder is not empty", str(path))
        del self._folder(path.parent).seen[path.name]

    def sync_folder(self, path: Path) -> None:
        self._operation("sync_folder")
        folder = self._folder(path)
        folder.durable = dict(folder.seen)

    def usage(self, path: Path) -> DiskUsage:
        used = self._used_bytes()
        return DiskUsage(self.capacity_bytes, used, max(0, self.capacity_bytes - used))

    def lock(self, path: Path) -> _HeldLock:
        if path in self._locks:
            raise StoreInUseError(f"{path.parent} is in use")
        if not self.exists(path):
            self.write(path, b"lock")
        return _HeldLock(self._locks, path)

    def is_locked(self, path: Path) -> bool:
        return path in self._locks

    # --- inside ---

    def _operation(self, kind: str) -> None:
        """Count one operation and let the fault that waits for it happen."""
        if self._crashed:
            raise Crashed
        self.operations += 1
        self.log.append(kind)
        if self._before is not None:
            self._before(kind)
        if self.operations == self._crash_at:
            self._crashed = True
            raise Crashed
        if code := self._errors.get(self.operations):
            raise OSError(code, f"simulated failure of operation {self.operations}")
        if self._broken_syncs and kind == "sync":
            raise OSError(errno.EIO, "simulated broken disk")

    def _write(self, contents: _Contents, at: int, data: bytes) -> None:
        try:
            self._operation("write")
            self._need_space(len(data))
        except Crashed:
            if self._torn:
                contents.change(at, data[: len(data) // 2])
            raise
        except OSError:
            contents.change(at, data[: len(data) // 2])
            raise
        contents.change(at, data)
        contents.modified_ms = self._clock_ms()

    def _need_space(self, size: int) -> None:
        if self._used_bytes() + size > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "simulated disk is full")

    def _used_bytes(self) -> int:
        if self.capacity_bytes >= 1 << 40:  # no test looks: counting would make every write slow
            return 0
        contents = [self._contents(path) for path in self.files()]
        return self.other_bytes + sum(len(each.written()) for each in contents)

    def _make_folder(self, path: Path, *, sync: bool = True) -> _Folder:
        node = self._node(path)
        if isinstance(node, _Folder):
            return node
        parent = self._make_folder(path.parent, sync=sync)
        self._operation("make_folder")
        folder = parent.seen[path.name] = _Folder()
        if sync:
            try:
                self.sync_folder(path.parent)
            except OSError:  # as the real disk does
                del parent.seen[path.name]
                raise
        return folder

    def _node(self, path: Path) -> _Contents | _Folder | None:
        node: _Contents | _Folder | None = self._root
        for part in path.parts[1:]:
            if not isinstance(node, _Folder):
                return None
            node = node.seen.get(part)
        return node

    def _folder(self, path: Path) -> _Folder:
        node = self._node(path)
        if not isinstance(node, _Folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path))
        return node

    def _contents(self, path: Path) -> _Contents:
        node = self._node(path)
        if not isinstance(node, _Contents):
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return node


def _walk(folder: _Folder, path: Path) -> Iterable[Path]:
    for name, node in folder.seen.items():
        if isinstance(node, _Folder):
            yield from _walk(node, path / name)
        else:
            yield path / name
