"""What a store needs from time to time: flush pacing, index, seals, retention, a look at the disk.

The owner calls ``tick`` every few hundred milliseconds; each duty knows when it is due. An owner with worker threads
hands in ``flush`` and ``seal`` that start the store's jobs there; otherwise they run where ``tick`` does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from pyromq.clock import Clock
from pyromq.store.disk import Disk
from pyromq.store.message_store import QUEUES_AT_ONCE, MessageStore
from pyromq.store.retention import DiskState, KeptFile, count_to_delete, disk_state
from pyromq.store.settings import Flush

logger = logging.getLogger(__name__)

_DISK_LOOK_MS = 1_000
_FILES_PER_SEAL = 512
_RETENTION_MS = 10_000
_FREE_BYTES_MIN = 16 << 20  # less free space than this does not count as "space has returned"


class Upkeep:
    """Duties of one open store."""

    def __init__(
        self,
        store: MessageStore,
        disk: Disk,
        clock: Clock,
        *,
        flush: Callable[[], object] | None = None,
        seal: Callable[[], object] | None = None,
    ) -> None:
        self._store, self._disk, self._clock = store, disk, clock
        self._flush, self._seal = flush or store.flush, seal or store.seal
        now = clock.monotonic_ms()
        self._flushed_at = self._sealed_at = self._retained_at = now
        self._looked_at = now - _DISK_LOOK_MS
        self.disk_state = DiskState.FINE

    def tick(self) -> None:
        now = self._clock.monotonic_ms()
        if now - self._looked_at >= _DISK_LOOK_MS:
            self._looked_at = now
            self._look_at_disk()
            self._store.note_flushed()
            self._delete_by_force()
        if self._store.settings.flush is Flush.ASYNC:
            self._flush_if_due(now)
        if self._store.health.writable:
            self._store.write_entries(QUEUES_AT_ONCE)
            self._store.index_keys(everything=False)
            self._seal_if_due(now)
        if now - self._retained_at >= _RETENTION_MS:
            self._retained_at = now
            self.delete_expired()

    def _look_at_disk(self) -> None:
        """Refuse writes on a disk that is about to be full, and accept them again when space has returned."""
        usage, settings, health = self._disk.usage(self._store.layout.root), self._store.settings, self._store.health
        self.disk_state = disk_state(usage.used_percent, settings)
        if self.disk_state is DiskState.FULL:
            health.disk_full(f"the disk is {usage.used_percent} % full (limit {settings.full_percent} %)")
        elif health.full and usage.free_bytes >= _FREE_BYTES_MIN and self._store.write_entries():
            health.space_returned()

    def _flush_if_due(self, now: int) -> None:
        settings, waiting = self._store.settings, self._store.log.unflushed_bytes
        since = now - self._flushed_at
        enough = waiting >= settings.flush_bytes_min and since >= settings.flush_interval_ms
        if self._store.health.trusted and waiting and (enough or since >= settings.flush_thorough_ms):
            self._flush()
            self._flushed_at = now

    def _seal_if_due(self, now: int) -> None:
        settings, new_bytes = self._store.settings, self._store.log.end - self._store.sealed_position
        due = now - self._sealed_at >= settings.seal_interval_ms
        if not due and new_bytes >= settings.seal_bytes:  # thousands of files are not synced every few seconds
            due = new_bytes >= settings.seal_bytes * self._store.dirty_files / _FILES_PER_SEAL
        if new_bytes and due:
            self._seal()
            self._sealed_at = now

    def _delete_by_force(self) -> None:
        """Delete the oldest files, expired or not, one after the other, until the disk has room again."""
        for _ in range(self._store.settings.delete_files_max):
            if self.disk_state not in (DiskState.FORCE_CLEAN, DiskState.FULL) or not self._store.delete_oldest(1):
                return
            self._look_at_disk()

    def delete_expired(self, *, at_any_hour: bool = False) -> int:
        """Delete commit log files by age and hour, then what was derived from them; returns how many."""
        store, now_ms, state = self._store, self._clock.now_ms(), self.disk_state
        if at_any_hour or state is not DiskState.FINE:
            state = DiskState.CLEAN  # what goes by force went when the disk was looked at
        files = [KeptFile(segment.path, self._disk.modified_ms(segment.path)) for segment in store.log.segments]
        hour = datetime.fromtimestamp(now_ms / 1000).astimezone().hour
        count = count_to_delete(files, now_ms=now_ms, local_hour=hour, state=state, settings=store.settings)
        return store.delete_oldest(count) if count else 0
