"""The message store: one folder, one owner thread, synchronous.

    stage ─▶ stage ─▶ … ─▶ commit ──▶ commit log (one write per segment)
                             ├──────▶ consume queues (one write per queue)
                             └──────▶ keys wait for ``index_keys`` (in bulk, when there is time)
    flush ─▶ everything committed is durable: now, and not before, a sync-flush store shows it to readers

A reader never sees a record that a crash could take back (unless the store was opened with ``Flush.ASYNC``): otherwise
a consumer could commit an offset that another message gets after the crash, and never read that one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from pyromq.clock import Clock, SystemClock
from pyromq.errors import LocalProtocolError, StoreClosedError
from pyromq.model.names import validate_topic
from pyromq.store.checkpoint import Checkpoint, save_checkpoint
from pyromq.store.commit_log import CommitLog, FlushJob, TopicBytes
from pyromq.store.consume_queue import ENTRY_BYTES, ConsumeQueue
from pyromq.store.disk import Disk, DiskFile, DiskLock, RealDisk
from pyromq.store.dispatch import entry_tag
from pyromq.store.health import Health, cannot_open
from pyromq.store.key_index import IndexItem, KeyIndex
from pyromq.store.layout import Layout
from pyromq.store.queue_reader import QueueReader
from pyromq.store.recovery import Opened, Recovery
from pyromq.store.seal import Seal, save_seal
from pyromq.store.segments import SegmentList
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.properties import message_keys
from pyromq.wire.record import Draft, is_indexed, is_visible

logger = logging.getLogger(__name__)

LOOPBACK_HOST = b"\x7f\x00\x00\x01" + (10911).to_bytes(4, "big")
QUEUE_ID_MAX = 65_535


class Placed(NamedTuple):
    """Where a message lies: log address, ordinal in its queue, bytes. Acknowledge it after the flush."""

    position: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class SealJob:
    """Make everything up to ``seal.position`` durable, then say so: ``sync``, then ``save``, on any thread."""

    seal: Seal
    checkpoint: Checkpoint
    files: tuple[DiskFile, ...]
    disk: Disk
    layout: Layout

    def sync(self) -> None:
        for file in self.files:
            file.sync()

    def save(self) -> None:
        save_seal(self.disk, self.layout.root, self.seal)
        save_checkpoint(self.disk, self.layout.checkpoint, self.checkpoint)


class MessageStore:
    """Owns everything in its folder while open. Use as a context manager, or ``open`` and ``close``."""

    def __init__(
        self, layout: Layout, settings: StoreSettings, disk: Disk, clock: Clock, lock: DiskLock, opened: Opened
    ):
        self.layout, self.settings = layout, settings
        self._disk, self._clock, self._lock = disk, clock, lock
        self.log: CommitLog = opened.log
        self._queues = opened.queues
        self.index: KeyIndex = opened.index
        self.recovered = opened.report
        self.health = Health()
        self.reader = QueueReader(self.log, self._queues, self.index, settings, lambda: self.visible_end)
        self._topics: dict[str, TopicBytes] = {}
        self._touched: set[ConsumeQueue] = set()  # have staged entries
        self._behind: set[ConsumeQueue] = set()  # have entries that a full disk did not take
        self._staged_keys: list[tuple[str, bytes, int, int]] = []  # topic, properties, position, store time
        self._unindexed: list[tuple[str, bytes, int, int]] = []
        self.last_stored_ms = opened.report.last_stored_ms
        self.sealed_position = 0

    @classmethod
    def open(
        cls,
        root: Path,
        settings: StoreSettings | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        store_host: bytes = LOOPBACK_HOST,
    ) -> Self:
        """Open a folder, new or used, and recover what is in it. Raises StoreInUseError, LogGapError, DiskFullError."""
        settings, disk, clock = settings or StoreSettings(), disk or RealDisk(), clock or SystemClock()
        layout = Layout(Path(root))
        try:
            lock = disk.lock(layout.lock)
        except OSError as error:
            raise cannot_open(layout.root, error) from error
        try:
            recovery = Recovery(disk, layout.root, settings, clock, store_host)
            disk.write(layout.abort, str(os.getpid()).encode())
            disk.sync_folder(layout.root)
            store = cls(layout, settings, disk, clock, lock, recovery.run())
            store.seal()
        except OSError as error:
            lock.release()
            raise cannot_open(layout.root, error) from error
        except BaseException:
            lock.release()
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def queues(self) -> Mapping[tuple[str, int], ConsumeQueue]:
        return self._queues

    @property
    def visible_end(self) -> int:
        """Readers see records that end here or before."""
        asynchronous = self.settings.flush is Flush.ASYNC and self.health.trusted
        return self.log.end if asynchronous else self.log.flushed

    # --- appending ---

    def append(self, drafts: Iterable[Draft]) -> list[Placed]:
        """Stage and commit some messages; all are stored or none. They are durable after ``flush``."""
        try:
            placed = [self.stage(draft) for draft in drafts]
        except BaseException:
            self._drop_staged()
            raise
        self.commit()
        return placed

    def stage(self, draft: Draft) -> Placed:
        """Give a message its place. Nothing is stored before ``commit``; an error leaves what was staged as it is."""
        if not self.health.writable:
            raise self.health.error()
        topic, queue_id = draft.topic, draft.queue_id
        queue = self._queues.get((topic, queue_id)) or self._new_queue(topic, queue_id)
        topic_bytes = self._topics.get(topic) or self._topic_bytes(topic)
        visible, stored_ms = is_visible(draft.sys_flag), self._clock.now_ms()
        offset = queue.next_offset if visible else 0
        try:
            position, size = self.log.stage(draft, topic_bytes, offset, stored_ms)
        except OSError as error:  # the next segment could not be created; what is staged in the last one stands
            raise self.health.failed_write("a commit log file", error) from error
        if visible:
            tag = entry_tag(topic, draft.properties, stored_ms, self.settings.delay_ladder_ms)
            queue.stage(position, size, tag)
            self._touched.add(queue)
        if is_indexed(draft.sys_flag):
            self._staged_keys.append((topic, draft.properties, position, stored_ms))
        self.last_stored_ms = stored_ms
        return Placed(position, offset, size)

    def stage_batch(self, drafts: Sequence[Draft]) -> list[Placed]:
        """Stage messages of one batch: all of them or none, side by side in one segment."""
        if not self.health.writable:
            raise self.health.error()
        sizes = [
            self.log.size_of(draft, self._topics.get(draft.topic) or self._topic_bytes(draft.topic)) for draft in drafts
        ]
        try:
            self.log.reserve(sum(sizes))
        except OSError as error:
            raise self.health.failed_write("a commit log file", error) from error
        return [self.stage(draft) for draft in drafts]

    def commit(self) -> None:
        """Write what is staged. Raises DiskFullError or UntrustedDiskError, and then nothing of it is stored."""
        try:
            self.log.write_staged()
        except OSError as error:
            self._drop_staged()
            raise self.health.failed_write("the commit log", error) from error
        self._behind |= self._touched
        self._touched.clear()
        self._write_entries()  # if it fails the messages still count as stored: the log has them
        self._unindexed += self._staged_keys
        self._staged_keys.clear()
        if len(self._unindexed) >= self.settings.index_backlog_max:
            self.index_keys()

    def catch_up(self) -> bool:
        """Write queue entries and keys that a full disk kept waiting; True when none are left."""
        return self._write_entries() and self.index_keys()

    def _write_entries(self) -> bool:
        try:
            for queue in tuple(self._behind):
                queue.write_staged()
                self._behind.discard(queue)
        except OSError as error:
            self.health.failed_write("consume queues", error)
            return False
        return True

    def index_keys(self) -> bool:
        """Put the keys of committed messages in the index; True unless the disk refused (they go on waiting)."""
        items = [
            IndexItem(topic.encode(), message_keys(properties), position, stored_ms)
            for topic, properties, position, stored_ms in self._unindexed
        ]
        try:
            self.index.add(items)
        except OSError as error:
            self.health.failed_write("the key index", error)
            return False
        self._unindexed.clear()
        return True

    def _drop_staged(self) -> None:
        self.log.drop_staged()
        for queue in self._touched:
            queue.drop_staged()
        self._touched.clear()
        self._staged_keys.clear()

    def _topic_bytes(self, topic: str) -> TopicBytes:
        found = self._topics[topic] = TopicBytes(validate_topic(topic))
        return found

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        validate_topic(topic)
        if not 0 <= queue_id <= QUEUE_ID_MAX:
            raise LocalProtocolError(f"queue id {queue_id} of topic {topic} is outside [0, {QUEUE_ID_MAX}]")
        folder, bytes_per_file = self.layout.queue(topic, queue_id), self.settings.queue_file_entries * ENTRY_BYTES
        queue = ConsumeQueue(topic, queue_id, SegmentList(self._disk, folder, bytes_per_file, []))
        self._queues[topic, queue_id] = queue
        return queue

    # --- durability ---

    def flush(self) -> None:
        """Make everything committed durable, on this thread. Raises UntrustedDiskError."""
        if job := self.log.flush_job():
            try:
                job.run()
            except OSError as error:
                raise self.flush_failed(error) from error
            self.flush_done(job)

    def flush_job(self) -> FlushJob | None:
        """What a worker thread has to sync for all who wait now; hand it to ``flush_done`` or ``flush_failed``."""
        return self.log.flush_job() if self.health.trusted else None

    def flush_done(self, job: FlushJob) -> None:
        if self.health.trusted:
            self.log.flush_done(job)

    def flush_failed(self, error: OSError) -> Exception:
        """The error for everybody who waited; the store is read-only from now on."""
        return self.health.untrust(f"flushing the commit log from position {self.log.flushed} on failed: {error}")

    def seal_job(self, *, clean: bool = False) -> SealJob | None:
        """What a worker thread has to do to seal everything committed; None when queues or index lag behind."""
        if not self.health.trusted or not self.catch_up():
            return None
        log_job = self.log.flush_job()
        files = list(log_job.files) if log_job else []
        for queue in self._queues.values():
            files += [segment.file for segment in queue.dirty_segments()]
            queue.dirty.clear()
        for file in self.index.files:
            if file.dirty:
                files.append(file.file)
                file.dirty = False
        stored_ms, end = self.last_stored_ms, self.log.end
        seal = Seal(
            position=end,
            clean=clean,
            stored_ms=stored_ms,
            queues={f"{topic}/{queue_id}": queue.seals() for (topic, queue_id), queue in self._queues.items()},
            index=self.index.seals(closing=clean),
        )
        return SealJob(
            seal, Checkpoint(stored_ms, stored_ms, stored_ms, end, end), tuple(files), self._disk, self.layout
        )

    def seal(self, *, clean: bool = False) -> bool:
        """Seal on this thread, so that recovery need not look at anything committed up to now."""
        job = self.seal_job(clean=clean)
        if job is None:
            return False
        try:
            job.sync()
        except OSError as error:
            self.health.untrust(f"flushing failed: {error}")
            return False
        self.flush_done(FlushJob(job.seal.position, ()))
        try:
            job.save()
        except OSError as error:
            self.health.failed_write("the seal", error)
            return False
        self.sealed_position = job.seal.position
        return True

    # --- the end ---

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic; a topic made anew under this name starts at offset 0."""
        for key in [key for key in self._queues if key[0] == topic]:
            queue = self._queues.pop(key)
            self._behind.discard(queue)
            queue.remove_files()
            self._disk.remove_folder(self.layout.queue(*key))
        if self._disk.exists(self.layout.queues / topic):
            self._disk.remove_folder(self.layout.queues / topic)
        self._topics.pop(topic, None)
        self.seal()

    def delete_oldest(self, count: int) -> None:
        """Remove the oldest commit log files, never the one being written, and what was derived from them."""
        for _ in range(min(count, len(self.log.segments) - 1)):
            logger.info("commit log file deleted: path=%s", self.log.segments.first.path)
            self.log.segments.remove_first()
        for queue in self._queues.values():
            queue.forget_before(self.log.first)
        self.index.forget_before(self.log.first)

    def close(self) -> None:
        """Seal, mark the stop as clean and release the folder. A store that could not seal is left as after a crash."""
        if isinstance(self.health.error(), StoreClosedError):
            return
        self._drop_staged()
        if self.seal(clean=True):
            try:
                self._disk.remove(self.layout.abort)
                self._disk.sync_folder(self.layout.root)
            except OSError as error:
                self.health.failed_write("the end of the clean stop", error)
        if not self.health.writable:
            logger.error("store closed as after a crash: path=%s reason=%s", self.layout.root, self.health.error())
        self._release()

    def _release(self) -> None:
        self.health.close()
        self.log.segments.close()
        self.index.close()
        for queue in self._queues.values():
            queue.segments.close()
        self._lock.release()
