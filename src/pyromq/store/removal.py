"""Removal of files: segments of the commit log that retention deleted, and the queue files of deleted topics.

    taken out of the log ─▶ removed from the disk (``run``) ─▶ forgotten by queues and index (``trim_queues``)

Freeing a gigabyte takes a disk some tenths of a second, so it happens on a worker. The oldest segment goes first, and
its name is durably gone before the next one goes: a gap would keep the store from opening. A file that is still on the
disk may be part of the log again after a crash, so until it is gone its entries stay too.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pyromq.errors import StoreError
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.key_index import KeyIndex
from pyromq.store.files.disk import Disk
from pyromq.store.files.segments import Segment, SegmentList
from pyromq.store.log.commit_log import CommitLog

logger = logging.getLogger(__name__)


class Removal:
    """Belongs to the store's owner; only ``run`` may be called on another thread, one call at a time."""

    def __init__(
        self, disk: Disk, log: CommitLog, queues: Mapping[tuple[str, int], ConsumeQueue], index: KeyIndex
    ) -> None:
        self._disk = disk
        self._log = log
        self._queues = queues
        self._index = index
        self._segments: deque[Segment] = deque()  # taken out of the log, still on the disk; oldest first
        self._is_running = False
        self._to_trim: deque[ConsumeQueue] = deque()  # may have entries about records before ``_trimmed_to``
        self._trimmed_to = log.first

    @property
    def oldest(self) -> Segment | None:
        """The first file that is not gone yet."""
        try:
            return self._segments[0]
        except IndexError:  # looking first whether there is one would not help: ``run`` takes them away
            return None

    @property
    def is_done(self) -> bool:
        """Whether no file waits for its removal, and every queue has forgotten those that are gone."""
        return self.oldest is None and not self._to_trim and self._trimmed_to == self._log.first

    @property
    def is_trimming(self) -> bool:
        """Whether queues wait for ``trim_queues``."""
        return bool(self._to_trim)

    def add(self, segment: Segment) -> None:
        """A file that the log has given up."""
        self._segments.append(segment)

    def start(self, elsewhere: Callable[[Callable[[], None]], object]) -> None:
        """Hand ``run`` to ``elsewhere``, which calls it soon, unless there is nothing to do or it is being done."""
        if self._segments and not self._is_running:
            self._is_running = True
            elsewhere(self.run)

    def run(self) -> None:
        """Remove the files from the disk. Raises OSError; what is left then is for the next run."""
        self._is_running = True
        try:
            while self._segments:
                segment = self._segments[0]
                self._disk.remove(segment.path)
                self._disk.sync_folder(segment.path.parent)
                self._segments.popleft()
                segment.close()
        finally:
            self._is_running = False

    def trim_queues(self, queues_max: int | None = None) -> None:
        """Let queues, some at a time, and then the index forget the files that are gone. Raises StoreError."""
        oldest = self.oldest
        first = oldest.base if oldest is not None else self._log.first
        if first > self._trimmed_to and not self._to_trim:
            self._to_trim, self._trimmed_to = deque(self._queues.values()), first
        try:
            for _ in range(len(self._to_trim) if queues_max is None else min(queues_max, len(self._to_trim))):
                self._to_trim.popleft().forget_before(self._trimmed_to)
            if not self._to_trim:
                self._index.forget_before(self._trimmed_to)
        except OSError as error:
            raise StoreError(f"an expired file could not be removed: {error}") from error

    def remove_topic(self, folder: Path, queues: Iterable[ConsumeQueue]) -> set[Path]:
        """Remove the files of a deleted topic, as far as the disk lets it; the folders from which names went."""
        touched: set[Path] = set()
        for queue in queues:
            touched |= self._remove_folder(queue.segments.folder, queue.segments)
        return touched | self._remove_folder(folder)

    def _remove_folder(self, folder: Path, files: SegmentList | None = None) -> set[Path]:
        try:
            if files is not None:
                files.remove_all()
            if self._disk.exists(folder) and not self._disk.names(folder):
                self._disk.remove_folder(folder)
        except OSError as error:
            logger.warning("files of a deleted topic are left: folder=%s reason=%s", folder, error)
        return {folder, folder.parent}

    def close(self) -> None:
        for segment in self._segments:
            segment.close()
        self._to_trim.clear()
