"""Recovery: opening a store means to find the end of the log, and to make queues and index agree with it.

    1  derived files (queues, index) are checked against the seal; what lies behind it, or is damaged, is dropped
    2  the log is scanned from the seal (or from where the oldest dropped entry was) to its end
    3  every whole record found is entered again into its queue, if that does not have it yet
    4  what lies behind the last whole record is copied to cut/, then wiped

A *seal* says up to which position log, queues and index were durable (``sealing/seal.py``). *Behind* a position means
from there on, towards the end of the log.

The key index is not needed to serve, so it does not hold up opening: it only says from where it has to be built again.

Damage before the seal is the disk's fault: those bytes were durable once. The record is passed over and reported, and
everything behind it stays. Damage behind the seal is what a crash leaves: the log ends there, so that what survives is
a gap-free prefix of what was appended.

Without a seal (a store that only Apache RocketMQ wrote) the start is found by RocketMQ's own rules: the checkpoint's
times after a crash, the queues' ends after a clean stop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyromq.clock import Clock
from pyromq.errors import InvalidNameError, LogGapError
from pyromq.model.names import validate_topic
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.key_index import KeyIndex
from pyromq.store.derived.queue_entry import ENTRY_BYTES
from pyromq.store.files.disk import Disk
from pyromq.store.files.layout import Layout
from pyromq.store.files.segments import Segment, SegmentList
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.log.log_walk import DamagedRange, LogWalk
from pyromq.store.queue_rebuild import QueueRebuild, Queues
from pyromq.store.recovery_report import Cut, RecoveryProgress, RecoveryReport
from pyromq.store.sealing.checkpoint import load_checkpoint, load_flushed
from pyromq.store.sealing.seal import Seal, load_seal
from pyromq.store.settings import StoreSettings
from pyromq.wire.record import (
    RecordFound,
    SegmentEnd,
    scan_record,
)

logger = logging.getLogger(__name__)

_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened store; keys of records from ``index_from`` on are still to be indexed."""

    log: CommitLog
    queues: Queues
    index: KeyIndex
    index_from: int
    report: RecoveryReport


