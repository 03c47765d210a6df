"""Running a job: one item after the other, at its rate, until it is over or somebody says otherwise.

    running ──▶ waiting for a go (canary) ──▶ running ──▶ finished
       │  ▲                                      │
       ▼  │                                      ├──▶ cancelled   items that are left are listed as not attempted
      paused (by a person, or by itself          └──▶ failed      it could not read on, or not write its results
      after many problems in a row)

A result is written before the next item begins. What is held in memory are counts; items are in the results.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from pyromq.clock import Clock
from pyromq.errors import ConfigError, MQError
from pyromq.operate.jobs.files import JobFiles, JobFolderError
from pyromq.operate.jobs.outcomes import ItemResult, Outcome
from pyromq.operate.jobs.record import MOVES, JobRecord, JobState
from pyromq.operate.resend.pacing import Pacer
from pyromq.waiting import set_within

logger = logging.getLogger(__name__)

PROBLEMS_IN_A_ROW_MAX: Final = 20  # then the job pauses by itself
NOT_ATTEMPTED_MAX: Final = 100_000  # items of a cancelled job that are listed one by one
_SAVE_EVERY_MS: Final = 1_000
_RATE_WINDOW_MS: Final = 10_000
_ASKED_MS: Final = 500


@dataclass(frozen=True, slots=True)
class ItemAttempt:
    """One item: ``run`` does it, ``preview`` says what it would do. Neither raises for what concerns the item alone."""

    item: str
    run: Callable[[], Awaitable[ItemResult]]
    preview: Callable[[], Awaitable[ItemResult]]


class JobRun:
    """One job that is under way. Owner of its record; ``changed`` is set anew whenever that changes."""

    def __init__(self, record: JobRecord, attempts: AsyncIterator[ItemAttempt], files: JobFiles, clock: Clock) -> None:
        self.record = record
        self.changed = asyncio.Event()
        self._attempts = attempts
        self._files = files
        self._clock = clock
        self._may_go_on = asyncio.Event()
        self._may_go_on.set()
        self._cancelled = asyncio.Event()
        self._pacer = Pacer(record.pace.rate or None, clock)
        self._saved_ms = clock.monotonic_ms()
        self._in_a_row = 0
        self._canary_is_over = False
        self._moments: deque[int] = deque(maxlen=2_000)

    # --- what a person can ask for ---

    def ask(self, what: str) -> None:
        """``pause``, ``resume``, ``go`` or ``cancel``. Raises ConfigError where that means nothing."""
        if self.record.state not in MOVES[what]:
            raise ConfigError(f"job {self.record.id} is {self.record.state.value}: it cannot {what} now")
        if what == "pause":
            self._may_go_on.clear()
            self._become(JobState.PAUSED, "by hand")
        elif what == "cancel":
            self._cancelled.set()  # first: a disk that is full keeps nobody from cancelling
            self._may_go_on.set()
            self._become(JobState.CANCELLING)
        else:
            self._in_a_row = 0
            self._may_go_on.set()
            self._become(JobState.RUNNING)

    @property
    def rate(self) -> float:
        """Items per second of the last seconds."""
        now_ms = self._clock.monotonic_ms()
        recent = [at_ms for at_ms in self._moments if now_ms - at_ms < _RATE_WINDOW_MS]
        if len(recent) < 2:
            return 0.0
        return len(recent) * 1000 / max(1, now_ms - recent[0])

    # --- the run ---

    async def run(self) -> JobRecord:
        """Run until the job is over; its record says how it ended."""
        listening = asyncio.create_task(self._listen(), name=f"job {self.record.id} asked")
        try:
            async with aclosing(self._attempts) as attempts:  # type: ignore[type-var]  # a generator
                await self._run(attempts)
        except (MQError, OSError) as error:
            logger.warning("job failed: id=%s reason=%s", self.record.id, error)
            text = f"{error}; what comes after the last result below was not attempted"
            self._end(JobState.FAILED, text)
        except Exception as error:  # a mistake of ours must not leave a job that seems to run
            logger.exception("job failed: id=%s", self.record.id)
            self._end(JobState.FAILED, f"a mistake in PyroMQ ended it ({type(error).__name__}); the log says more")
        finally:
            listening.cancel()
            self.close()
        return self.record

    def close(self) -> None:
        """End a job that did not end by itself, also one whose task was cancelled before it began."""
        if self.record.is_active:
            self._end(JobState.INTERRUPTED, "its process was stopped while the job ran")
        self._files.close()

    async def _listen(self) -> None:
        """Do what other processes ask for."""
        while True:
            await asyncio.sleep(_ASKED_MS / 1000)
            if (what := self._files.take_asked()) in MOVES:
                with suppress(ConfigError, JobFolderError):  # it came too late, or the disk is full
                    self.ask(what)

    async def _run(self, attempts: AsyncIterator[ItemAttempt]) -> None:
        async for attempt in attempts:
            await self._wait_for_turn()
            if self._cancelled.is_set():
                self._note(self._not_attempted(attempt.item))
                if self.record.counts.not_attempted >= NOT_ATTEMPTED_MAX:
                    break
                continue
            if self.record.dry_run:
                self._note(await attempt.preview())
            else:
                self._files.begin(attempt.item)
                self._note(await attempt.run())
            self._look_at_canary()
        if self._cancelled.is_set():
            self._end(JobState.CANCELLED, "by hand")
        else:
            self._end(JobState.FINISHED)

    def _not_attempted(self, item: str) -> ItemResult:
        return ItemResult(item=item, outcome=Outcome.NOT_ATTEMPTED, text="the job was cancelled before")

    async def _wait_for_turn(self) -> None:
        await self._may_go_on.wait()
        wait_ms = 0.0 if self.record.dry_run else self._pacer.wait_ms(1)
        if wait_ms > 0:
            if not await set_within(self._cancelled, wait_ms / 1000):
                await self._may_go_on.wait()  # it may have been paused meanwhile

    def _look_at_canary(self) -> None:
        counts, canary = self.record.counts, self.record.pace.canary
        if self._in_a_row >= PROBLEMS_IN_A_ROW_MAX and not self._cancelled.is_set():
            self._may_go_on.clear()
            self._become(JobState.PAUSED, f"by itself: {self._in_a_row} items in a row were refused or are unknown")
        elif self._is_canary_due() and self.record.state is JobState.RUNNING:
            self._canary_is_over = True
            self._may_go_on.clear()
            self._become(JobState.CANARY, f"the first {canary} are over: {counts.text()}")

    def _is_canary_due(self) -> bool:
        """Items with nothing to do are no canaries."""
        counts, canary = self.record.counts, self.record.pace.canary
        tried = counts.confirmed + counts.unknown + counts.refused
        return 0 < canary <= tried and not self._canary_is_over and not self.record.dry_run

    # --- the record ---

    def _note(self, result: ItemResult) -> None:
        now_ms = self._clock.monotonic_ms()
        result = msgspec.structs.replace(result, at_ms=self._clock.now_ms())
        self._files.add(result)
        self.record = msgspec.structs.replace(self.record, counts=self.record.counts.plus(result))
        is_problem = result.outcome is Outcome.UNKNOWN or result.is_problem
        self._in_a_row = self._in_a_row + 1 if is_problem else 0
        self._moments.append(now_ms)
        if now_ms - self._saved_ms >= _SAVE_EVERY_MS:
            self._save()
        self._report()

    def _become(self, state: JobState, note: str = "") -> None:
        self.record = msgspec.structs.replace(self.record, state=state, note=note)
        self._save()
        self._report()

    def _end(self, state: JobState, note: str = "") -> None:
        self.record = msgspec.structs.replace(self.record, state=state, note=note, ended_ms=self._clock.now_ms())
        try:
            self._save()
        except JobFolderError as error:  # told nowhere else: the job is over
            logger.error("end of a job cannot be kept: id=%s reason=%s", self.record.id, error)
        self._report()

    def _save(self) -> None:
        self._files.save(self.record)
        self._saved_ms = self._clock.monotonic_ms()

    def _report(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
