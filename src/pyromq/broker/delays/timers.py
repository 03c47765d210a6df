"""Timers (a timing wheel): messages that wait for a time of their own.

    rmq_sys_wheel_timer ──follow──▶ timer log and wheel (files) ──▶ seconds that come near ──▶ own topic, to the ms
                                                                    (in memory, by time)   └──▶ the same topic again, if
                                                                                                the time is far away
Only seconds that come near are in memory. A second is over when everything in it is safe elsewhere; how many are over
is noted every second; after a crash the last one or two are gone through again, and what is not found where it was
delivered (``delivered``) is delivered again: nothing is lost.

A cancellation is a message of the same second that names another by topic and key. From the moment it is asked for, the
other one is held; it is dropped once the cancellation is safe.
"""

from __future__ import annotations

import logging
from functools import partial
from heapq import heappop, heappush
from typing import Final, NamedTuple

from pyromq.broker.base.record_copy import again
from pyromq.broker.base.stats import Counters
from pyromq.broker.base.window_counters import ONE_MESSAGE
from pyromq.broker.delays.due_messages import DueMessages
from pyromq.broker.delays.schedule import Put
from pyromq.broker.delays.timer_messages import cancelled_key, due_of, full_key, rolled, waiting_of
from pyromq.clock import Clock
from pyromq.errors import CorruptRecordError, LocalProtocolError, MQError, PositionOutOfRangeError, StoreError
from pyromq.model.names import TIMER_TOPIC
from pyromq.model.property_names import ITEM_END, REAL_TOPIC, TIMER_DEQUEUE_MS, TIMER_ENQUEUE_MS, UNIQUE_KEY
from pyromq.store.derived.queue_entry import FILLER_SIZE
from pyromq.store.message_store import MessageStore
from pyromq.store.timers.files import TimerFiles
from pyromq.store.timers.log import SECOND_MS, TimerAction, TimerUnit
from pyromq.store.timers.metrics import TimerMetrics
from pyromq.wire.properties import find_property
from pyromq.wire.property_text import item_key
from pyromq.wire.record import Record

logger = logging.getLogger(__name__)

QUEUE: Final = (TIMER_TOPIC, 0)
_UNIQUE_KEY: Final = UNIQUE_KEY.encode()
_ENQUEUED: Final = item_key(TIMER_ENQUEUE_MS)
_DEQUEUED: Final = ITEM_END + item_key(TIMER_DEQUEUE_MS)
_NEAR_S: Final = 2  # seconds that are in memory before they begin
_LOADED_MAX: Final = 100_000
_FOLLOWED_MAX: Final = 200
_RELEASED_MAX: Final = 200
_HELD_MS: Final = 20
_RETRY_MS: Final = 1_000
_NEVER_MS: Final = 1 << 62
_ROLL, _CANCEL = int(TimerAction.ROLL), int(TimerAction.CANCEL)


class _Near(NamedTuple):
    """One message in memory; the smallest is released first."""

    release_ms: int
    log_position: int
    second: int
    kind: int
    position: int
    size: int


class _Second:
    """A second in memory."""

    __slots__ = ("cancelled", "waiting")

    def __init__(self) -> None:
        self.waiting = 0  # not yet safe elsewhere
        self.cancelled: set[bytes] = set()  # ``topic+key`` of messages that are not delivered


