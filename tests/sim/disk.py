"""The disk of a simulated machine: it may be full, fail to sync, or stop its machine in the middle of an operation."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from pyromq.store.files.disk import DiskUsage
from pyromq.testing.faulty_disk import CrashMode, FaultyDisk, _Contents, _Folder
from pyromq.testing.sparse_bytes import Sparse, zeroes


class SimDisk(FaultyDisk):
    """``FaultyDisk`` with switches instead of numbers of operations."""

    def __init__(self) -> None:
        super().__init__()
        self._clock_ms = lambda: int(time.time() * 1000)  # of the machine whose process writes
        self.is_full = False
        self.is_quota = False  # that is used up: the disk itself has room, so nothing is deleted to make some
        self.needs_restart = False  # a sync has failed: what is opened on it never trusts it again
        self.on_operation: Callable[[str], None] = lambda kind: None

    def after(self, mode: CrashMode, rng: Random) -> SimDisk:
        disk = SimDisk()
        disk._root = self._root.survivor(mode, rng)
        return disk

    def fail_syncs(self) -> None:
        super().fail_syncs()
        self.needs_restart = True

    def mend(self) -> None:
        self.is_full = self.needs_restart = False
        self._broken_syncs = False

    def durable_bytes(self, path: Path) -> Sparse:
        """What a machine would find in that file after it lost power now; empty when there would be none."""
        return self.durable_at(path.parts[1:])

    def durable_at(self, parts: tuple[str, ...]) -> Sparse:
        node: _Contents | _Folder | None = self._root
        for part in parts:
            node = node.durable.get(part) if isinstance(node, _Folder) else None
        return node.durable if isinstance(node, _Contents) else zeroes(0)

    def used_bytes(self, path: Path) -> int:
        return self._contents(path).used

    def usage(self, path: object) -> DiskUsage:
        total = 1 << 40
        used = total if self.is_full and not self.is_quota else total // 100
        return DiskUsage(total, used, total - used)

    def _need_space(self, size: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "simulated disk is full")

    def _operation(self, kind: str) -> None:
        self.operations += 1
        self.on_operation(kind)
        if self._broken_syncs and kind == "sync":
            raise OSError(errno.EIO, "simulated broken disk")
