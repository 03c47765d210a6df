"""Maintenance of an open store: asynchronous flushes, indexing, seals, retention, watching the disk.

The owner calls ``tick`` every few hundred milliseconds; each duty knows when it is due. An owner with worker threads
hands in ``flush``, ``seal`` and ``elsewhere``, which start the store's jobs there; otherwise they run in ``tick``
itself. Where there may be thousands of queues, some are served in each tick.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from itertools import islice

from pyromq.clock import Clock
from pyromq.store.files.disk import Disk
from pyromq.store.files.segments import Segment
from pyromq.store.log.retention import DiskState, KeptFile, count_to_delete, disk_state
from pyromq.store.message_store import MessageStore
from pyromq.store.scrub import Scrub
from pyromq.store.settings import Flush
from pyromq.store.unread import NoGroups, StoreReaders, Unread, UnreadCount

logger = logging.getLogger(__name__)

_DISK_LOOK_MS = 1_000
_FILES_PER_SEAL = 512
_RETENTION_MS = 10_000
_QUEUES_PER_TICK = 64  # more would cost broker and disk more than entries in files are worth
_FREE_BYTES_MIN = 16 << 20  # less free space than this does not count as "space has returned"


class Maintenance:
    """Duties of one open store."""

    def __init__(
        self,
        store: MessageStore,
        disk: Disk,
        clock: Clock,
        *,
        flush: Callable[[], object] | None = None,
        seal: Callable[[], object] | None = None,
        elsewhere: Callable[[Callable[[], None]], object] | None = None,
        needed_from: Callable[[], int] | None = None,
        groups: StoreReaders | None = None,
    ) -> None:
        """``needed_from`` gives the position of the oldest record that is still needed, however old it is.

        ``groups`` knows who reads the queues: no message goes that some group has not read, without its being reported.
        """
        self._store = store
        self._disk = disk
        self._clock = clock
        self._flush = flush or store.flush
        self._seal = seal or store.seal
        self._elsewhere = elsewhere or _here
        self._needed_from = needed_from or (lambda: store.end_position)
        self._groups: StoreReaders = groups or NoGroups()
        self._counting: UnreadCount | None = None  # of what is about to be deleted
        self._counts_for_force = False  # and whether by force
        self._unread_file = -1  # base of the last file that was kept for the sake of groups
        self._unread_until_ms = 0  # and when to look again
        self._needed_file = -1  # base of the last file that was kept for that reason
        self._at_any_hour = False  # an operator asked for a deletion, and it waits for a seal
        now = clock.monotonic_ms()
        self._flushed_at = now
        self._sealed_at = now
        self._retained_at = now  # when expired files were looked for
        self._looked_at = now - _DISK_LOOK_MS  # when the disk was looked at
        self._looked_for = -1  # number of the file that was looked for last
        self.disk_state = DiskState.FINE
        self.scrub = Scrub(store, disk, clock, self._elsewhere)

    @property
    def has_work(self) -> bool:
        """Whether something is done in parts, tick by tick, and is not finished."""
        store = self._store
        if self._counting is not None or store.has_backlog or store.removal.is_trimming:
            return True
        return store.settings.flush is Flush.ASYNC and bool(store.log.unflushed_bytes)

    def tick(self) -> None:
        now = self._clock.monotonic_ms()
        if now - self._looked_at >= _DISK_LOOK_MS:
            self._looked_at = now
            self._look_at_disk()
            self._look_for_files()
            self._store.note_flushed()
            self._delete_by_force()
            self._store.removal.start(self._elsewhere)  # of what could not be removed the last time
            if self._at_any_hour:
                self.delete_expired()
        elif self._counting is not None:
            self._delete_by_force()
            self.delete_expired()
        if self._store.settings.flush is Flush.ASYNC:
            self._flush_if_due(now)
        if self._store.health.writable:
            self._store.write_entries(_QUEUES_PER_TICK)
            self._store.indexer.index_some()
            self._seal_if_due(now)
        if now - self._retained_at >= _RETENTION_MS:
            self._retained_at = now
            self.delete_expired()
        self._store.removal.trim_queues(_QUEUES_PER_TICK)
        self.scrub.tick()

    def _look_at_disk(self) -> None:
        """Refuse writes on a disk that is about to be full, and accept them again when space has returned."""
        usage, settings, health = self._disk.usage(self._store.layout.root), self._store.settings, self._store.health
        self.disk_state = disk_state(usage.used_percent, settings)
        if self.disk_state is DiskState.FULL:
            health.disk_full(f"the disk is {usage.used_percent} % full (limit {settings.full_percent} %)")
        elif health.full and usage.free_bytes >= _FREE_BYTES_MIN and self._store.write_entries():
            health.space_returned()

    def _look_for_files(self) -> None:
        """Stop writing when another program took the file that is written, or, one in each look, an older one."""
        segments = list(self._store.log.segments)
        if not segments or not self._store.health.trusted:
            return
        self._looked_for = (self._looked_for + 1) % len(segments)
        for segment in {segments[-1], segments[self._looked_for]}:
            try:
                if not segment.is_in_place():
                    self._store.health.untrust(
                        f"commit log file {segment.path} was removed or renamed by another program"
                    )
                    return
            except OSError as error:
                logger.error("commit log file not seen: path=%s reason=%s", segment.path, error)

    def _flush_if_due(self, now: int) -> None:
        settings, waiting = self._store.settings, self._store.log.unflushed_bytes
        since = now - self._flushed_at
        enough = waiting >= settings.flush_bytes_min and since >= settings.flush_interval_ms
        if self._store.health.trusted and waiting and (enough or since >= settings.flush_thorough_ms):
            self._flush()
            self._flushed_at = now

    def _seal_if_due(self, now: int) -> None:
        new_bytes = self._store.end_position - self._store.seals.position
        if not new_bytes:
            return
        settings = self._store.settings
        due = now - self._sealed_at >= settings.seal_interval_ms
        if not due and new_bytes >= settings.seal_bytes:  # thousands of files are not synced every few seconds
            due = new_bytes >= settings.seal_bytes * self._store.seals.count_dirty_files() / _FILES_PER_SEAL
        if due:
            self._seal()
            self._sealed_at = now

    def _delete_by_force(self) -> None:
        """Delete the oldest files, expired or not, one after the other, until the disk has room again."""
        store = self._store
        for _ in range(store.settings.delete_files_max):
            if self.disk_state not in (DiskState.FORCE_CLEAN, DiskState.FULL):
                self._stop_counting(forced=True)
                return
            if store.removal.oldest is not None or len(store.log.segments) < 2:
                return
            oldest, needed_from = store.log.segments.first, self._needed_from()
            if oldest.end > needed_from and not store.settings.delete_unread:  # sends are refused instead
                self._keep_needed(oldest, "file kept on a disk that is too full")
                return
            if not self._delete_counted(1, forced=True):
                return
            if oldest.end > needed_from:
                logger.error("disk too full, a file is deleted with delayed messages in it: file=%s", oldest.path.name)
            self._look_at_disk()

    def delete_expired(self, *, at_any_hour: bool = False) -> int:
        """Delete commit log files by age and hour; returns how many. Those not sealed yet go at a later tick."""
        store, now_ms, state = self._store, self._clock.now_ms(), self.disk_state
        self._at_any_hour |= at_any_hour
        if self._at_any_hour or state is not DiskState.FINE:
            state = DiskState.CLEAN  # files that have not expired were deleted when the disk was looked at
        files = [KeptFile(segment.path, self._disk.modified_ms(segment.path)) for segment in store.log.segments]
        hour = datetime.fromtimestamp(now_ms / 1000).astimezone().hour
        count = count_to_delete(files, now_ms=now_ms, local_hour=hour, state=state, settings=store.settings)
        count = self._without_needed(count)
        if not count:
            self._at_any_hour = False  # the operator's wish is fulfilled: later files wait for their hour
            self._stop_counting(forced=False)
        if not count or (self._counting is not None and self._counts_for_force):
            return 0
        deleted = self._delete_counted(count, forced=False)
        self._at_any_hour &= deleted < count
        return deleted

    def _without_needed(self, count: int) -> int:
        """How many of the first ``count`` files, which expired, can go: those before the first that is still needed."""
        needed_from = self._needed_from()
        for number, segment in enumerate(islice(self._store.log.segments, count)):
            if segment.end > needed_from:
                self._keep_needed(segment, "expired file kept")
                return number
        return count

    def _keep_needed(self, file: Segment, what: str) -> None:
        """Say so once for each file."""
        if file.base != self._needed_file:
            self._needed_file = file.base
            logger.warning("%s, delayed messages wait in it: file=%s", what, file.path.name)

    def _delete_counted(self, count: int, *, forced: bool) -> int:
        """Delete the oldest files, once it is known who has not read them; returns how many, 0 while that is counted.

        What is not sealed yet is sealed now and goes next time.
        """
        store = self._store
        if not store.settings.delete_unread:
            count = min(1, count)  # each by itself: the first may have been read, the next not
        files = list(islice(store.log.segments, min(count, len(store.log.segments) - 1)))
        if files and files[-1].end > store.seals.position:
            self._seal()
            files = [segment for segment in files if segment.end <= store.seals.position]
        if not files or self._clock.monotonic_ms() < self._unread_until_ms:
            return 0
        unread = self._unread_before(files[-1].end, forced=forced)
        if unread is None:
            return 0
        if not store.settings.delete_unread and any(each.group for each in unread):
            self._keep(files[0], unread)
            return 0
        deleted = store.delete_oldest(len(files))
        store.removal.start(self._elsewhere)
        if unread:
            self._groups.deleted(unread, forced=forced)
        return deleted

    def _stop_counting(self, *, forced: bool) -> None:
        if self._counts_for_force is forced:
            self._counting = None

    def _unread_before(self, end: int, *, forced: bool) -> list[Unread] | None:
        """What groups have not read of the log up to ``end``; None while it is being counted, some in each tick."""
        store, counting = self._store, self._counting
        if counting is None or counting.first != store.log.first or counting.end != end:
            readers, self._counts_for_force = self._groups.readers(), forced
            counting = self._counting = UnreadCount(store.queues.values(), readers, store.log.first, end)
        counting.advance()
        if not counting.is_done:
            return None
        self._counting = None
        return counting.found()

    def _keep(self, file: Segment, unread: list[Unread]) -> None:
        """Say so once for each file, and look again after a while."""
        self._unread_until_ms = self._clock.monotonic_ms() + _RETENTION_MS
        if file.base != self._unread_file:
            self._unread_file = file.base
            self._groups.kept([each for each in unread if each.group], file.path.name)


def _here(job: Callable[[], None]) -> None:
    try:
        job()
    except OSError as error:
        logger.error("expired files could not be removed: reason=%s", error)
