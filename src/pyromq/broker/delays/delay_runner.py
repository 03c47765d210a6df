"""Delay runner: delivers due messages of delay levels and timers, woken at the millisecond something is due.

    a message was stored in a waiting queue ─┐
    a batch has ended ───────────────────────┼─▶ run: levels, timers ─▶ next time ─▶ call_later
    every tick (the clock may have moved) ───┘

Progress is saved only when everything it speaks of is on disk: offsets of levels every second
(``delay_offsets_save_ms``) in which something happened, timers likewise.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, NamedTuple

from pyromq.broker.base.environment import Environment
from pyromq.broker.commit.touched import Touched
from pyromq.broker.delays.schedule import Schedule
from pyromq.broker.delays.timers import QUEUE, Timers
from pyromq.errors import StoreError
from pyromq.model.names import SCHEDULE_TOPIC
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.offsets import DelayOffsets
from pyromq.store.timers.files import TimerFiles, TimerFlush
from pyromq.store.timers.metrics import TimerMetrics

logger = logging.getLogger(__name__)

_TICK_MS: Final = 3_000  # longer than any two ticks of a broker are apart
_LATE_MS: Final = 60_000  # from then on nothing expires: what is due may lie in old files
_GATHER_MS: Final = 5  # what is due in so short a time shares a group commit, and an fsync
_TIMERS_SAVE_MS: Final = 1_000
_IDLE_SAVE_MS: Final = 60_000
_FORGET_MS: Final = 30_000


class _Progress(NamedTuple):
    """What may be saved once the log is on disk up to ``log_end``."""

    offsets: DelayOffsets | None
    timers: TimerFlush | None
    metrics: TimerMetrics | None
    log_end: int

    def save(self) -> None:
        """On any thread. Raises OSError."""
        if self.offsets is not None:
            self.offsets.save()
        if self.timers is not None:
            self.timers.run()
        if self.metrics is not None:
            self.metrics.save()


class DelayRunner:
    """Runs the two services and saves how far they came."""

    def __init__(
        self,
        store: MessageStore,
        schedule: Schedule,
        timers: Timers,
        offsets: DelayOffsets,
        files: TimerFiles,
        worker: Executor,
        flush_soon: Callable[[], None],
        environment: Environment,
    ) -> None:
        self._store = store
        self.schedule = schedule
        self.timers = timers
        self._offsets = offsets
        self.files = files
        self._worker = worker
        self._flush_soon = flush_soon
        self._clock = clock = environment.clock
        self._settings = environment.settings
        self._loop = asyncio.get_running_loop()
        # in which delayed messages wait
        self._queues = frozenset((SCHEDULE_TOPIC, number) for number in range(schedule.level_count)) | {QUEUE}
        self._wake: asyncio.Handle | None = None  # the next run, if it is arranged
        self._wake_ms = 0  # and when that is, by the monotonic clock
        self._open = True  # until ``halt``
        self.may_write: Callable[[], bool] = lambda: True  # else what is due waits for a later tick
        self.has_master: Callable[[], bool] | None = None  # of a replica: whether it follows one, which delivers
        now_ms = clock.monotonic_ms()
        self._offsets_ms = now_ms  # when offsets of levels were due to be saved last
        self._timers_ms = now_ms  # when timers were
        self._forgot_ms = now_ms  # when old timer files were forgotten
        self._waiting: _Progress | None = None  # to be saved once the log is on disk that far
        self._saving: asyncio.Future[None] | None = None  # the save under way
        schedule.on_ready = self.soon

    def needed_from(self) -> int:
        """Position of the oldest message that may still have to be delivered, however old it is.

        Messages with a time of their own go through the log again before their file is old; those that are late do not.
        """
        return self._store.first_position if self._are_timers_late() else self.schedule.waiting_from()

    def _are_timers_late(self) -> bool:
        if QUEUE not in self._store.queues:
            return False
        if self.has_master is not None:
            return not self.has_master()
        return self.timers.behind_ms > min(_LATE_MS, self._store.settings.keep_ms // 8)

    # --- letting go ---

    def wake(self, queues: Touched) -> None:
        """Messages became visible, perhaps some that have to wait."""
        if not queues.keys.keys().isdisjoint(self._queues):  # looks at the fewer of the two
            self.soon()

    def soon(self) -> None:
        """Look at everything in the next loop iteration."""
        self._wake_in(0)

    def tick(self) -> None:
        """With every tick, of a broker that may write."""
        self.run()
        self._save_if_due()

    def run(self) -> None:
        """Let go what is due, and arrange to be called for what is due next."""
        next_ms = min(self.schedule.run(), self.timers.run())
        in_ms = max(0, next_ms - self._clock.now_ms())
        if in_ms:
            in_ms = max(in_ms, _GATHER_MS)
        if in_ms <= _TICK_MS:  # else a later tick arranges it
            self._wake_in(in_ms)

    def _wake_in(self, in_ms: int) -> None:
        at_ms = self._clock.monotonic_ms() + in_ms
        if not self._open or (self._wake is not None and self._wake_ms <= at_ms):
            return
        if self._wake is not None:
            self._wake.cancel()
        self._wake_ms = at_ms
        self._wake = self._loop.call_later(in_ms / 1_000, self._woken) if in_ms else self._loop.call_soon(self._woken)

    def _woken(self) -> None:
        self._wake = None
        if self._open and self.may_write():
            self.run()

    # --- saving ---

    def _save_if_due(self) -> None:
        if self._saving is not None:
            return
        if not self._store.health.trusted:
            self._waiting = None
            return
        now = self._clock.monotonic_ms()
        if self._waiting is None:
            self._waiting = self._progress_if_due(now)
        if self._waiting is not None and self._store.flushed_position >= self._waiting.log_end:
            progress, self._waiting = self._waiting, None
            self._saving = self._loop.run_in_executor(self._worker, progress.save)
            self._saving.add_done_callback(partial(self._saved, progress))
        elif self._waiting is not None:
            self._flush_soon()
        elif now - self._forgot_ms >= _FORGET_MS:
            self._forgot_ms = now
            self.files.forget_before(self._store.first_position)

    def _progress_if_due(self, now: int) -> _Progress | None:
        offsets = timers = metrics = None
        if now - self._offsets_ms >= self._settings.delay_offsets_save_ms:
            self._offsets_ms = now
            offsets, metrics = self._changed_offsets(), self._changed_metrics()
        since_ms = now - self._timers_ms
        if since_ms >= (_TIMERS_SAVE_MS if self.timers.changed else _IDLE_SAVE_MS) and QUEUE in self._store.queues:
            self._timers_ms = now
            timers = self.files.flush(self._clock.now_ms())
            self.timers.changed = False
        anything = offsets is not None or timers is not None or metrics is not None
        return _Progress(offsets, timers, metrics, self._store.end_position) if anything else None

    def _changed_offsets(self) -> DelayOffsets | None:
        """Also those that changed before, and could not be saved."""
        self.schedule.note(self._offsets)
        return self._offsets if self._offsets.unsaved else None

    def _changed_metrics(self) -> TimerMetrics | None:
        metrics = self.timers.metrics
        if not metrics.changed:
            return None
        metrics.changed = False
        metrics.bump(self._clock.now_ms())
        return metrics.snapshot()

    def _saved(self, progress: _Progress, future: asyncio.Future[None]) -> None:
        self._saving = None
        if (error := future.exception()) is not None:
            logger.error("progress of delayed messages not saved: reason=%s", error)
            self.timers.changed = self.timers.metrics.changed = True  # so that it is tried again
            if progress.timers is not None and progress.timers.is_in_doubt:
                self._store.health.untrust(f"flushing timers failed: {error}")
        elif progress.timers is not None:
            self.files.flushed(progress.timers)

    # --- the end ---

    def halt(self) -> None:
        """Nothing more is let go; what is under way may end."""
        self._open = False
        if self._wake is not None:
            self._wake.cancel()

    async def close(self) -> None:
        """Save everything, after the last group commit."""
        self.halt()
        if self._saving is not None:
            await asyncio.wait([self._saving])
        try:
            if self._store.flushed_position < self._store.end_position:
                self._store.flush()
            offsets = self._changed_offsets()
            timers = self.files.flush(self._clock.now_ms()) if QUEUE in self._store.queues else None
            if self._store.health.trusted:
                _Progress(offsets, timers, self._changed_metrics(), self._store.end_position).save()
        except (OSError, StoreError) as error:
            logger.error("progress of delayed messages not saved: reason=%s", error)
        self.files.close()
