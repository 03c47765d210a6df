"""Consuming in pop mode: any free listener gets the next message, and each message is settled by itself.

pop loops ──▶ line ──▶ runner ──▶ success: acknowledged, several in one request
               │                  failure: invisible for the time of its attempt, then the broker delivers it again
               │                  DeadLetterError, attempts used up: a copy in the dead letters, then acknowledged
               └─ renewed as long as it is here; released, uncounted, when the consumer is closed
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from pyromq.client.consumer.base.consume_stats import TopicCounts
from pyromq.client.consumer.base.listeners import verdict_of
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.base.settings import POP_BATCH_MAX
from pyromq.client.consumer.dispatch.runners import CoroutineRunner, ListenerRunner, ServiceParts, ThreadRunner
from pyromq.client.consumer.popping.leases import LeasedMessage
from pyromq.client.consumer.popping.pop_calls import PopCalls, PopTarget
from pyromq.client.consumer.popping.renewals import LeaseRenewals
from pyromq.client.consumer.popping.settlements import Settlements
from pyromq.client.consumer.rules.outcome import (
    DEAD_LETTER_LEVEL,
    BatchResult,
    ConsumeStatus,
    Outcome,
    SendBack,
    decide,
    give_up,
    letters_of,
)
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import DeadLetterError

logger = logging.getLogger(__name__)

_SUCCESS: Final = ConsumeStatus.SUCCESS
_KINDS: Final = (ConsumeStatus, BatchResult)
_LOOK_S: Final = 1.0


class PopService:
    """One per consumer; the loop owns it. ``counts_of(topic)`` are the counters of a topic."""

    def __init__(self, parts: ServiceParts, calls: PopCalls, counts_of: Callable[[str], TopicCounts]) -> None:
        listener, settings, tasks, send_backs, hook_runner, clock = parts
        self._settings = settings
        self._clock = clock
        self._calls = calls
        self._counts_of = counts_of
        self._hook_runner = hook_runner
        self._is_watched = bool(hook_runner)
        self._recorder = send_backs.recorder
        self.timeout_ms = settings.consume_timeout_ms  # a listener that takes longer has failed
        workers = settings.concurrency_max if listener.is_coroutine else settings.threads
        self._ahead_max = max(POP_BATCH_MAX, 2 * workers * settings.batch_max)
        self._line: deque[LeasedMessage] = deque()
        self._running: dict[LeasedMessage, int] = {}  # and since when, by the monotonic clock
        self._has_room = asyncio.Event()
        self._is_closed = False
        self._is_paused = False
        self._renewals = LeaseRenewals(calls, clock, self._lost)
        self._settlements = Settlements(calls, send_backs, tasks, settings, clock, self._has_room.set)
        runner = CoroutineRunner[TopicCounts] if listener.is_coroutine else ThreadRunner[TopicCounts]
        self._runner: ListenerRunner[Any] = runner(parts, self._next, self._over)
        tasks.start(self._renewals.run(), name="renewals")
        tasks.start(self._watch(), name="consume timeouts")

    def __len__(self) -> int:
        """Messages that are here and not settled."""
        return len(self._line) + len(self._running) + len(self._settlements)

    # --- pausing ---

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @is_paused.setter
    def is_paused(self, paused: bool) -> None:
        self._is_paused = paused
        if not paused:
            self._has_room.set()
            self._runner.wake()

    def resumed(self, queues: Iterable[OwnedQueue]) -> None:
        """No queue belongs to a member in pop mode: all or nothing is paused."""

    def arrived(self, owned: OwnedQueue) -> None:
        """Nothing is pulled in pop mode."""

    async def quiesce(self, queues: Iterable[OwnedQueue], timeout_ms: int) -> None:
        """No queue is given up in pop mode."""

    # --- messages come ---

    async def room(self) -> int:
        """How many more messages may come; waits until some may."""
        while (free := self._ahead_max - len(self)) <= 0 or self._is_paused:
            self._has_room.clear()
            await self._has_room.wait()
        return min(free, POP_BATCH_MAX)

    def took(self, target: PopTarget, messages: list[LeasedMessage], seconds: float) -> None:
        self._counts_of(target.topic).pulled_some(len(messages), seconds)
        self._line += messages
        for message in messages:
            self._renewals.add(message)
        self._runner.wake()

    def _next(self) -> tuple[TopicCounts, list[ReceivedMessage]] | None:
        """The next batch for a free listener: messages of one topic."""
        line = self._line
        if not line or self._is_closed or self._is_paused:
            return None
        first = line.popleft()
        batch: list[ReceivedMessage] = [first]
        topic = first.stored_topic
        while line and len(batch) < self._settings.batch_max and line[0].stored_topic == topic:
            batch.append(line.popleft())
        now_ms = self._clock.monotonic_ms()
        self._running.update((message, now_ms) for message in _leased(batch))
        if self._is_watched:
            self._hook_runner.began(batch)
        return self._counts_of(topic), batch

    # --- listeners are done ---

    def _over(
        self, counts: TopicCounts, batch: list[ReceivedMessage], result: Any, error: Exception | None, seconds: float
    ) -> None:
        if self._is_watched:
            self._hook_runner.ended(batch, result, error, seconds)
        ours = [message for message in _leased(batch) if message in self._running]
        counts.late += len(batch) - len(ours)
        outcome = self._outcome(ours, result, error)
        ok = len(outcome.finished)
        counts.consumed(ok, len(ours) - ok, seconds)
        counts.dead += sum(item.delay_level == DEAD_LETTER_LEVEL for item in outcome.send_back)
        for message in ours:
            del self._running[message]
            self._renewals.discard(message)
        self._settlements.acknowledge(outcome.finished)
        for item in outcome.send_back:
            self._settlements.failed(item)
        self._has_room.set()

    def _outcome(self, batch: list[LeasedMessage], result: Any, error: Exception | None) -> Outcome[LeasedMessage]:
        if error is None and (result is None or result is _SUCCESS):
            return Outcome(finished=batch)
        if isinstance(error, DeadLetterError):
            return self._given_up(batch, error)
        verdict, failure = verdict_of(result, error, _KINDS)
        if failure is not None:
            if batch:
                facts = (batch[0].queue, batch[0].offset, batch[0].message_id)
                logger.warning("listener failed: queue=%s offset=%d id=%s", *facts, exc_info=failure)
            self._recorder.raised(batch, failure)
        else:
            self._recorder.returned_retry(batch)
        return decide(batch, verdict, model=self._settings.model, ladder=self._settings.retry_levels)

    def _given_up(self, batch: list[LeasedMessage], error: DeadLetterError) -> Outcome[LeasedMessage]:
        """Dead letters at once; what was taken with them comes again."""
        letters = letters_of(error, len(batch))
        self._recorder.gave_up(batch, error, letters)
        dead = give_up(batch, letters, model=self._settings.model)
        again = [message for place, message in enumerate(batch) if place not in letters.reasons]
        return Outcome(send_back=[*dead.send_back, *(SendBack(message, Settlements.AT_ONCE) for message in again)])

    # --- what takes too long ---

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            self.give_up_on_late()

    def give_up_on_late(self) -> None:
        """Listeners have had these for too long; what they say later counts for nothing."""
        limit_ms = self._clock.monotonic_ms() - self.timeout_ms
        for message in [message for message, since_ms in self._running.items() if since_ms <= limit_ms]:
            logger.warning("listener too slow: queue=%s offset=%d", message.queue, message.offset)
            del self._running[message]
            self._renewals.discard(message)
            self._counts_of(message.stored_topic).timed_out += 1
            self._recorder.timed_out([message])
            self._settlements.failed(SendBack(message, 0))

    def _lost(self, message: LeasedMessage) -> None:
        """It belongs to somebody else by now: its verdict will count for nothing."""
        logger.warning("message belongs to somebody else by now: id=%s", message.message_id)
        with suppress(ValueError):
            self._line.remove(message)
        self._running.pop(message, None)
        self._has_room.set()

    # --- the end ---

    async def close(self, timeout_ms: int) -> None:
        """Hands out nothing more, releases what waits, waits for listeners and for what becomes of their messages."""
        self._is_closed = True
        deadline_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        waiting, self._line = list(self._line), deque()
        for message in waiting:
            self._renewals.discard(message)
        await self._calls.release_all(waiting)
        if not await self._runner.close(timeout_ms):
            logger.warning("listeners still busy, not waiting longer: their messages will come again")
        await self._settlements.drain(max(0.0, deadline_s - asyncio.get_running_loop().time()))


def _leased(batch: Iterable[ReceivedMessage]) -> list[LeasedMessage]:
    return [message for message in batch if isinstance(message, LeasedMessage)]
