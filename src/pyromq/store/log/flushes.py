"""Flushes of the commit log: one fsync makes everything durable that was written before it (group commit).

    ``start`` (owner's thread) ─▶ ``FlushJob.run`` (any thread) ─▶ ``finish`` or ``fail`` (owner's thread)

What is written while a flush runs is for the next one. There is one flush at a time, and while it runs no other
component syncs the log: the kernel reports a failed write-back only once, so a second fsync that succeeds proves
nothing. After a failed flush no later one is believed either, and the store stays read-only until it is opened again.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from pyromq.errors import StoreError, StoreReadOnlyError
from pyromq.store.files.disk import DiskFile
from pyromq.store.files.health import DiskHealth
from pyromq.store.log.commit_log import CommitLog


@dataclass(slots=True)
class FlushJob:
    """One flush: when it has run, the log is durable up to ``end``."""

    end: int
    files: tuple[DiskFile, ...]
    error: OSError | None = None  # seen at once, before the owner's thread is notified

    def run(self) -> None:
        """Flush the files. Raises OSError, also when another program removed a file: what it held is not durable, but
        gone.
        """
        try:
            for file in self.files:
                file.sync()
                if file.is_removed():
                    raise FileNotFoundError(errno.ENOENT, "another program removed the commit log file")
        except OSError as error:
            self.error = error
            raise


class LogFlushes:
    """Starts and concludes flushes; moves the flushed position of the log. Owned by the store, on its thread."""

    def __init__(self, log: CommitLog, health: DiskHealth) -> None:
        self._log = log
        self._health = health
        self._running: FlushJob | None = None

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def flush(self) -> None:
        """Make everything written durable, on this thread. Raises UntrustedDiskError."""
        if not self._health.trusted:
            raise self._health.error()
        if self._running is not None:
            raise StoreError("a flush is running on another thread: wait until it has finished")
        job = self.start()
        if job is None:
            return
        try:
            job.run()
        except OSError as error:
            raise self.fail(error) from error
        self.finish(job)

    def start(self) -> FlushJob | None:
        """A flush of everything written up to now; None when all of it is durable, or nothing can be any more."""
        assert self._running is None, "one flush at a time"
        if self._log.flushed < self._log.end and self._health.trusted:
            self._running = FlushJob(self._log.end, self._log.unflushed_files())
        return self._running

    def finish(self, job: FlushJob) -> bool:
        """The job has run. False when it does not count, because the store became untrusted in the meantime."""
        self._running = None
        if not self._health.trusted:
            return False
        self._log.flushed = max(self._log.flushed, job.end)
        return True

    def fail(self, error: Exception) -> StoreReadOnlyError:
        """The job failed: the store is read-only from now on, and this is the error for every waiting sender."""
        self._running = None
        return self._health.untrust(f"flushing the log from position {self._log.flushed} on failed: {error}")

    def notice_failure(self) -> None:
        """Act on a failure of the running job before its result reaches the owner's thread."""
        if self._running is not None and (error := self._running.error) is not None:
            self.fail(error)
