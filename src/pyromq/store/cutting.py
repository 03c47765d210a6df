"""Cutting the log of a closed store: what a broker had beyond its successor's log is kept aside, then wiped.

    cut/00000000000000104857-lease-4-1794800000000/
        00000000000000104857        the bytes, as they lay in the log; one file for each segment
        report.json                 how many messages of which topics these were

After a crash in between the store opens as before the cut, or with an end somewhere behind it, and is cut again. Seal
and checkpoint go first: no recovery may take the bytes that are missing for what the disk has lost. The next opening
trusts queues and index by RocketMQ's rules, and scans the log from the file in which the cut lies.
"""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from pyromq.clock import Clock
from pyromq.errors import LogGapError, PositionOutOfRangeError
from pyromq.store.derived.queue_entry import ENTRY, ENTRY_BYTES
from pyromq.store.files.disk import Disk
from pyromq.store.files.layout import Layout
from pyromq.store.files.segments import Segment, SegmentList
from pyromq.store.log.log_walk import LogWalk
from pyromq.store.recovery import queue_folders
from pyromq.store.sealing.checkpoint import Checkpoint, save_checkpoint
from pyromq.store.sealing.seal import SEAL_NAME
from pyromq.store.settings import StoreSettings

logger = logging.getLogger(__name__)

REPORT_NAME: Final = "report.json"
_COPY_BYTES: Final = 1 << 20
_TOPICS_REPORTED_MAX: Final = 1_000


class CutReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was cut, and why."""

    position: int
    bytes: int
    messages: int
    topics: dict[str, int]  # messages of each
    reason: str
    folder: str
    at_ms: int
    number: int = 0  # of the lease that made the cut necessary


def cut_log(
    disk: Disk, root: Path, settings: StoreSettings, clock: Clock, position: int, *, number: int, reason: str
) -> CutReport | None:
    """Let the log end at ``position``, where a record ends; None when it did not go further. The store is closed.

    Raises OSError, LogGapError, and PositionOutOfRangeError when the log begins behind that position.
    """
    layout = Layout(root)
    segments = SegmentList.load(disk, layout.commit_log, settings.segment_bytes)
    try:
        if not len(segments):
            return None
        if position < segments.first.base:
            raise PositionOutOfRangeError(requested=position, first=segments.first.base, end=segments.last.end)
        walk = LogWalk(segments, position, position)
        topics = Counter(record.topic.decode("utf-8", "replace") for records in walk for _, record in records)
        tails = [
            (each, at, end)
            for each in segments
            if (at := max(0, position - each.base)) < each.size and (end := each.open_once().data_end(at)) > at
        ]
        if not tails:
            return None
        at_ms = clock.now_ms()
        folder = layout.cut / f"{position:020d}-lease-{number}-{at_ms}"
        for segment, at, end in tails:
            _keep_copy(disk, folder / f"{segment.base + at:020d}", segment, at, end)
        report = CutReport(
            position=position,
            bytes=sum(end - at for _, at, end in tails),
            messages=sum(topics.values()),
            topics=dict(topics.most_common(_TOPICS_REPORTED_MAX)),
            reason=reason,
            folder=str(folder),
            at_ms=at_ms,
            number=number,
        )
        disk.write(folder / REPORT_NAME, msgspec.json.format(msgspec.json.encode(report)))
        for each in (folder, layout.cut):
            disk.sync_folder(each)
        _distrust(disk, layout, segments, position)
        _remove_later_queues(disk, layout, settings, position)
        _wipe(segments, position, tails)
    finally:
        segments.close()
    facts = (position, report.bytes, report.messages, reason, folder)
    logger.error("log cut: position=%d bytes=%d messages=%d reason=%s kept=%s", *facts)
    return report


def read_cut_reports(disk: Disk, root: Path) -> list[CutReport]:
    """Read the reports of all cuts whose folders are still there, oldest first; unreadable ones are passed over."""
    found, cut = [], Layout(root).cut
    for name in disk.names(cut):
        path = cut / name / REPORT_NAME
        if disk.is_folder(cut / name) and disk.exists(path):
            try:
                found.append(msgspec.json.decode(disk.read(path), type=CutReport))
            except (OSError, msgspec.MsgspecError) as error:
                logger.warning("report of a cut cannot be read: path=%s reason=%s", path, error)
    return sorted(found, key=lambda report: report.at_ms)


def _keep_copy(disk: Disk, path: Path, segment: Segment, at: int, end: int) -> None:
    copy = disk.create(path, end - at)
    for start in range(at, end, _COPY_BYTES):
        copy.write_at(start - at, segment.open_once().read_at(start, min(_COPY_BYTES, end - start)))
    copy.sync()
    copy.close()


def _distrust(disk: Disk, layout: Layout, segments: SegmentList, position: int) -> None:
    """The next opening is one after a crash, without a seal: it looks at the log itself, from a file before the cut."""
    disk.write(layout.abort, b"cut")
    stored_ms = _stored_ms_before(segments, position)
    save_checkpoint(disk, layout.checkpoint, Checkpoint(log_ms=stored_ms, queues_ms=stored_ms, index_ms=stored_ms))
    for name in disk.names(layout.root):
        if name.startswith(SEAL_NAME):
            disk.remove(layout.root / name)
    disk.sync_folder(layout.root)


def _remove_later_queues(disk: Disk, layout: Layout, settings: StoreSettings, position: int) -> None:
    """Queues that begin behind the cut; of the others recovery drops what lies there."""
    for topic, queue_id in list(queue_folders(disk, layout)):
        folder = layout.queue(topic, queue_id)
        try:
            queue = SegmentList.load(disk, folder, settings.queue_file_entries * ENTRY_BYTES, derived=True)
        except LogGapError:  # recovery makes it anew
            continue
        first = ENTRY.unpack(queue.first.open_once().read_at(0, ENTRY_BYTES)) if len(queue) else (0, 0, 0)
        if first[1] and first[0] >= position:
            queue.remove_all()
        queue.close()


def _stored_ms_before(segments: SegmentList, position: int) -> int:
    """Store time of the first record in the file that the cut lies in, or of one before."""
    segment = segments.holding(max(segments.first.base, position - 1)) or segments.last
    walk = LogWalk(segments, segment.base, segment.base)
    first = next(iter(walk), [])
    slack_ms = 3_000  # what the checkpoint takes off
    return first[0][1].stored_ms + slack_ms if first and segment.base < position else 0


def _wipe(segments: SegmentList, position: int, tails: list[tuple[Segment, int, int]]) -> None:
    """From the end on: what is left after a crash is a prefix of what was there."""
    for segment, at, _ in reversed(tails):
        segment.open_once().zero_from(at)
        segment.open_once().sync()
    segments.remove_from(max(position, segments.first.base + 1) if position else 0)  # else the first keeps its place
