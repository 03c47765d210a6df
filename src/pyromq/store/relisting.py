"""Relisting: a record of the log that was damaged and is whole again gets its entry in its queue back.

Recovery enters whole records only. For a damaged one it leaves a filler entry, or nothing when the queue ends there, so
that offsets stay as they were. When the log was mended (``scrub.mend``), the message would still be in no queue: no
consumer of this broker could get it, though every byte of it is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.entry_tag import entry_tag
from pyromq.store.derived.queue_entry import FILLER_SIZE
from pyromq.wire.record import RecordFound, is_visible
from pyromq.wire.record_layout import RECORD_OVERHEAD_BYTES

logger = logging.getLogger(__name__)


def relist(
    records: Iterable[tuple[int, RecordFound]],
    queue_of: Callable[[int, RecordFound], ConsumeQueue | None],
    ladder_ms: tuple[int, ...],
) -> int:
    """Enter mended records, in log order, where their queues lack them; returns how many it were. Raises OSError.

    ``queue_of`` gives the queue of a record at a position; None when its topic was deleted since.
    """
    lacking = list(_lacking(records, queue_of))
    inside = [each for each in lacking if each[2].offset < each[0].end]
    behind = [each for each in lacking if each[2].offset >= each[0].end]
    count = 0
    for queue, position, record in [*reversed(inside), *behind]:  # a queue that lost its begin grows towards it
        if _has_room(queue, position, record.offset):
            tag = entry_tag(queue.topic, record.properties, record.stored_ms, ladder_ms)
            _enter(queue, position, record, tag)
            count += 1
    if count:
        logger.warning("mended messages are in their queues again: messages=%d", count)
    return count


def _lacking(
    records: Iterable[tuple[int, RecordFound]], queue_of: Callable[[int, RecordFound], ConsumeQueue | None]
) -> Iterator[tuple[ConsumeQueue, int, RecordFound]]:
    """Records that belong to a queue, with it; what it owes to its files is written by then."""
    for position, record in records:
        queue = queue_of(position, record)
        if queue is not None and (not record.sys_flag or is_visible(record.sys_flag)):
            queue.write_owed()
            yield queue, position, record


def _enter(queue: ConsumeQueue, position: int, record: RecordFound, tag: int) -> None:
    if record.offset < queue.end:
        queue.replace_filler(record.offset, position, record.size, tag)
        return
    if queue.next_offset:
        queue.fill_up_to(record.offset, position)
    else:
        queue.restart_at(record.offset)
    queue.stage(position, record.size, tag)
    queue.write_staged()


def _has_room(queue: ConsumeQueue, position: int, offset: int) -> bool:
    """Whether the queue lacks a record there: between the entries before and behind it nothing else may belong."""
    if offset >= queue.end:
        gap = offset - queue.next_offset
        return gap <= position // RECORD_OVERHEAD_BYTES and queue.find_covered_end() <= position
    if offset < queue.first - 1 or not queue.is_filler(offset):
        return False
    before = queue.entry(offset - 1) if offset - 1 >= queue.first else None
    behind = queue.entry(offset + 1) if offset + 1 < queue.end else None
    return (before is None or before.size == FILLER_SIZE or before.position < position) and (
        behind is None or behind.size == FILLER_SIZE or behind.position > position
    )
