"""Seal job: one seal on its way to disk, while appends go on.

    gather the queues, then the index (owner) ─▶ ``sync`` ─▶ wait until the log is flushed that far ─▶ ``save``

To *gather* a queue is to write what it is owed and to take down what its files hold. There may be many queues, so they
are gathered in steps. ``sync`` and ``save`` are for a worker thread.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from pyromq.store.derived.consume_queue import ConsumeQueue, QueueSeal
from pyromq.store.derived.key_index import KeyIndex
from pyromq.store.files.disk import Disk, DiskFile
from pyromq.store.files.layout import Layout
from pyromq.store.sealing.checkpoint import Checkpoint, save_checkpoint
from pyromq.store.sealing.seal import Seal, save_seal


class SealFile:
    """The seal on disk; one writer at a time. A deleted topic makes seals worthless that were begun before."""

    def __init__(self, disk: Disk, layout: Layout) -> None:
        self._disk = disk
        self._layout = layout
        self._lock = threading.Lock()
        self._position = 0  # of the seal on disk
        self.generation = 0  # moved by each deletion of a topic

    def save(self, seal: Seal, checkpoint: Checkpoint, generation: int) -> bool:
        """False when the seal is out of date. Raises OSError."""
        with self._lock:
            if generation != self.generation or seal.position < self._position:
                return False
            save_seal(self._disk, self._layout.root, seal)
            save_checkpoint(self._disk, self._layout.checkpoint, checkpoint)
            self._position = seal.position
            return True

    def save_deletion(self, seal: Seal) -> None:
        """What was sealed last, without a topic. Raises OSError."""
        with self._lock:
            self.generation += 1
            save_seal(self._disk, self._layout.root, seal)


class SealJob:
    """One seal, from the first queue gathered to the file on disk."""

    def __init__(
        self, file: SealFile, disk: Disk, position: int, stored_ms: int, queues: Iterable[ConsumeQueue]
    ) -> None:
        self._file = file
        self._disk = disk
        self._generation = file.generation  # a later one makes this seal worthless
        self._position = position
        self._stored_ms = stored_ms
        self._to_gather = deque(queues)
        self._queues: dict[str, list[QueueSeal]] = {}  # what was gathered, by "topic/queue id"
        self._files: list[DiskFile] = []  # to be synced, and so are the folders
        self._folders: set[Path] = set()
        self.seal: Seal | None = None  # there when everything is gathered
        self.is_synced = False

    @property
    def is_outdated(self) -> bool:
        """True when a topic was deleted since the job was made."""
        return self._generation != self._file.generation

    # --- on the owner's thread ---

    def take_over(self, earlier: SealJob) -> None:
        """Sync what an earlier seal gathered and has not synced: this one speaks for those files too."""
        self._files += earlier._files
        self._folders |= earlier._folders

    def add_folders(self, folders: Iterable[Path]) -> None:
        """Sync these too, as far as they exist."""
        self._folders.update(folders)

    def gather_queues(self, queues_max: int | None = None) -> bool:
        """Gather some queues; True when none is left. Raises OSError."""
        waiting = len(self._to_gather)
        for _ in range(waiting if queues_max is None else min(queues_max, waiting)):
            queue = self._to_gather[0]
            queue.write_owed()
            self._files += [segment.open_once() for segment in queue.dirty_segments()]
            self._folders.update(queue.segments.take_unsynced_folders())
            self._queues[f"{queue.topic}/{queue.queue_id}"] = queue.seals()
            queue.dirty.clear()
            self._to_gather.popleft()
        return not self._to_gather

    def gather_index(self, index: KeyIndex, index_position: int, *, log_end: int, clean: bool) -> None:
        """The last thing to gather; the index may lag behind, and queues have nothing from ``log_end`` on."""
        for file in index.files:
            if file.dirty:
                self._files.append(file.file)
                file.dirty = False
        self.seal = Seal(
            position=self._position,
            index_position=index_position,
            clean=clean,
            stored_ms=self._stored_ms,
            queues=self._queues,
            index=index.seals(closing=clean),
            flushed=log_end,
        )

    # --- on any thread ---

    def sync(self) -> None:
        """Make durable what the seal says of queues and index. Raises OSError."""
        for file in self._files:
            try:
                file.sync()
            except OSError as error:
                if error.errno != errno.EBADF:  # else it was removed meanwhile, with its topic or by retention
                    raise
        for folder in sorted(self._folders):
            with contextlib.suppress(FileNotFoundError):  # removed with its topic
                self._disk.sync_folder(folder)
        self.is_synced = True

    def save(self) -> bool:
        """False when a deletion or a newer seal came first. Raises OSError."""
        assert self.seal is not None
        ms, end = self._stored_ms, self.seal.durable_end
        return self._file.save(self.seal, Checkpoint(ms, ms, ms, end, end), self._generation)