class Recovery:
    """One opening of one store; make it, ``run`` it, throw it away."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        settings: StoreSettings,
        clock: Clock,
        store_host: bytes,
        progress: RecoveryProgress | None = None,
    ) -> None:
        self._progress = progress or RecoveryProgress()
        self._disk = disk
        self._layout = Layout(root)
        self._settings = settings
        self._clock = clock
        self._seal = load_seal(disk, root)
        clean = not disk.exists(self._layout.abort)
        stored_ms = self._seal.stored_ms if self._seal else 0
        self._report = RecoveryReport(clean=clean, sealed=self._seal is not None, last_stored_ms=stored_ms)
        self._noted = load_flushed(disk, self._layout.checkpoint)  # the log was flushed up to here, if not further
        self._note_short_end()
        self._segments = SegmentList.load(disk, self._layout.commit_log, settings.segment_bytes)
        if self._seal is not None and not seal_fits(self._segments, self._seal.position):
            logger.error("seal does not fit the log and is not used: position=%d", self._seal.position)
            self._seal, self._report.sealed = None, False
        self._restore_missing_end()
        self._log = CommitLog(self._segments, settings, store_host)
        self._queues: Queues = {}
        self._index = KeyIndex(disk, self._layout.index, settings, clock)
        self._rescan_from: list[int] = []  # where the scan has to start so that what was dropped is derived again
        self._index_from = 0  # keys of records from here on have to be indexed again
        self._durable = 0  # the log was durable up to here once

    def run(self) -> Opened:
        self._load_queues()
        if self._seal is not None:
            self._trust_seal(self._seal)
        else:
            self._trust_checkpoint()
        start = max(min(self._rescan_from), self._log.first)
        ladder_ms = self._settings.delay_ladder_ms
        rebuild = QueueRebuild(self._queues, self._seal, self._new_queue, ladder_ms, self._report)
        end = self._scan(start, rebuild)
        for segment in self._segments:
            if segment.end > start:
                segment.open_once().sync()  # a killed process leaves records in the page cache that were never flushed
        damaged_end = max((each.end for each in self._report.damaged), default=0)  # sealed queues may list these
        trusted_from = max(start, min(end, damaged_end))
        self._log.open_at(end, trusted_from=trusted_from, last_stored_ms=self._report.last_stored_ms)
        for queue in self._queues.values():
            queue.forget_before(self._log.first)
            rebuild.keep_offsets(queue, end)
        for key in [key for key, queue in self._queues.items() if not queue.next_offset and not len(queue.segments)]:
            del self._queues[key]  # its topic was deleted, and this folder is what is left of it
        self._report.scanned_from, self._report.end = start, end
        self._report.log()
        return Opened(self._log, self._queues, self._index, min(self._index_from, end), self._report)

    # --- what is there ---

    def _restore_missing_end(self) -> None:
        """Put empty files where the log is known to have been, so that positions and offsets are not used twice."""
        position = max(self._seal.durable_end if self._seal else 0, self._noted)
        while position and (not len(self._segments) or self._segments.last.end < position):
            at = self._segments.last.end if len(self._segments) else position - 1
            segment = self._segments.get_or_create(at)
            lost = DamagedRange(segment.base, min(segment.end, position), f"{segment.path.name} was missing")
            self._report.damaged.append(lost)

    def _note_short_end(self) -> None:
        """Report what the last file of the log lost if it is shorter than the seal says; loading fills it up."""
        names = self._disk.names(self._layout.commit_log)
        position = max(self._seal.durable_end if self._seal else 0, self._noted)
        if not names or not names[-1].isdecimal():
            return
        end = int(names[-1]) + self._disk.size_of(self._layout.commit_log / names[-1])
        if int(names[-1]) < end < position and end < int(names[-1]) + self._settings.segment_bytes:
            self._report.damaged.append(DamagedRange(end, position, f"{names[-1]} was cut short"))

    def _load_queues(self) -> None:
        bytes_per_file = self._settings.queue_file_entries * ENTRY_BYTES
        for topic, queue_id in queue_folders(self._disk, self._layout):
            folder = self._layout.queue(topic, queue_id)
            try:
                segments = SegmentList.load(self._disk, folder, bytes_per_file, derived=True)
                queue = ConsumeQueue(topic, queue_id, segments)
            except LogGapError as error:
                self._report.rebuilt.append(f"{topic}/{queue_id}: {error}")
                for name in self._disk.names(folder):
                    self._disk.remove(folder / name)
                self._rescan_from.append(0)
                queue = self._new_queue(topic, queue_id)
            self._queues[topic, queue_id] = queue

    def _trust_seal(self, seal: Seal) -> None:
        self._durable = max(seal.durable_end, self._noted)
        self._report.deleted = dict(seal.deleted)
        self._rescan_from.append(seal.position)
        found = {f"{topic}/{queue_id}" for topic, queue_id in self._queues}
        for name in [each for each in seal.queues if each not in found]:
            topic, _, number = name.rpartition("/")
            self._queues[topic, int(number)] = self._new_queue(topic, int(number))
        for (topic, queue_id), queue in self._queues.items():
            seals = seal.queues.get(f"{topic}/{queue_id}")
            alive_from = max(seal.position, seal.deleted.get(topic, 0)) if seals is None else 0
            if not queue.open_sealed(seals or [], self._log.first, self._durable, alive_from=alive_from):
                self._report.rebuilt.append(f"consumequeue {topic}/{queue_id}")
                self._rescan_from.append(max(0, queue.find_covered_end() - 1))
        if removed := self._index.open_sealed(seal.index, self._log.first):
            sealed = {sealed.name for sealed in seal.index}
            self._report.rebuilt += [f"index {name}" for name in removed if name in sealed]
        newest = self._index.files[-1].path.name if self._index.files else ""
        complete = not seal.index or newest == seal.index[-1].name
        self._index_from = seal.index_position if complete else self._index.covered_end

    def _trust_checkpoint(self) -> None:
        """RocketMQ's rules for its own stores."""
        checkpoint = load_checkpoint(self._disk, self._layout.checkpoint)
        queues_end = self._newest_queued_end()
        start = self._log.first
        for segment in self._segments:
            first = scan_record(segment.open_once().map_once(), 0, segment.base)
            if not isinstance(first, RecordFound):
                break
            durable = segment.base <= queues_end if self._report.clean else 0 < first.stored_ms <= checkpoint.safe_ms
            if durable:
                start = segment.base
        self._durable = max(queues_end if self._report.clean else start, self._noted)
        self._rescan_from.append(start)
        for (topic, queue_id), queue in self._queues.items():
            if not queue.open_unsealed(start):
                self._report.rebuilt.append(f"consumequeue {topic}/{queue_id}")
                self._rescan_from.append(max(0, queue.find_covered_end() - 1))
        self._index.open_unsealed(self._segments.last.end if len(self._segments) else 0)
        if not self._report.clean:
            self._index.cut_from(start, self._log_time)
        self._index_from = self._index.covered_end

    def _newest_queued_end(self) -> int:
        """End of the newest record that any queue lists."""
        newest = 0
        for queue in self._queues.values():
            for segment in reversed(list(queue.segments)):
                used = -(-segment.open_once().data_end(0) // ENTRY_BYTES) * ENTRY_BYTES  # a tag hash may end in zeros
                if used:
                    newest = max(newest, self._record_end(_last_position(segment, used)))
                    break
        return newest

    def _record_end(self, position: int) -> int:
        """End of the record at a position; 0 when there is none, whatever a queue says."""
        record = self._record_at(position)
        return position + record.size if record is not None else 0

    def _record_at(self, position: int) -> RecordFound | None:
        segment = self._segments.holding(position)
        found = scan_record(segment.open_once().map_once(), position - segment.base, position) if segment else None
        return found if isinstance(found, RecordFound) else None

    # --- the scan ---

    def _scan(self, start: int, rebuild: QueueRebuild) -> int:
        """Enter records from ``start`` on into their queues; returns the end of the log, and wipes what lies behind."""
        walk, progress = LogWalk(self._segments, start, self._durable), self._progress
        progress.end = max((segment.end for segment in self._segments), default=0)
        progress.start = progress.position = start
        for records in walk:
            rebuild.enter(records)
            progress.position = walk.position
        self._report.damaged += walk.damaged
        self._report.passed_over = list(walk.damaged)
        self._cut_from(walk.position, walk.reason)
        return walk.position

    def _new_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        return ConsumeQueue.without_files(self._disk, self._layout, self._settings, topic, queue_id)

    # --- the cut ---

    def _cut_from(self, position: int, reason: str) -> None:
        """Copy what lies behind the end of the log, then wipe it: no later crash may take it for records."""
        for segment in list(self._segments):
            at = max(0, position - segment.base)
            if at >= segment.size:
                continue
            file = segment.open_once()
            end = file.data_end(at)
            if end > at:
                self._report.cuts.append(self._keep_copy(segment, at, end, reason))
                file.zero_from(at)
                file.sync()
            else:
                file.release_from(at)
        self._segments.remove_from(max(position, self._log.first + 1))  # the first file stays: it keeps the log's place

    def _keep_copy(self, segment: Segment, at: int, end: int, reason: str) -> Cut:
        position = segment.base + at
        path = self._layout.cut / f"{position:020d}-{self._clock.now_ms()}"
        copy = self._disk.create(path, end - at)
        for start in range(at, end, _COPY_BYTES):
            copy.write_at(start - at, segment.open_once().read_at(start, min(_COPY_BYTES, end - start)))
        copy.sync()
        copy.close()
        self._disk.sync_folder(self._layout.cut)
        return Cut(position, end - at, reason, path)

    def _log_time(self, position: int) -> int:
        record = self._record_at(position)
        return record.stored_ms if record is not None else 0


def queue_folders(disk: Disk, layout: Layout) -> Iterator[tuple[str, int]]:
    """Topic and number of every queue folder; other names are passed over."""
    for topic in disk.names(layout.queues):
        try:
            validate_topic(topic)
        except InvalidNameError:
            continue
        for name in disk.names(layout.queues / topic):
            if name.isdecimal():
                yield topic, int(name)


def seal_fits(segments: SegmentList, position: int) -> bool:
    """False when a seal's position lies inside a record: another program cut the log and wrote it anew."""
    segment = segments.holding(position)
    if segment is None:
        return True
    at = position - segment.base
    found = scan_record(segment.open_once().map_once(), at, position)
    if isinstance(found, RecordFound | SegmentEnd) or segment.open_once().data_end(at) == at:
        return True  # the log goes on there, or ends there
    walk = LogWalk(segments, segment.base, position)
    return all(start + record.size <= position or start >= position for records in walk for start, record in records)


def _last_position(segment: Segment, used_bytes: int) -> int:
    return int.from_bytes(segment.open_once().read_at(used_bytes - ENTRY_BYTES, 8), "big", signed=True)
