"""What is durable, and who says so: flushes of the log, seals, the note between two seals, deletions of topics.

A flush may run on a worker thread. While it does, nobody else syncs the log: the kernel reports a failed write-back
only once, and a second fsync that succeeds proves nothing. A seal therefore leaves the log to the flushes: it syncs
what is derived from the log, then waits until the log is flushed as far as it says, and only then is saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from pyromq.errors import StoreError, StoreReadOnlyError
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.indexer import Indexer
from pyromq.store.derived.key_index import KeyIndex
from pyromq.store.files.disk import Disk
from pyromq.store.files.health import Health
from pyromq.store.files.layout import Layout
from pyromq.store.log.commit_log import CommitLog, FlushJob
from pyromq.store.sealing.checkpoint import FlushedNote
from pyromq.store.sealing.seal import Seal
from pyromq.store.sealing.seal_job import SealFile, SealJob


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
        self._log = log
        self._queues = queues
        self._index = index
        self._indexer = indexer
        self._health = health
        self._disk = disk
        self._running: FlushJob | None = None
        self._note = FlushedNote(disk, layout.checkpoint)
        self._file = SealFile(disk, layout)
        self._sealed = Seal(position=0, index_position=0, clean=False)
        self._last_job: SealJob | None = None
        self._unsynced_folders: set[Path] = set()  # left by deleted topics

    # --- flushing ---

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
        if self._health.trusted:
            self._note.write(flushed, self._sealed.stored_ms)

    # --- sealing ---

    @property
    def sealed_position(self) -> int:
        return self._sealed.position

    def begin_seal(self, stored_ms: int) -> SealJob:
        """A seal of everything committed up to now, to be gathered."""
        job = SealJob(self._file, self._disk, self._log.end, stored_ms, self._queues.values())
        if self._last_job is not None and not self._last_job.is_synced:
            job.take_over(self._last_job)
        job.add_folders(self._unsynced_folders)
        self._unsynced_folders.clear()
        self._last_job = job
        return job

    def gather(self, job: SealJob, queues_max: int | None, *, clean: bool) -> bool:
        """Let some queues become part of a seal, behind the last one the index; True when it is whole. Raises OSError.

        When the index is gathered the log may have gone on, but no queue can know of more than it has then.
        """
        if not job.gather_queues(queues_max):
            return False
        job.gather_index(self._index, self._indexer.position, log_end=self._log.end, clean=clean)
        return True

    def seal_now(self, job: SealJob) -> bool:
        """Sync and save on this thread, while no flush is under way; False when the disk refuses."""
        try:
            self.flush()
            job.sync()
            return job.save() and self.seal_saved(job)
        except StoreReadOnlyError:
            return False
        except OSError as error:
            self.seal_failed(job, error)
            return False

    def seal_saved(self, job: SealJob) -> bool:
        """False when a deletion came between ``save`` and this call: what that has recorded is on disk, and counts."""
        assert job.seal is not None
        self._note.file_replaced(job.seal.durable_end)
        if not job.is_outdated:
            self._sealed = job.seal
        return not job.is_outdated

    def seal_failed(self, job: SealJob, error: OSError) -> None:
        if job.is_synced:
            self._health.failed_write("the seal", error)
        else:
            self._health.untrust(f"flushing queues or index failed: {error}")

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

    def sync_with_seal(self, folders: Iterable[Path]) -> None:
        """Names went from these folders: that has to be durable before a seal no longer speaks of their deletion."""
        self._unsynced_folders.update(folders)

    def close(self) -> None:
        self._note.close()