class Timers:
    """Follows the timer topic and releases what is due; ``run`` does a part and says when to come back."""

    def __init__(
        self,
        store: MessageStore,
        files: TimerFiles,
        due: DueMessages,
        put: Put,
        counters: Counters,
        clock: Clock,
        metrics: TimerMetrics,
    ) -> None:
        self._store = store
        self._files = files
        self._due = due
        self._put = put
        self._counters = counters
        self._clock = clock
        self.metrics = metrics
        self._heap: list[_Near] = []  # what is in memory, the next first
        self._seconds: dict[int, _Second] = {}  # those in memory in which something is due
        self._order: list[int] = []  # the same, as a heap
        self._held: set[bytes] = set()  # cancellations on their way
        self._loaded_to = files.read_second  # seconds before this one are in memory, or over
        self._pause_ms = 0  # nothing is tried before that, after a failure
        self._pending = files.pending(clock.now_ms() // SECOND_MS)  # messages that wait, less their cancellations
        self._old_end = self._topic_end()  # nothing is released before cancellations up to here are known
        self.changed = False  # since ``changed`` was reset: something that a note must say

    # --- for others ---

    @property
    def pending(self) -> int:
        return max(0, self._pending)

    @property
    def behind_ms(self) -> int:
        """How far delivery is behind the clock, in whole seconds that are over."""
        return max(0, self._clock.now_ms() // SECOND_MS - self._files.read_second) * SECOND_MS

    @property
    def behind_offsets(self) -> int:
        """Messages of the topic that were not looked at yet."""
        return max(0, self._topic_end() - self._files.queue_offset)

    def hold(self, key: bytes) -> bool:
        """A cancellation of this message, ``topic+key``, is being written; False when there is one already."""
        if key in self._held:
            return False
        self._held.add(key)
        return True

    def let_go(self, key: bytes) -> None:
        """The cancellation was not written."""
        self._held.discard(key)

    # --- one round ---

    def run(self) -> int:
        """Follow, load, release, close; when to come back, which is now if there is more to do."""
        now_ms = self._clock.now_ms()
        if now_ms < self._pause_ms:
            return self._pause_ms
        try:
            caught_up = self._follow()
            if self._files.queue_offset < self._old_end:
                return now_ms
            self._load(now_ms)
        except OSError as error:
            logger.error("timer files not written: reason=%s", error)
            self._pause_ms = now_ms + _RETRY_MS
            return self._pause_ms
        except CorruptRecordError as error:
            logger.warning("timers paused: reason=%s", error)
            self._pause_ms = now_ms + _RETRY_MS
            return self._pause_ms
        self._release(now_ms)
        if not caught_up:
            return now_ms
        self._close_seconds(now_ms)  # not before: something on its way through the topic may belong to one of them
        return max(self._pause_ms, self._heap[0].release_ms) if self._heap else _NEVER_MS

    def _topic_end(self) -> int:
        found = self._store.reader.range_of(*QUEUE)
        return found.end if found else 0

    # --- from the topic into the files ---

    def _follow(self) -> bool:
        """Give new messages their seconds; True when there are no more."""
        files, queue = self._files, self._store.queues.get(QUEUE)
        if queue is None:
            return True
        end = self._topic_end()
        if files.queue_offset < queue.first:
            files.queue_offset = queue.first
        if files.queue_offset >= end:
            return True
        count = min(_FOLLOWED_MAX, end - files.queue_offset)
        try:
            for position, size, _ in self._store.reader.entries(*QUEUE, files.queue_offset, count):
                if size != FILLER_SIZE:
                    self._take(files.queue_offset, position, size)
                files.queue_offset += 1
        finally:
            self.changed = True
            files.write()
        return files.queue_offset >= end

    def _take(self, offset: int, position: int, size: int) -> None:
        try:
            record = self._store.records.verify(position)
        except CorruptRecordError as error:
            self._due.damaged(error, size)
            return
        except PositionOutOfRangeError as error:
            self._due.gone(position, error)
            return
        waiting = waiting_of(record, position, size)
        if waiting is None:
            logger.error("message without a delivery time skipped: topic=%s offset=%d", TIMER_TOPIC, offset)
            return
        added = self._files.add(waiting, offset)
        if added is None:
            return
        self._counters.timers_taken += 1
        self._count(record.properties, -1 if waiting.is_cancel else 1)
        if waiting.is_cancel:
            self._held.discard(cancelled_key(record.properties))
        log_position, unit = added
        if unit.second < self._loaded_to:
            self._keep_near(log_position, unit, record.properties)

    def _count(self, properties: bytes, change: int) -> None:
        self._pending += change
        topic = (find_property(properties, REAL_TOPIC.encode()) or b"").decode("utf-8", "replace")
        self.metrics.add(topic, change, self._clock.now_ms())

    # --- from the files into memory ---

    def _load(self, now_ms: int) -> None:
        """Bring seconds that come near into memory, as long as there is not too much of it."""
        self._files.write()  # a chain is read from the file
        end = now_ms // SECOND_MS + 1 + _NEAR_S
        if self._loaded_to >= end or len(self._heap) >= _LOADED_MAX:
            return
        for second in self._files.occupied(self._loaded_to, end):
            # a second is kept whole or not at all: reading a cancellation may have to wait for another member
            units = [(at, unit, self._cancelled_by(unit)) for at, unit in self._files.units(second)]
            for log_position, unit, properties in units:
                self._keep_near(log_position, unit, properties)
            self._loaded_to = second + 1
            if len(self._heap) >= _LOADED_MAX:
                return
        self._loaded_to = end

    def _cancelled_by(self, unit: TimerUnit) -> bytes:
        """Properties of a cancellation, which say what it cancels; none of other messages."""
        record = self._due.read(unit.position, unit.size) if unit.kind & _CANCEL else None
        return record.properties if record is not None else b""

    def _keep_near(self, log_position: int, unit: TimerUnit, properties: bytes) -> None:
        second = self._seconds.get(unit.second)
        if second is None:
            second = self._seconds[unit.second] = _Second()
            heappush(self._order, unit.second)
        if unit.kind & _CANCEL:
            if not unit.kind & _ROLL:
                second.cancelled.add(cancelled_key(properties))
                return
            self._held.add(cancelled_key(properties))  # its target may be due before it went through the topic again
        second.waiting += 1
        near = _Near(unit.release_ms, log_position, unit.second, unit.kind, unit.position, unit.size)
        heappush(self._heap, near)

    # --- from memory to where they belong ---

    def _release(self, now_ms: int) -> None:
        for _ in range(_RELEASED_MAX):
            if not self._heap or self._heap[0].release_ms > now_ms or now_ms < self._pause_ms:
                return
            near = heappop(self._heap)
            try:
                record = self._due.read(near.position, near.size)
            except CorruptRecordError as error:
                logger.warning("timer message postponed: reason=%s", error)
                heappush(self._heap, near._replace(release_ms=now_ms + _RETRY_MS))
                continue
            if record is None:
                self._over(near, b"")
            elif near.kind & _ROLL:
                self._try_put(near, record, now_ms)
            else:
                self._release_unless_cancelled(near, record, now_ms)

    def _release_unless_cancelled(self, near: _Near, record: Record, now_ms: int) -> None:
        cancelled = self._seconds[near.second].cancelled
        if cancelled or self._held:
            key = full_key(record.properties, _UNIQUE_KEY)
            if key in cancelled:
                self._counters.timers_cancelled += 1
                self._count(record.properties, 1)  # the cancellation was subtracted when it came
                self._over(near, record.properties)
                return
            if key in self._held:
                heappush(self._heap, near._replace(release_ms=now_ms + _HELD_MS))
                return
        self._try_put(near, record, now_ms)

    def _try_put(self, near: _Near, record: Record, now_ms: int) -> None:
        try:
            if near.kind & _ROLL:
                draft = again(record, TIMER_TOPIC, 0, rolled(record, now_ms))
            else:
                added = f"{_ENQUEUED}{record.stored_ms}{_DEQUEUED}{now_ms}{ITEM_END}"
                found = self._due.delivery(record, added.encode())
                if found is None:
                    self._over(near, record.properties)
                    return
                draft = found
            if self._due.was_delivered(record, due_of(record.properties) or near.release_ms, draft):
                self._over(near, record.properties)
                return
            placed = self._put(draft, partial(self._reported, near, record.properties))
            self._counters.puts[draft.topic] += ONE_MESSAGE + placed.size
        except LocalProtocolError as error:
            self._due.dropped(record, error)
            self._over(near, record.properties)
        except StoreError as error:
            logger.warning("timers paused: position=%d reason=%s", near.position, error)
            heappush(self._heap, near)
            self._pause_ms = now_ms + _RETRY_MS

    def _reported(self, near: _Near, properties: bytes, error: MQError | None) -> None:
        now_ms = self._clock.now_ms()
        if error is not None:
            logger.warning("timer message not stored: position=%d reason=%s", near.position, error)
            heappush(self._heap, near)
            self._pause_ms = now_ms + _RETRY_MS
            return
        if not near.kind & _ROLL:
            self._counters.timers_delivered += 1
            self._counters.delay_late_ms = max(self._counters.delay_late_ms, now_ms - near.release_ms)
        self._over(near, properties)

    def _over(self, near: _Near, properties: bytes) -> None:
        self._seconds[near.second].waiting -= 1
        self._count(properties, 1 if near.kind & _CANCEL else -1)
        self.changed = True

    def _close_seconds(self, now_ms: int) -> None:
        """Seconds that are over, and everything in them safe, need not be looked at again."""
        files, end = self._files, min(now_ms // SECOND_MS, self._loaded_to)
        while self._order and self._order[0] < end:
            if self._seconds[self._order[0]].waiting:
                end = self._order[0]
                break
            del self._seconds[heappop(self._order)]
        files.read_second = max(files.read_second, end)
