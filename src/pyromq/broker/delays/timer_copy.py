"""Timers of a copy: timer log and wheel from the log that was copied and the note of its master.

A replica has no timer files: what waits is in its log, and what was delivered is in its master's note. PyroMQ makes the
files from both when it becomes a master. RocketMQ does not: it takes the note for that of its own files, and what waits
would wait forever. So a copy that a person may hand to RocketMQ is left with them.
"""

from __future__ import annotations

import logging
from typing import Final

from pyromq.broker.delays.timer_messages import waiting_of
from pyromq.errors import CorruptRecordError, PositionOutOfRangeError
from pyromq.model.names import TIMER_TOPIC
from pyromq.store.derived.queue_entry import FILLER_SIZE
from pyromq.store.files.disk import Disk
from pyromq.store.message_store import MessageStore
from pyromq.store.timers.check import load_timer_check
from pyromq.store.timers.files import TimerFiles, remove_timer_files

logger = logging.getLogger(__name__)

_READ_MAX: Final = 500


def make_timer_files(store: MessageStore, disk: Disk, now_ms: int) -> None:
    """Nothing happens where nothing was ever delayed, or nothing is noted as done. Raises OSError, StoreError."""
    noted, queue = load_timer_check(disk, store.layout.config / "timercheck"), store.reader.range_of(TIMER_TOPIC, 0)
    if noted is None or queue is None:
        return
    remove_timer_files(disk, store.layout.root)
    # as if it were the moment of the note: whatever was due since then is due, and not done
    files = TimerFiles.open(disk, store.layout.root, store.settings, store.records, queue, noted[0].read_ms)
    try:
        while files.queue_offset < queue.end and _follow(store, files, queue.end):
            files.write()
        files.flush(now_ms).run()
    finally:
        files.close()


def _follow(store: MessageStore, files: TimerFiles, end: int) -> bool:
    """Give the next messages their seconds; False when the queue has no more."""
    first = files.queue_offset
    for position, size, _ in store.reader.entries(TIMER_TOPIC, 0, first, min(_READ_MAX, end - first)):
        if size != FILLER_SIZE:
            try:
                waiting = waiting_of(store.records.verify(position), position, size)
            except (CorruptRecordError, PositionOutOfRangeError) as error:
                logger.error("delayed message lost: position=%d reason=%s", position, error)
                waiting = None
            if waiting is not None:
                files.add(waiting, files.queue_offset)
        files.queue_offset += 1
    return files.queue_offset > first
