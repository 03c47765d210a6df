"""The real disk without fsync: what a test writes need not survive a power cut, and virtual time need not wait for it.

Everything else is as on the real disk: another broker that opens the folder finds all that was written.
"""

from __future__ import annotations

from pathlib import Path

from pyromq.store.files.disk import RealDisk, RealFile


class _UnsyncedFile(RealFile):
    def sync(self) -> None:
        pass


class UnsyncedDisk(RealDisk):
    """Disk whose files are never synced (``pyromq.store.files.disk.Disk``)."""

    def open(self, path: Path, *, writable: bool = True) -> RealFile:
        return _UnsyncedFile(path, writable=writable)

    def create(self, path: Path, size: int, *, reserve_bytes: int = 0, sync_folders: bool = True) -> RealFile:
        super().create(path, size, reserve_bytes=reserve_bytes, sync_folders=sync_folders).close()
        return _UnsyncedFile(path)

    def write(self, path: Path, data: bytes) -> None:
        self._make_folder(path.parent)
        path.write_bytes(data)

    def sync_folder(self, path: Path) -> None:
        pass
