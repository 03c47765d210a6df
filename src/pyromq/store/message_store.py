"""The message store: one folder, one owner thread, synchronous.

    stage ─▶ stage ─▶ … ─▶ commit ──▶ commit log (one write per segment)
                             ├──────▶ queue entries, which are owed to their files for a while
                             └──────▶ keys wait to be indexed in bulk, when there is time
    flush ─▶ everything committed is durable: now, and not before, a sync-flush store shows it to readers

A reader never sees a record that a crash could take back (unless the store was opened with ``Flush.ASYNC``): otherwise
a consumer could commit an offset that another message gets after the crash, and never read that one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from pyromq.clock import Clock, SystemClock
from pyromq.errors import LocalProtocolError, StoreClosedError, StoreReadOnlyError
from pyromq.model.names import validate_topic
from pyromq.store.derived.consume_queue import ENTRY_BYTES, ConsumeQueue
from pyromq.store.derived.entry_backlog import EntryBacklog
from pyromq.store.derived.entry_tag import entry_tag
from pyromq.store.derived.indexer import Indexer
from pyromq.store.derived.key_index import KeyIndex
from pyromq.store.files.disk import Disk, DiskLock, RealDisk
from pyromq.store.files.health import Health, cannot_open
from pyromq.store.files.layout import Layout
from pyromq.store.files.segments import SegmentList
from pyromq.store.log.commit_log import CommitLog, FlushJob, TopicBytes
from pyromq.store.queue_reader import QueueReader
from pyromq.store.recovery import Opened, Recovery
from pyromq.store.removal import Removal
from pyromq.store.sealing.durability import Durability
from pyromq.store.sealing.seal_job import SealJob
from pyromq.store.settings import Flush, StoreSettings
from pyromq.wire.batch import BatchItem
from pyromq.wire.flags import TRANSACTION_MASK, SysFlag
from pyromq.wire.record import Draft

logger = logging.getLogger(__name__)

LOOPBACK_HOST = b"\x7f\x00\x00\x01" + (10911).to_bytes(4, "big")
QUEUE_ID_MAX = 65_535
QUEUES_AT_ONCE = 256  # whose entries are written in one go; the others wait for the next
_COMMIT, _ROLLBACK = int(SysFlag.COMMIT), int(SysFlag.ROLLBACK)  # plain ints: IntFlag arithmetic is slow


class Placed(msgspec.Struct, frozen=True, gc=False):
    """Where a message lies: log address, ordinal in its queue, bytes. Acknowledge it after the flush."""

    position: int
    offset: int
    size: int


class MessageStore:
    """Owns everything in its folder while open. Use as a context manager, or ``open`` and ``close``."""

    def __init__(
        self, layout: Layout, settings: StoreSettings, disk: Disk, clock: Clock, lock: DiskLock, opened: Opened
    ):
        self.layout = layout
        self.settings = settings
        self._disk = disk
        self._clock = clock
        self._lock = lock
        self.log: CommitLog = opened.log
        self._queues = opened.queues
        self.index: KeyIndex = opened.index
        self.recovered = opened.report
        self.health = Health()
        self.reader = QueueReader(self.log, self._queues, self.index, settings, lambda: self.visible_end)
        self._topics: dict[str, TopicBytes] = {}
        self._indexer = Indexer(self.index, self.log, opened.index_from, settings.index_backlog_max)
        self._ladder_ms = settings.delay_ladder_ms
        self._commit_ms = 0  # one store time for everything staged together
        self.last_stored_ms = opened.report.last_stored_ms
        self.removal = Removal(disk, self.log, self._queues, self.index)
        self._durability = Durability(self.log, self._queues, self.index, self._indexer, self.health, disk, layout)
        self._backlog = EntryBacklog(settings.entry_backlog_max, self._durability.note_flushed)

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
        except BaseException:  # the folder must not stay locked; raised again
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
        if self._backlog.staged or self._indexer.staged:
            raise LocalProtocolError("others have staged messages: commit them first")
        try:
            placed = [self.stage(draft) for draft in drafts]
        except BaseException:  # all are stored or none; raised again
            self._drop_staged()
            raise
        self.commit()
        return placed

    def stage(self, draft: Draft) -> Placed:
        """Give a message its place. Nothing is stored before ``commit``; an error leaves what was staged as it is."""
        if not self.health.writable:
            raise self.health.error()
        topic, properties = draft.topic, draft.properties
        queue = self._queues.get((topic, draft.queue_id)) or self._new_queue(topic, draft.queue_id)
        topic_bytes = self._topics.get(topic) or self._topic_bytes(topic)
        stored_ms = self._commit_ms or self._clock.now_ms()
        transaction = draft.sys_flag & TRANSACTION_MASK
        visible = not transaction or transaction == _COMMIT
        offset = queue.next_offset if visible else 0
        try:
            position, size = self.log.stage(draft, topic_bytes, offset, stored_ms)
        except OSError as error:  # the next segment could not be created; what is staged in the last one stands
            raise self.health.failed_write("a commit log file", error) from error
        self._commit_ms = stored_ms
        if visible:
            if not queue.next_offset:
                self._queues[topic, draft.queue_id] = queue  # not before the log took its first message
            queue.stage(position, size, entry_tag(topic, properties, stored_ms, self._ladder_ms))
            self._backlog.staged.add(queue)
        if transaction != _ROLLBACK:
            self._indexer.staged.append((topic_bytes.key_prefix, properties, position, stored_ms))
        return Placed(position, offset, size)

    def stage_batch(self, shared: Draft, items: Sequence[BatchItem]) -> list[Placed]:
        """Stage messages of one batch: all of them or none, side by side in one segment.

        ``shared`` has everything but their bodies, properties and flags.
        """
        if not self.health.writable:
            raise self.health.error()
        if shared.sys_flag & TRANSACTION_MASK or not items:
            raise LocalProtocolError("a batch has messages, and is not part of a transaction")
        topic, queue_id = shared.topic, shared.queue_id
        queue = self._queues.get((topic, queue_id)) or self._new_queue(topic, queue_id)
        topic_bytes = self._topics.get(topic) or self._topic_bytes(topic)
        stored_ms, offset = self._commit_ms or self._clock.now_ms(), queue.next_offset
        try:
            places = self.log.stage_batch(shared, items, topic_bytes, offset, stored_ms)
        except OSError as error:
            raise self.health.failed_write("a commit log file", error) from error
        self._commit_ms = stored_ms
        ladder_ms, prefix, keys, stage_entry = (
            self._ladder_ms,
            topic_bytes.key_prefix,
            self._indexer.staged,
            queue.stage,
        )
        placed = []
        for item, (position, size) in zip(items, places, strict=True):
            properties = item.properties
            stage_entry(position, size, entry_tag(topic, properties, stored_ms, ladder_ms) if properties else 0)
            keys.append((prefix, properties, position, stored_ms))
            placed.append(Placed(position, offset, size))
            offset += 1
        self._queues[topic, queue_id] = queue
        self._backlog.staged.add(queue)
        return placed

    def commit(self) -> None:
        """Write what is staged. Raises DiskFullError or UntrustedDiskError, and then nothing of it is stored."""
        self._durability.notice_failure()
        if not self.health.trusted:
            self._drop_staged()
            raise self.health.error()
        try:
            self.log.write_staged()
        except OSError as error:
            self._drop_staged()
            raise self.health.failed_write("the commit log", error) from error
        if self._backlog.commit():
            self.write_entries(QUEUES_AT_ONCE)  # if that fails, messages still count as stored
        self.last_stored_ms, self._commit_ms = self._commit_ms or self.last_stored_ms, 0
        if self._indexer.commit():
            self.index_keys(everything=False)  # after a crash there may be seconds of work

    def write_entries(self, queues_max: int | None = None) -> bool:
        """Write queue entries of committed messages; False when the disk refuses (they go on waiting).

        Of all queues, or of those whose turn it is: thousands at once would make everybody else wait.
        """
        try:
            self.log.wipe_remains()
            self._backlog.write(queues_max)
        except OSError as error:
            self.health.failed_write("consume queues", error)
            return False
        return True

    def index_keys(self, *, everything: bool = True) -> bool:
        """Index the keys of committed messages, all or a part; False when the disk refuses (they go on waiting)."""
        try:
            if everything:
                self._indexer.finish()
            else:
                self._indexer.work()
        except OSError as error:
            self.health.failed_write("the key index", error)
            return False
        return True

    @property
    def index_gap_bytes(self) -> int:
        """How much of the log ``find`` would have to index first, because a crash or a bad disk took that away."""
        return self._indexer.gap_bytes

    def find(self, topic: str, key: str, *, count_max: int = 64, begin_ms: int = 0, end_ms: int = 1 << 62) -> list[int]:
        """Positions of messages with a key stored in [begin_ms, end_ms], newest first, the latest included."""
        self.index_keys()
        return self.reader.find(topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms)

    def _drop_staged(self) -> None:
        self.log.drop_staged()
        self._backlog.drop_staged()
        self._indexer.drop_staged()
        self._commit_ms = 0

    def _topic_bytes(self, topic: str) -> TopicBytes:
        found = self._topics[topic] = TopicBytes(validate_topic(topic))
        return found

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        validate_topic(topic)
        if not 0 <= queue_id <= QUEUE_ID_MAX:
            raise LocalProtocolError(f"queue id {queue_id} of topic {topic} is outside [0, {QUEUE_ID_MAX}]")
        folder, bytes_per_file = self.layout.queue(topic, queue_id), self.settings.queue_file_entries * ENTRY_BYTES
        return ConsumeQueue(topic, queue_id, SegmentList(self._disk, folder, bytes_per_file, [], derived=True))

    # --- durability ---

    @property
    def dirty_files(self) -> int:
        """Queue files that the next seal has to sync."""
        return sum([len(queue.dirty) for queue in self._queues.values()])

    @property
    def sealed_position(self) -> int:
        return self._durability.sealed_position

    def flush(self) -> None:
        """Make everything committed durable, on this thread. Raises UntrustedDiskError."""
        self._durability.flush()

    def flush_job(self) -> FlushJob | None:
        """What a worker thread has to sync for all who wait now; hand it to ``flush_done`` or ``flush_failed``."""
        return self._durability.flush_job()

    def flush_done(self, job: FlushJob) -> bool:
        """True when it counts; False when the store became untrusted in the meantime."""
        return self._durability.flush_done(job)

    def flush_failed(self, error: Exception) -> StoreReadOnlyError:
        """The error for everybody who waited; the store is read-only from now on."""
        return self._durability.flush_failed(error)

    def note_flushed(self) -> None:
        """Let recovery know up to where the log is durable, between two seals; call it every second or so.

        Queue entries come first: should the log lose something up to there, they tell which offsets were given. So it
        is noted when ``write_entries`` has written all queues that are behind now.
        """
        self._backlog.note_behind(self.log.flushed)

    def begin_seal(self) -> SealJob | None:
        """A seal of everything committed, for a worker, once ``gather_seal`` says that it is complete.

        ``sync``, then ``save`` once the log is flushed as far as the seal says. None when the disk is not trusted.
        """
        return self._durability.begin_seal(self.last_stored_ms) if self.health.trusted else None

    def gather_seal(self, job: SealJob, queues_max: int | None = None, *, clean: bool = False) -> bool:
        """Let some queues become part of a seal: thousands at once would make everybody wait; True when all are.

        Raises StoreReadOnlyError when the disk does not take what has to be written first: this seal comes to nothing.
        """
        try:
            self.log.wipe_remains()
            return self._durability.gather(job, queues_max, clean=clean)
        except OSError as error:
            raise self.health.failed_write("consume queues", error) from error

    def seal_job(self, *, clean: bool = False) -> SealJob | None:
        """A whole seal at once; None when the disk refuses. After a clean stop the index is complete."""
        if (clean and not self.index_keys()) or (job := self.begin_seal()) is None:
            return None
        try:
            self.gather_seal(job, clean=clean)
        except StoreReadOnlyError:
            return None
        return job

    def seal_done(self, job: SealJob, error: OSError | None) -> None:
        """A worker saved a seal, or failed to sync or save it."""
        if error is None:
            self._durability.seal_saved(job)
        else:
            self._durability.seal_failed(job, error)

    def seal(self, *, clean: bool = False) -> bool:
        """Seal on this thread, so that recovery need not look at anything committed up to now.

        False when the disk refuses, or while a flush is under way on another thread.
        """
        if self._durability.is_flushing:  # first: a job that is made but not done would leave files unsynced
            return False
        job = self.seal_job(clean=clean)
        return job is not None and self._durability.seal_now(job)

    # --- the end ---

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic; a topic made anew under this name starts at offset 0.

        Raises StoreReadOnlyError when the deletion cannot be recorded, and then nothing was deleted. That the files are
        gone need not be durable before the next seal: until then an opening knows from the record what to drop.
        """
        if self._backlog.staged:
            raise LocalProtocolError("others have staged messages: commit them first")
        self._durability.record_deletion(topic)
        self._topics.pop(topic, None)
        for key in [key for key in self._queues if key[0] == topic]:
            queue = self._queues.pop(key)
            queue.forget_all()  # it may stand in line for a write or a seal
            self._remove_files(queue.segments.folder, queue.segments)
        self._remove_files(self.layout.queues / topic)

    def _remove_files(self, folder: Path, files: SegmentList | None = None) -> None:
        """Remove files of a deleted topic, and their folder if nothing else is in it. What the disk refuses is left."""
        try:
            if files is not None:
                files.remove_all()
            if self._disk.exists(folder) and not self._disk.names(folder):
                self._disk.remove_folder(folder)
        except OSError as error:
            logger.warning("files of a deleted topic are left: folder=%s reason=%s", folder, error)
        self._durability.sync_with_seal([folder, folder.parent])

    def delete_oldest(self, count: int) -> int:
        """Take the oldest files out of the log; returns how many. ``removal.run`` frees their space, on any thread.

        Only files that are sealed go: recovery could not tell how far their queues had come. The file being written
        always stays.
        """
        segments, taken = self.log.segments, 0
        while taken < count and len(segments) > 1 and segments.first.end <= self.sealed_position:
            segment = segments.take_first()
            logger.info("commit log file deleted: path=%s", segment.path)
            self.removal.add(segment)
            taken += 1
        return taken

    def close(self) -> None:
        """Seal, mark the stop as clean and release the folder. A store that could not seal is left as after a crash."""
        if isinstance(self.health.error(), StoreClosedError):
            return
        self._drop_staged()
        clean = self.seal(clean=True)
        if clean:
            try:
                self._disk.remove(self.layout.abort)
                self._disk.sync_folder(self.layout.root)
            except OSError as error:
                self.health.failed_write("the end of the clean stop", error)
                clean = False
        if not clean:
            logger.error("store closed as after a crash: path=%s reason=%s", self.layout.root, self.health.error())
        self._release()

    def _release(self) -> None:
        self.health.close()
        self._durability.close()
        self.removal.close()
        self.log.segments.close()
        self.index.close()
        for queue in self._queues.values():
            queue.segments.close()
        self._lock.release()
