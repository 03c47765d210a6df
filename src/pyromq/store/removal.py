"""Commit log files on their way out.

Freeing a gigabyte takes a disk some tenths of a second, so it happens on a worker. The oldest goes first, and its name
is durably gone before the next one's turn: a gap would keep the store from opening.
"""

from __future__ import annotations

from collections import deque

from pyromq.store.disk import Disk
from pyromq.store.segments import Segment


class Removal:
    """Filled by the store's owner, emptied by ``run``, on one thread at a time."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._segments: deque[Segment] = deque()
        self.is_running = False

    @property
    def oldest(self) -> Segment | None:
        """The first file that is not gone yet."""
        return self._segments[0] if self._segments else None

    def add(self, segment: Segment) -> None:
        self._segments.append(segment)

    def run(self) -> None:
        """Raises OSError; what is left then is for the next run."""
        self.is_running = True
        try:
            while self._segments:
                segment = self._segments[0]
                self._disk.remove(segment.path)
                self._disk.sync_folder(segment.path.parent)
                self._segments.popleft()
                segment.close()
        finally:
            self.is_running = False

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
