"""Segments: a folder of equally long files that together hold one long run of bytes.

Each file is a *segment*. It is named by its *base*, the number of its first byte in the run, as 20 decimal digits.
Files are created at their full size and read as zeros where nothing was written. The first file may start anywhere
(older ones were deleted); after it there is no gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pyromq.errors import LogGapError
from pyromq.store.files.disk import Disk, DiskFile

is_segment_name = re.compile(r"\d{20}").fullmatch


def segment_name(base: int) -> str:
    return f"{base:020d}"


class Segment:
    """One file of the run: bytes [base, end)."""

    __slots__ = ("_disk", "_file", "base", "end", "path", "size")

    def __init__(self, disk: Disk, path: Path, base: int, size: int, file: DiskFile | None = None) -> None:
        self._disk = disk
        self.path = path
        self.base = base
        self.size = size
        self.end = base + size
        self._file = file  # None until it is used

    def open_once(self) -> DiskFile:
        """The file; the first call opens it. Raises OSError."""
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    def is_in_place(self) -> bool:
        """False when another program removed, renamed or replaced the file. Raises OSError."""
        return self._disk.exists(self.path) if self._file is None else self._file.is_at(self.path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class SegmentList:
    """The files of one folder, oldest first; owned by the log or queue that writes it.

    The names of new files are durable before the files are used. Of *derived* files, which can be made again, they are
    durable when the owner has synced what ``take_unsynced_folders`` gave it.
    """

    def __init__(
        self, disk: Disk, folder: Path, segment_bytes: int, segments: list[Segment], *, derived: bool = False
    ) -> None:
        self._disk = disk
        self.folder = folder
        self.segment_bytes = segment_bytes
        self._segments = segments
        self._derived = derived
        self._is_synced = True  # False: names of derived files may not be durable

    @classmethod
    def load(cls, disk: Disk, folder: Path, segment_bytes: int, *, derived: bool = False) -> SegmentList:
        """What is in the folder. A last file that a crash left empty or short is made whole (with zeros)."""
        names = [name for name in disk.names(folder) if is_segment_name(name)]
        while names and disk.size_of(folder / names[-1]) == 0:
            disk.remove(folder / names.pop())
        segments: list[Segment] = []
        for name in names:
            path, base, size = folder / name, int(name), disk.size_of(folder / name)
            if size < segment_bytes and name == names[-1]:
                disk.resize(path, segment_bytes)
            elif size != segment_bytes:
                raise LogGapError(f"{path} has {size} bytes; every file there must have {segment_bytes}")
            if segments and segments[-1].end != base:
                raise LogGapError(f"{folder / segment_name(segments[-1].end)} is missing before {path.name}")
            segments.append(Segment(disk, path, base, segment_bytes))
        return cls(disk, folder, segment_bytes, segments, derived=derived)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def last(self) -> Segment:
        return self._segments[-1]

    @property
    def start(self) -> int:
        """The first byte of the run that is kept; 0 while there is none."""
        return self._segments[0].base if self._segments else 0

    def holding(self, at: int) -> Segment | None:
        """The segment with byte ``at`` of the run."""
        segments = self._segments
        if not segments:
            return None
        index = (at - segments[0].base) // self.segment_bytes
        return segments[index] if 0 <= index < len(segments) else None

    def get_or_create(self, at: int) -> Segment:
        """The segment with byte ``at``, which may be the one after the last. Raises OSError."""
        if segment := self.holding(at):
            return segment
        base = self._segments[-1].end if self._segments else at - at % self.segment_bytes
        assert base <= at < base + self.segment_bytes, f"{at} does not follow {base}"
        path = self.folder / segment_name(base)
        file = self._disk.create(path, self.segment_bytes, sync_folders=not self._derived)
        if self._derived:
            self._is_synced = False
        else:
            self._disk.sync_folder(self.folder)
        segment = Segment(self._disk, path, base, self.segment_bytes, file)
        self._segments.append(segment)
        return segment

    def take_unsynced_folders(self) -> list[Path]:
        """Folders in which files were made since the last call: the queue's, its topic's and the one of all topics.

        The caller has to sync them: the next call does not name them again.
        """
        is_synced, self._is_synced = self._is_synced, True
        return [] if is_synced else [self.folder, *self.folder.parents[:2]]

    def take_first(self) -> Segment:
        """Take the oldest segment out of the list; it belongs to the caller from now on, file and all."""
        return self._segments.pop(0)

    def remove_first(self) -> None:
        """On OSError the file is still there, and still listed."""
        self._remove(0)

    def remove_from(self, at: int) -> None:
        """Remove every file that starts at ``at`` or later."""
        while self._segments and self._segments[-1].base >= at:
            self._remove(-1)

    def remove_all(self) -> None:
        """Remove every file, without a sync of the folder: any of them may be there again after a crash."""
        while self._segments:
            self._remove(-1, sync=False)

    def _remove(self, number: int, *, sync: bool = True) -> None:
        self._disk.remove(self._segments[number].path)
        self._segments.pop(number).close()
        if sync:
            self._disk.sync_folder(self.folder)

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
