"""The message store: one folder, one owner thread, synchronous.

    stage ─▶ stage ─▶ … ─▶ commit ──▶ commit log (one write per segment)
                             ├──────▶ queue entries, owed to their files for a while
                             └──────▶ keys, which wait to be indexed in bulk
    flush ─▶ everything committed is durable: now, and not before, a sync-flush store shows it to consumers

The words:

- The *commit log* has every message as a *record*. It is one long run of bytes in files of one size, its *segments*.
  The *position* of a record is the number of its first byte in that run.
- A *queue* is a part of a topic; the *offset* of a message is its number in its queue. A *queue entry* says at which
  position the message of an offset lies. Entries and keys are *derived*: what is lost of them is computed again from
  the log.
- *Staged* is in memory only, with position and offset. *Committed* is written to the log; a crash may take it back.
  *Flushed* is durable. A queue entry is *owed* from the commit of its record until it is written to its file.
- The *visible end* is the position up to which consumers see records. A consumer never sees a record that a crash could
  take back (unless the store was opened with ``Flush.ASYNC``): otherwise it could commit an offset that another message
  gets after the crash, and never read that one.
- A *seal* says up to which position log, queues and index are durable, so that recovery need not look at what lies
  before it. A *note* between two seals says up to which position the log alone is.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from pyromq.clock import Clock, SystemClock
from pyromq.compiled_core import SendLane
from pyromq.errors import InvalidNameError, LocalProtocolError, StoreClosedError
from pyromq.model.names import validate_topic
from pyromq.store.copied_log import CopiedLog
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.entry_backlog import EntryBacklog
from pyromq.store.derived.entry_tag import entry_tag
from pyromq.store.derived.indexer import Indexer
from pyromq.store.derived.key_index import KeyIndex
from pyromq.store.derived.queue_tail import QueueTail
from pyromq.store.files.disk import Disk, DiskLock, RealDisk
from pyromq.store.files.health import DiskHealth, cannot_open
from pyromq.store.files.layout import Layout
from pyromq.store.files.segments import Segment
from pyromq.store.key_search import WORK_NOW_MAX, KeySearch
from pyromq.store.log.commit_log import WORTH_NO_COPY, CommitLog, TopicBytes
from pyromq.store.log.flushes import LogFlushes
from pyromq.store.log.log_reader import LogReader
from pyromq.store.queue_reader import QueueReader
from pyromq.store.recovery import Opened, Recovery
from pyromq.store.recovery_report import RecoveryProgress
from pyromq.store.relisting import relist
from pyromq.store.removal import Removal
from pyromq.store.sealing.seals import Seals
from pyromq.store.settings import Flush, StoreSettings
from pyromq.store.tables.steps import all_steps
from pyromq.wire.batch import Batch
from pyromq.wire.fast.record_batch import Places
from pyromq.wire.flags import TRANSACTION_MASK, SysFlag
from pyromq.wire.record import Draft, RecordFound

logger = logging.getLogger(__name__)

LOOPBACK_HOST = b"\x7f\x00\x00\x01" + (10911).to_bytes(4, "big")
QUEUE_ID_MAX = 65_535
QUEUES_AT_ONCE = 256  # whose entries are written in one go; the others wait for the next
EVERYTHING = 1 << 63  # a position that no log reaches
_ASYNC = Flush.ASYNC  # to look up a member of an enum costs a call, and every read asks
_COMMIT, _ROLLBACK = int(SysFlag.COMMIT), int(SysFlag.ROLLBACK)  # plain ints: IntFlag arithmetic is slow


class Placed(msgspec.Struct, frozen=True, gc=False):
    """Where a message lies: position in the log, offset in its queue, bytes. Acknowledge it after the flush."""

    position: int
    offset: int
    size: int


class EncodingLimits(NamedTuple):
    """Limits of one message that is encoded elsewhere: its body, bodies worth copying, its record, its keys in the
    index.
    """

    body_bytes_max: int
    copied_bytes_max: int
    record_bytes_max: int
    keys_max: int


class MessageStore:
    """Owns everything in its folder while open. Use as a context manager, or ``open`` and ``close``.

    The store itself takes messages and deletes topics. Its public parts do the rest, each on the owner's thread:

    - ``reader`` shows queues to consumers, up to the visible end; ``records`` reads the log by position, flushed or
      not;
    - ``flushes`` and ``seals`` make things durable with the help of worker threads (``flush`` and ``seal`` of the store
      need none);
    - ``copies`` takes over what another broker's log has, instead of messages of clients;
    - ``indexer`` brings waiting keys into the index; ``removal`` frees the space of deleted files;
    - ``health`` says whether the store can be written, and why not;
    - ``queues`` lists the queues there are; ``recovered`` is the report of recovery; ``settings`` and ``layout`` say
      how and where.

    ``log`` and ``index`` are for modules of this package and their tests.
    """

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
        self.health = DiskHealth()
        self.visible_max = EVERYTHING  # consumers see nothing behind it: what replicas do not have yet
        self.records = LogReader(self.log)
        self.reader = QueueReader(self.log, self.records, self._queues, settings, self.health, lambda: self.visible_end)
        self.indexer = Indexer(self.index, self.log, self.health, opened.index_from, settings.index_backlog_max)
        self.key_search = KeySearch(self.indexer, self.log, self.records, lambda: self.visible_end)
        self.flushes = LogFlushes(self.log, self.health)
        self.seals = Seals(self.log, self._queues, self.indexer, self.flushes, self.health, disk, layout)
        self.removal = Removal(disk, self.log, self._queues, self.index)
        self._backlog = EntryBacklog(settings.entry_backlog_max, self.seals.note_flushed)
        self.copies = CopiedLog(
            self.log, self._queues, self._backlog, self.indexer, self.seals, self.health, self._new_queue
        )
        self._topics: dict[str, TopicBytes] = {}  # encoded once for all records of a topic
        self._ladder_ms = self.copies.ladder_ms = settings.delay_ladder_ms
        self._commit_ms = 0  # the store time of everything staged together; 0 when nothing is

    @classmethod
    def open(
        cls,
        root: Path,
        settings: StoreSettings | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        store_host: bytes = LOOPBACK_HOST,
        progress: RecoveryProgress | None = None,
    ) -> Self:
        """Open a folder, new or used, and recover what is in it. Raises StoreInUseError, LogGapError, DiskFullError."""
        settings, disk, clock = settings or StoreSettings(), disk or RealDisk(), clock or SystemClock()
        layout = Layout(Path(root))
        try:
            lock = disk.lock(layout.lock)
        except OSError as error:
            raise cannot_open(layout.root, error) from error
        try:
            recovery = Recovery(disk, layout.root, settings, clock, store_host, progress)
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

    # --- positions ---

    def log_segments(self) -> list[Segment]:
        """Files of the log, the oldest first; for a look at them."""
        return list(self.log.segments)

    @property
    def first_position(self) -> int:
        """Where the oldest record starts that the log still has."""
        return self.log.first

    @property
    def end_position(self) -> int:
        """Where the last committed record ends, and the next one will start."""
        return self.log.end

    @property
    def flushed_position(self) -> int:
        """Records that end here or before are durable."""
        return self.log.flushed

    @property
    def unflushed_bytes(self) -> int:
        """How much of the log a power cut could take."""
        return self.log.end - self.log.flushed

    @property
    def readable_end(self) -> int:
        """Consumers may see records that end here or before, for all that the disk knows."""
        asynchronous = self.settings.flush is _ASYNC and self.health.trusted
        return self.log.end if asynchronous else self.log.flushed

    @property
    def visible_end(self) -> int:
        """Consumers see records that end here or before."""
        end, most = self.readable_end, self.visible_max
        return end if end < most else most

    @property
    def last_stored_ms(self) -> int:
        """Store time of the newest record."""
        return self.log.last_stored_ms

    # --- appending ---

    def append(self, drafts: Iterable[Draft]) -> list[Placed]:
        """Stage and commit some messages; all are stored or none. They are durable after ``flush``."""
        if self._backlog.line.has_staged or self.indexer.staged:
            raise LocalProtocolError("staged messages of others are not committed yet: commit them first")
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
            self._backlog.add(queue)
        if transaction != _ROLLBACK:
            self.indexer.staged.append((topic_bytes.key_prefix, properties, position, stored_ms))
        return Placed(position, offset, size)

    def stage_batch(self, shared: Draft, batch: Batch) -> Places:
        """Stage messages of one batch: all of them or none, side by side in one segment.

        ``shared`` has everything but their bodies, properties and flags.
        """
        if not self.health.writable:
            raise self.health.error()
        if shared.sys_flag & TRANSACTION_MASK or not batch.bodies:
            raise LocalProtocolError("a batch needs at least one message, and cannot be part of a transaction")
        topic, queue_id = shared.topic, shared.queue_id
        queue = self._queues.get((topic, queue_id)) or self._new_queue(topic, queue_id)
        topic_bytes = self._topics.get(topic) or self._topic_bytes(topic)
        stored_ms = self._commit_ms or self._clock.now_ms()
        try:
            places = self.log.stage_batch(shared, batch, topic_bytes, queue.next_offset, stored_ms)
        except OSError as error:
            raise self.health.failed_write("a commit log file", error) from error
        self._commit_ms = stored_ms
        self._queues[topic, queue_id] = queue
        self._backlog.add(queue)
        if any(batch.properties):
            ladder_ms, texts = self._ladder_ms, batch.properties
            tags = [entry_tag(topic, text, stored_ms, ladder_ms) for text in texts]
            prefix = topic_bytes.key_prefix
            queue.stage_many(places.positions, places.sizes, tags)
            self.indexer.staged += [
                (prefix, text, position, stored_ms) for text, position in zip(texts, places.positions, strict=True)
            ]
        else:
            queue.stage_many(places.positions, places.sizes, repeat(0))  # neither tags nor keys
        return places

    @property
    def encoding_limits(self) -> EncodingLimits:
        """What ``stage_encoded`` may be given."""
        log = self.log
        return EncodingLimits(log.body_bytes_max, WORTH_NO_COPY, log.record_bytes_max, self.index.keys_max)

    def next_place(self) -> tuple[int, int, int]:
        """Where the next message would be staged: position, bytes that its segment has from there on, store time."""
        log = self.log
        return log.staged_end, log.room, self._commit_ms or self._clock.now_ms()

    def stage_encoded(self, records: bytes, stored_ms: int, keys: bytes, messages: int) -> None:
        """Stage so many messages that were encoded for ``next_place``, with their hashed keys; the store is writable.

        ``stage_entries`` of the lane that encoded them must follow.
        """
        self.indexer.stage_hashed(keys, messages, self.log.stage_encoded(records))
        self._commit_ms = stored_ms

    def stage_entries(self, lane: SendLane) -> list[QueueTail]:
        """Entries of messages that were staged by ``stage_encoded``; returns their queues, which had some before."""
        return lane.stage_entries(self._backlog.line)

    def take_news(self) -> Iterable[str]:
        """Topics with committed messages since the last call."""
        return self._backlog.line.take_news()

    def commit(self) -> int:
        """Write what is staged; returns the end position.

        Raises DiskFullError or UntrustedDiskError, and then nothing of it is stored.
        """
        self.flushes.notice_failure()
        if not self.health.trusted:
            self._drop_staged()
            raise self.health.error()
        try:
            self.log.write_staged(self._commit_ms)
        except OSError as error:
            self._drop_staged()
            raise self.health.failed_write("the commit log", error) from error
        if self._backlog.commit():
            self.write_entries(QUEUES_AT_ONCE)  # if that fails, messages still count as stored
        self._commit_ms = 0
        if self.indexer.commit():
            self.indexer.index_some()  # not all: after a crash there may be seconds of work
        return self.log.end

    @property
    def has_backlog(self) -> bool:
        """Whether queues are owed entries, or keys wait to be indexed."""
        return bool(len(self._backlog.line)) or not self.indexer.is_idle

    def write_entries(self, queues_max: int | None = None) -> bool:
        """Write the entries that queues are owed; False when the disk refuses (they go on waiting).

        Of all queues, or of those that have waited longest: thousands at once would hold up everything else.
        """
        try:
            self.log.wipe_remains()
            self._backlog.write(queues_max)
        except OSError as error:
            self.health.failed_write("consume queues", error)
            return False
        return True

    def find(self, topic: str, key: str, *, count_max: int = 64, begin_ms: int = 0, end_ms: int = 1 << 62) -> list[int]:
        """Positions of messages with a key stored in [begin_ms, end_ms], newest first, the latest included.

        All of it now, so it looks at ``WORK_NOW_MAX`` messages with that hash at most; ``key_search`` looks at more.
        """
        search = self.key_search.find
        steps = search(topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms, work_max=WORK_NOW_MAX)
        return all_steps(steps).positions

    def _drop_staged(self) -> None:
        self.log.drop_staged()
        self._backlog.drop_staged()
        self.indexer.drop_staged()
        self._commit_ms = 0

    def _topic_bytes(self, topic: str) -> TopicBytes:
        found = self._topics[topic] = TopicBytes(validate_topic(topic))
        return found

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        validate_topic(topic)
        if not 0 <= queue_id <= QUEUE_ID_MAX:
            raise LocalProtocolError(f"queue id {queue_id} of topic {topic} is outside [0, {QUEUE_ID_MAX}]")
        return ConsumeQueue.without_files(self._disk, self.layout, self.settings, topic, queue_id)

    def relist(self, records: Sequence[tuple[int, RecordFound]]) -> int:
        """Enter mended records into queues that lack them; returns how many. Raises OSError."""
        return relist(records, self._queue_of_mended, self._ladder_ms)

    def _queue_of_mended(self, position: int, record: RecordFound) -> ConsumeQueue | None:
        """Recovery made no queue when its only record was damaged; what lies before a deletion has none."""
        key = record.topic.decode("utf-8", "replace"), record.queue_id
        found, recovered = self._queues.get(key), self.recovered
        if found is None and position >= max(recovered.scanned_from, recovered.deleted.get(key[0], 0)):
            with contextlib.suppress(InvalidNameError, LocalProtocolError):
                found = self._queues[key] = self._new_queue(*key)
        return found

    # --- durability ---

    def flush(self) -> None:
        """Make everything committed durable, on this thread. Raises UntrustedDiskError."""
        self.flushes.flush()

    def seal(self) -> bool:
        """Seal everything committed, on this thread; False when the disk refuses, or while a flush runs on another."""
        return self.seals.seal()

    def note_flushed(self) -> None:
        """Let recovery know up to where the log is durable, between two seals; call it every second or so.

        Queue entries come first: should the log lose something up to there, they say which offsets were given. So it
        is noted when ``write_entries`` has written all queues that are behind now.
        """
        self._backlog.note_when_written(self.log.flushed)

    # --- deleting and closing ---

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic; a topic created again under this name starts at offset 0.

        Raises StoreReadOnlyError when the deletion cannot be recorded, and then nothing was deleted. That the files are
        gone need not be durable before the next seal: until then an opening knows from the record what to drop.
        """
        if self._backlog.line.has_staged:
            raise LocalProtocolError("staged messages of others are not committed yet: commit them first")
        self.seals.record_deletion(topic)
        self.recovered.deleted[topic] = self.log.end
        self._topics.pop(topic, None)
        queues = [self._queues.pop(key) for key in [key for key in self._queues if key[0] == topic]]
        for queue in queues:
            queue.forget_all()  # it may stand in line for a write or a seal
        self.seals.sync_later(self.removal.remove_topic(self.layout.queues / topic, queues))

    def delete_oldest(self, count: int) -> int:
        """Take the oldest segments out of the log; returns how many. ``removal.run`` frees their space, on any thread.

        Only sealed ones go: without the seal, recovery could not say how far their queues had come. The segment that
        is being written always stays.
        """
        segments, taken = self.log.segments, 0
        while taken < count and len(segments) > 1 and segments.first.end <= self.seals.position:
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
        clean = self.seals.seal(clean=True)
        if clean:
            try:
                self._disk.remove(self.layout.abort)
                self._disk.sync_folder(self.layout.root)
            except OSError as error:
                self.health.failed_write("the end of the clean stop", error)
                clean = False
        if not clean:
            logger.error(
                "store not closed cleanly, the next opening recovers it: path=%s reason=%s",
                self.layout.root,
                self.health.error(),
            )
        self._release()

    def _release(self) -> None:
        self.reader.close()
        self.health.close()
        self.seals.close()
        self.removal.close()
        self.log.segments.close()
        self.index.close()
        for queue in self._queues.values():
            queue.segments.close()
        self._backlog.clear()
        self._queues.clear()  # thousands would keep the garbage collector, and with it the loop, for long
        self._lock.release()
