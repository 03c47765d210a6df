"""What is durable, and who says so: flushes of the log, seals, the note between two seals, deletions of topics.

A flush may run on a worker thread. While it does, nobody else syncs the log: the kernel reports a failed write-back
only once, and a second fsync that succeeds proves nothing. A seal therefore leaves the log to the flushes. It has two
steps for a worker, ``sync`` of derived files and ``save`` of the seal, and between them waits until the log is flushed
as far as the seal says. Before that its owner gathers what it says of the queues, in steps, since there may be many.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pyromq.errors import StoreError, StoreReadOnlyError
from pyromq.store.checkpoint import Checkpoint, note_flushed, save_checkpoint
from pyromq.store.commit_log import CommitLog, FlushJob
from pyromq.store.consume_queue import ConsumeQueue, QueueSeal
from pyromq.store.disk import Disk, DiskFile
from pyromq.store.health import Health
from pyromq.store.indexer import Indexer
from pyromq.store.key_index import KeyIndex
from pyromq.store.layout import Layout
from pyromq.store.seal import Seal, save_seal

logger = logging.getLogger(__name__)


class SealFile:
    """The seal on disk; one writer at a time, and a deletion makes seals that were decided before it worthless."""

    def __init__(self, disk: Disk, layout: Layout) -> None:
        self._disk, self._layout = disk, layout
        self._lock = threading.Lock()
        self._position = 0
        self.generation = 0

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
        with self._lock:
            self.generation += 1
            save_seal(self._disk, self._layout.root, seal)


class SealJob:
    """One seal on its way: gathered by its owner; then, on any thread, ``sync``, and ``save`` once the log is flushed.

    How far it must be flushed is in ``seal``, which is there when everything is gathered.
    """

    def __init__(self, file: SealFile, disk: Disk, position: int, stored_ms: int, queues: deque[ConsumeQueue]) -> None:
        self._file, self._disk, self._generation = file, disk, file.generation
        self.position, self.stored_ms = position, stored_ms
        self.to_gather = queues
        self.queues: dict[str, list[QueueSeal]] = {}
        self.files: list[DiskFile] = []
        self.folders: set[Path] = set()
        self.seal: Seal | None = None
        self.is_synced = False

    @property
    def is_outdated(self) -> bool:
        """True when a topic was deleted since it was decided."""
        return self._generation != self._file.generation

    def sync(self) -> None:
        for file in self.files:
            try:
                file.sync()
            except OSError as error:
                if error.errno != errno.EBADF:  # else it was removed meanwhile, with its topic or by retention
                    raise
        for folder in sorted(self.folders):
            with contextlib.suppress(FileNotFoundError):  # its topic was deleted: the seal is worthless
                self._disk.sync_folder(folder)
        self.is_synced = True

    def save(self) -> bool:
        assert self.seal is not None
        ms, end = self.stored_ms, self.seal.durable_end
        return self._file.save(self.seal, Checkpoint(ms, ms, ms, end, end), self._generation)


class Durability:
    """Owned by the store, on its thread."""

    def __init__(
        self,
        log: CommitLog,
        queues: Mapping[tuple[str, int], ConsumeQueue],
        index: KeyIndex,
        indexer: Indexer,
        health: Health,
        disk: Disk,
        layout: Layout,
    ) -> None:
        self._log, self._queues, self._index, self._indexer = log, queues, index, indexer
        self._health, self._disk, self._layout = health, disk, layout
        self._file = SealFile(disk, layout)
        self._running: FlushJob | None = None
        self._sealed = Seal(position=0, index_position=0, clean=False)
        self._last_job: SealJob | None = None
        self._noted = 0
        self._checkpoint_file: DiskFile | None = None

    # --- flushing ---

    @property
    def sealed_position(self) -> int:
        return self._sealed.position

    @property
    def is_flushing(self) -> bool:
        return self._running is not None

    def flush(self) -> None:
        """Make everything written durable, on this thread. Raises UntrustedDiskError."""
        if not self._health.trusted:
            raise self._health.error()
        if self._running is not None:
            raise StoreError("a flush is under way on another thread; wait for it")
        job = self.flush_job()
        if job is None:
            return
        try:
            job.run()
        except OSError as error:
            raise self.flush_failed(error) from error
        self.flush_done(job)

    def flush_job(self) -> FlushJob | None:
        """What has to be synced for all who wait now; None when everything is durable, or nothing can be any more."""
        assert self._running is None, "one flush at a time"
        self._running = self._log.flush_job() if self._health.trusted else None
        return self._running

    def flush_done(self, job: FlushJob) -> bool:
        """True when it counts: the store may have become untrusted in the meantime."""
        self._running = None
        if not self._health.trusted:
            return False
        self._log.flush_done(job)
        return True

    def flush_failed(self, error: Exception) -> StoreReadOnlyError:
        """The error for everybody who waited; the store is read-only from now on."""
        self._running = None
        return self._health.untrust(f"flushing the log from position {self._log.flushed} on failed: {error}")

    def notice_failure(self) -> None:
        """If the flush under way has failed already, do not wait to be told."""
        if self._running is not None and (error := self._running.error) is not None:
            self.flush_failed(error)

    def note_flushed(self, flushed: int) -> None:
        """Let recovery know, between two seals, up to where the log is durable."""
        ms = self._sealed.stored_ms
        if flushed <= self._noted or not self._health.trusted:
            return
        try:
            if self._checkpoint_file is None:
                self._checkpoint_file = self._disk.open(self._layout.checkpoint)
            # RocketMQ trusts queues and index up to the times in there: only a seal moves those.
            note_flushed(self._checkpoint_file, Checkpoint(ms, ms, ms, flushed, flushed))
        except OSError as error:
            logger.warning("flushed position not noted: reason=%s", error)
        self._noted = flushed

    # --- sealing ---

    def begin_seal(self, stored_ms: int) -> SealJob:
        """A seal of everything committed up to now, to be gathered."""
        job = SealJob(self._file, self._disk, self._log.end, stored_ms, deque(self._queues.values()))
        if self._last_job is not None and not self._last_job.is_synced:  # this seal speaks for those files too
            job.files, job.folders = list(self._last_job.files), set(self._last_job.folders)
        self._last_job = job
        return job

    def gather(self, job: SealJob, queues_max: int | None, *, clean: bool) -> bool:
        """Write what some queues are owed and note it down; True when that was the rest. Raises OSError."""
        for _ in range(len(job.to_gather) if queues_max is None else min(queues_max, len(job.to_gather))):
            queue = job.to_gather[0]
            queue.write_owed()
            job.files += [segment.file for segment in queue.dirty_segments()]
            job.folders.update(queue.segments.unsynced_folders())
            job.queues[f"{queue.topic}/{queue.queue_id}"] = queue.seals()
            queue.dirty.clear()
            job.to_gather.popleft()
        if not job.to_gather:
            self._gather_index(job, clean=clean)
        return job.seal is not None

    def _gather_index(self, job: SealJob, *, clean: bool) -> None:
        """The index may lag behind."""
        for file in self._index.files:
            if file.dirty:
                job.files.append(file.file)
                file.dirty = False
        job.seal = Seal(
            position=job.position,
            index_position=self._indexer.position,
            clean=clean,
            stored_ms=job.stored_ms,
            queues=job.queues,
            index=self._index.seals(closing=clean),
            flushed=self._log.end,
        )

    def seal_now(self, job: SealJob) -> bool:
        """Both steps on this thread, while no flush is under way; False when the disk refuses."""
        try:
            self.flush()
            job.sync()
        except StoreReadOnlyError:
            return False
        except OSError as error:
            self.seal_not_synced(error)
            return False
        try:
            saved = job.save()
        except OSError as error:
            self.seal_not_saved(error)
            return False
        return saved and self.seal_saved(job)

    def seal_saved(self, job: SealJob) -> bool:
        self._close_checkpoint()  # a new file took its name
        if job.is_outdated:  # saved, but a deletion was faster: what that has recorded is on disk
            return False
        assert job.seal is not None
        self._sealed, self._noted = job.seal, job.seal.durable_end  # a note that went beyond was in the old file
        return True

    def seal_not_synced(self, error: OSError) -> None:
        self._health.untrust(f"flushing queues or index failed: {error}")

    def seal_not_saved(self, error: OSError) -> None:
        self._health.failed_write("the seal", error)

    def record_deletion(self, topic: str) -> None:
        """Recovery shall not bring back what the log has of a topic up to now. Raises StoreReadOnlyError."""
        queues = {name: seals for name, seals in self._sealed.queues.items() if name.rpartition("/")[0] != topic}
        deleted = self._sealed.deleted | {topic: self._log.end}
        seal = msgspec.structs.replace(self._sealed, queues=queues, deleted=deleted)
        try:
            self._file.save_deletion(seal)
        except OSError as error:
            raise self._health.failed_write(f"the deletion of topic {topic}", error) from error
        self._sealed = seal

    def close(self) -> None:
        self._close_checkpoint()

    def _close_checkpoint(self) -> None:
        if self._checkpoint_file is not None:
            self._checkpoint_file.close()
            self._checkpoint_file = None
