"""Delay levels (a schedule): each has a queue in SCHEDULE_TOPIC_XXXX, in which messages lie in the order they are due.

    queue 2 (level 3, 10 s)   ██████████▒▒▒▒▒▒▒░░░░░░░░
                              delivered │       │ not due yet: the head says when to look again
                                 cursor ┘       └ on their way, all in one group commit

A queue entry carries the time of delivery in place of a tag, so a changed ladder moves nothing that waits already. The
cursor moves when a whole batch is safe; a batch that fails is tried again from there in ten seconds. So within a level
there are neither gaps nor changes of order. After a crash what came behind the saved cursor, and is not found where it
was delivered (``delivered``), comes once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from pyromq.broker.base.stats import Counters
from pyromq.broker.base.window_counters import ONE_MESSAGE
from pyromq.broker.commit.commit import OnStored
from pyromq.broker.delays.due_messages import DueMessages
from pyromq.clock import Clock
from pyromq.errors import CorruptRecordError, LocalProtocolError, MQError, StoreError
from pyromq.model.names import SCHEDULE_TOPIC
from pyromq.store.derived.queue_entry import FILLER_SIZE
from pyromq.store.message_store import MessageStore, Placed
from pyromq.store.tables.offsets import DelayOffsets
from pyromq.wire.record import Draft

logger = logging.getLogger(__name__)

Put = Callable[[Draft, OnStored], Placed]
BATCH_MAX: Final = 500
_RETRY_MS: Final = 10_000
_NEVER_MS: Final = 1 << 62


class _Level:
    """One level; ``cursor`` is the offset of the first message that is not delivered for sure."""

    __slots__ = ("batch_end", "cursor", "failed_at", "in_flight", "number", "old_end", "queue", "wake_ms")

    def __init__(self, number: int, cursor: int, old_end: int) -> None:
        self.number = number
        self.queue = SCHEDULE_TOPIC, number - 1
        self.cursor = cursor
        self.old_end = old_end  # what was there when the broker started
        self.wake_ms = 0  # nothing to do before that
        self.in_flight = 0  # written, and not known to be safe
        self.batch_end = cursor  # the first offset behind what was tried
        self.failed_at: int | None = None  # the lowest offset of this batch that was not stored


class Schedule:
    """Owns the cursors. ``run`` delivers what is due and says when to come back."""

    def __init__(
        self,
        store: MessageStore,
        offsets: DelayOffsets,
        due: DueMessages,
        put: Put,
        counters: Counters,
        clock: Clock,
    ) -> None:
        self._store = store
        self._due = due
        self._put = put
        self._counters = counters
        self._clock = clock
        self.on_ready: Callable[[], None] = lambda: None  # a batch has ended: there may be more to do
        self._started_ms = clock.now_ms()  # for what was stored in a future that never came
        last = max([len(store.settings.delay_ladder_ms), *self._queues_in_use(), *dict(offsets.items())])
        if not offsets.found and self._queues_in_use() and store.recovered.clean:
            logger.error("%s is missing: messages of delay levels are delivered again", offsets.file_name)
        self._levels = [self._open_level(number, offsets.get(number)) for number in range(1, last + 1)]

    def _queues_in_use(self) -> list[int]:
        """Levels that have messages, although the ladder may have become shorter."""
        return [queue_id + 1 for topic, queue_id in self._store.queues if topic == SCHEDULE_TOPIC]

    def _open_level(self, number: int, offset: int | None) -> _Level:
        found = self._store.reader.range_of(SCHEDULE_TOPIC, number - 1)
        first, end = (found.first, found.end) if found else (0, 0)
        level = _Level(number, first if offset is None else min(offset, end), end)
        self._pass_deleted(level, first)
        return level

    def follow(self, offsets: DelayOffsets) -> None:
        """Take over how far the master has come, on a replica: what it has delivered need not be kept."""
        for level in self._levels:
            level.cursor = max(level.cursor, offsets.get(level.number) or 0)

    @property
    def level_count(self) -> int:
        return len(self._levels)

    # --- delivering ---

    def run(self) -> int:
        """Deliver what is due, a part at a time; when to look again, which is now if there is more."""
        now_ms, next_ms, queues = self._clock.now_ms(), _NEVER_MS, self._store.queues
        for level in self._levels:  # most of them are empty, in every tick
            queue = queues.get(level.queue)
            if queue is not None and level.cursor < queue.committed_end and not level.in_flight:
                next_ms = min(next_ms, self._run_level(level, now_ms))
        return next_ms

    def _run_level(self, level: _Level, now_ms: int) -> int:
        """Deliver what is due of a level in whose queue something waits."""
        if now_ms < level.wake_ms:
            return level.wake_ms
        found = self._store.reader.range_of(SCHEDULE_TOPIC, level.number - 1)
        assert found is not None
        self._pass_deleted(level, found.first)
        if level.cursor >= found.end:
            return _NEVER_MS
        level.failed_at, level.wake_ms = None, 0
        count = min(BATCH_MAX, found.end - level.cursor)
        for position, size, due_ms in self._store.reader.entries(SCHEDULE_TOPIC, level.number - 1, level.cursor, count):
            offset = level.batch_end
            if due_ms > now_ms and (due_ms := self._due_ms(level, offset, position, due_ms)) > now_ms:
                level.wake_ms = due_ms
                break
            if size != FILLER_SIZE and not self._deliver(level, offset, position, size, due_ms):
                level.wake_ms = now_ms + _RETRY_MS
                break
            level.batch_end = offset + 1
        if level.in_flight:
            return _NEVER_MS  # the callback of its last write lets it run again
        level.cursor = level.batch_end
        if level.cursor >= found.end:
            return _NEVER_MS
        return level.wake_ms or now_ms

    def _pass_deleted(self, level: _Level, first: int) -> None:
        """The disk was so full that files went in which messages still waited."""
        if level.cursor < first:
            self._due.lost += first - level.cursor
            logger.error("delayed messages lost: level=%d messages=%d", level.number, first - level.cursor)
        level.cursor = level.batch_end = max(level.cursor, first)

    def _due_ms(self, level: _Level, offset: int, position: int, due_ms: int) -> int:
        """After a restart with a clock that went back, what was stored in the future waits its delay from then on."""
        if offset >= level.old_end:
            return due_ms
        try:
            stored_ms = self._store.records.stored_ms(position)
        except StoreError:
            return due_ms
        return due_ms if stored_ms <= self._started_ms else self._started_ms + due_ms - stored_ms

    def _deliver(self, level: _Level, offset: int, position: int, size: int, due_ms: int) -> bool:
        """False when the store takes nothing at the moment, or another member may deliver what is damaged here.

        What can never be delivered is passed over.
        """
        try:
            record = self._due.read(position, size)
        except CorruptRecordError as error:
            logger.warning("delivery postponed: level=%d offset=%d reason=%s", level.number, offset, error)
            return False
        if record is None:
            return True
        try:
            draft = self._due.delivery(record)
            if draft is not None and not self._due.was_delivered(record, due_ms, draft):
                placed = self._put(draft, partial(self._reported, level, offset, due_ms))
                self._counters.puts[draft.topic] += ONE_MESSAGE + placed.size
                level.in_flight += 1
        except LocalProtocolError as error:
            self._due.dropped(record, error)
        except StoreError as error:
            logger.warning("delivery postponed: level=%d offset=%d reason=%s", level.number, offset, error)
            return False
        return True

    def _reported(self, level: _Level, offset: int, due_ms: int, error: MQError | None) -> None:
        level.in_flight -= 1
        if error is None:
            self._counters.levels_delivered += 1
            self._counters.delay_late_ms = max(self._counters.delay_late_ms, self._clock.now_ms() - due_ms)
        elif level.failed_at is None or offset < level.failed_at:
            level.failed_at = offset
            logger.warning("delivery failed: level=%d offset=%d reason=%s", level.number, offset, error)
        if level.in_flight:
            return
        if level.failed_at is None:
            level.cursor = level.batch_end
        else:
            level.cursor, level.wake_ms = level.failed_at, self._clock.now_ms() + _RETRY_MS
        self.on_ready()

    # --- progress ---

    def waiting_from(self) -> int:
        """Position of the oldest message that waits; the end of the log when none does."""
        found = self._store.end_position
        for level in self._levels:
            for position, _, _ in self._store.reader.entries(SCHEDULE_TOPIC, level.number - 1, level.cursor, 1):
                found = min(found, position)
        return found

    def progress(self) -> dict[int, tuple[int, int]]:
        """Cursor and queue end of each delay level that was ever used."""
        found = {}
        for level in self._levels:
            queue = self._store.queues.get((SCHEDULE_TOPIC, level.number - 1))
            if queue is not None:
                found[level.number] = level.cursor, queue.committed_end
        return found

    @property
    def pending(self) -> int:
        return sum(end - cursor for cursor, end in self.progress().values())

    def note(self, offsets: DelayOffsets) -> None:
        """Bring a table of offsets up to date."""
        moved = {number: cursor for number, (cursor, _) in self.progress().items() if offsets.get(number) != cursor}
        for number, cursor in moved.items():
            offsets.put(number, cursor)
        if moved:
            offsets.bump(self._clock.now_ms())
