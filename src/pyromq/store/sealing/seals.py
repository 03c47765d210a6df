"""Seals: how the store keeps recovery short. ``seal.py`` has what a seal says and what its words mean.

    begin ─▶ gather, some queues at a time ─▶ SealJob.sync ─▶ the log is flushed that far ─▶ SealJob.save ─▶ finish
    └ on the owner's thread ─────────────┘    └ on any ──┘                                   └ on any ──┘

A seal does not sync the log: while a flush runs, no other component may (``log/flushes.py``). It syncs what is derived
from the log, waits until the flushes have carried the log as far as the seal says, and only then is saved.

Between two seals there is the *note*: the flushed position, written into the checkpoint every second or so. Damage
before the noted position is the disk's fault, damage behind it is what a crash leaves.

A topic that is deleted is recorded in the seal on disk at once: else recovery would find its records in the log and
bring it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from pyromq.errors import StoreReadOnlyError
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.indexer import Indexer
from pyromq.store.files.disk import Disk
from pyromq.store.files.health import DiskHealth
from pyromq.store.files.layout import Layout
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.log.flushes import LogFlushes
from pyromq.store.sealing.checkpoint import FlushedNote
from pyromq.store.sealing.seal import Seal
from pyromq.store.sealing.seal_job import SealFile, SealJob


class Seals:
    """The last seal of an open store and the next one on its way; owned by the store, on its thread."""

    def __init__(
        self,
        log: CommitLog,
        queues: Mapping[tuple[str, int], ConsumeQueue],
        indexer: Indexer,
        flushes: LogFlushes,
        health: DiskHealth,
        disk: Disk,
        layout: Layout,
    ) -> None:
        self._log = log
        self._queues = queues
        self._indexer = indexer
        self._flushes = flushes
        self._health = health
        self._disk = disk
        self._note = FlushedNote(disk, layout.checkpoint)
        self._file = SealFile(disk, layout)
        self._sealed = Seal(position=0, index_position=0, clean=False)  # what the seal on disk says
        self._last_job: SealJob | None = None
        self._unsynced_folders: set[Path] = set()  # files of deleted topics were removed from these

    @property
    def position(self) -> int:
        """Recovery need not look at what the log has before this position."""
        return self._sealed.position

    def count_dirty_files(self) -> int:
        """Queue files that the next seal has to sync."""
        return sum([len(queue.dirty) for queue in self._queues.values()])

    # --- sealing on this thread ---

    def seal(self, *, clean: bool = False) -> bool:
        """Seal everything committed up to now; ``clean`` is for the end of a clean stop, with a complete index.

        False when the disk refuses, or while a flush runs on another thread.
        """
        if self._flushes.is_running:  # first: a job that is made but not done would leave files unsynced
            return False
        job = self.job(clean=clean)
        if job is None:
            return False
        try:
            self._flushes.flush()
            job.sync()
            return job.save() and self._saved(job)
        except StoreReadOnlyError:
            return False
        except OSError as error:
            self._failed(job, error)
            return False

    def job(self, *, clean: bool = False) -> SealJob | None:
        """A whole seal, gathered at once; None when the disk refuses."""
        if (clean and not self._indexer.index_all()) or (job := self.begin()) is None:
            return None
        try:
            self.gather(job, clean=clean)
        except StoreReadOnlyError:
            return None
        return job

    # --- sealing in steps, with a worker thread ---

    def begin(self) -> SealJob | None:
        """A seal of everything committed up to now, to be gathered; None when the disk is not trusted."""
        if not self._health.trusted:
            return None
        job = SealJob(self._file, self._disk, self._log.end, self._log.last_stored_ms, self._queues.values())
        if self._last_job is not None and not self._last_job.is_synced:
            job.take_over(self._last_job)
        job.add_folders(self._unsynced_folders)
        self._unsynced_folders.clear()
        self._last_job = job
        return job

    def gather(self, job: SealJob, queues_max: int | None = None, *, clean: bool = False) -> bool:
        """Make some queues part of a seal (thousands at once would hold up everything else); True when it is whole.

        Raises StoreReadOnlyError when the disk does not take what has to be written first: this seal comes to nothing.
        """
        try:
            self._log.wipe_remains()
            if not job.gather_queues(queues_max):
                return False
            # The log may have gone on since ``begin``, but no queue can know of more than it has now.
            job.gather_index(self._indexer.index, self._indexer.position, log_end=self._log.end, clean=clean)
        except OSError as error:
            raise self._health.failed_write("consume queues", error) from error
        return True

    def finish(self, job: SealJob, error: OSError | None) -> None:
        """The worker has saved the seal, or failed to sync or save it."""
        if error is None:
            self._saved(job)
        else:
            self._failed(job, error)

    def _saved(self, job: SealJob) -> bool:
        """False when a deletion came after ``save``: what that has recorded is on disk, and counts."""
        assert job.seal is not None
        self._note.file_replaced(job.seal.durable_end)
        if not job.is_outdated:
            self._sealed = job.seal
        return not job.is_outdated

    def _failed(self, job: SealJob, error: OSError) -> None:
        if job.is_synced:
            self._health.failed_write("the seal", error)
        else:
            self._health.untrust(f"flushing queues or index failed: {error}")

    # --- between two seals ---

    def note_flushed(self, position: int) -> None:
        """Let recovery know up to where the log is durable."""
        if self._health.trusted:
            self._note.write(position, self._sealed.stored_ms)

    def record_deletion(self, topic: str) -> None:
        """Keep recovery from bringing back what the log has of a topic up to now. Raises StoreReadOnlyError."""
        queues = {name: seals for name, seals in self._sealed.queues.items() if name.rpartition("/")[0] != topic}
        deleted = self._sealed.deleted | {topic: self._log.end}
        seal = msgspec.structs.replace(self._sealed, queues=queues, deleted=deleted)
        try:
            self._file.save_deletion(seal)
        except OSError as error:
            raise self._health.failed_write(f"the deletion of topic {topic}", error) from error
        self._sealed = seal

    def record_restart(self, topic: str, queue_id: int) -> None:
        """A queue begins anew: recovery finds what belongs to it behind the seal alone. Raises StoreReadOnlyError."""
        name = f"{topic}/{queue_id}"
        queues = {known: seals for known, seals in self._sealed.queues.items() if known != name}
        seal = msgspec.structs.replace(self._sealed, queues=queues)
        try:
            self._file.save_deletion(seal)
        except OSError as error:
            raise self._health.failed_write(f"the new beginning of queue {name}", error) from error
        self._sealed = seal

    def sync_later(self, folders: Iterable[Path]) -> None:
        """Names went from these folders: the next seal, which no longer speaks of their deletion, syncs them first."""
        self._unsynced_folders.update(folders)

    def close(self) -> None:
        self._note.close()
        self._sealed, self._last_job = msgspec.structs.replace(self._sealed, queues={}), None
