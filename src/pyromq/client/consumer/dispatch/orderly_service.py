"""Orderly consuming: one batch of a queue after the other, and only while the broker's lock on the queue is held.

A queue with messages gets a run: one task that takes, calls the listener, concludes, and takes again. A failing
message ends the run and the queue rests; the messages behind it wait. Different queues are consumed at the same time,
as many as there are threads, or as coroutines may run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from pyromq.client.consumer.base.listeners import checked
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.dispatch.dead_letters import report_dead_letters
from pyromq.client.consumer.dispatch.runners import ServiceParts
from pyromq.client.consumer.rules.orderly_outcome import (
    OrderlyOutcome,
    OrderlyResult,
    OrderlyStatus,
    OrderlyStep,
    decide_orderly,
    give_up_orderly,
)
from pyromq.client.consumer.rules.outcome import Letters, attempts_max, letters_of
from pyromq.client.consumer.rules.queue_state import RunState
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import DeadLetterError

logger = logging.getLogger(__name__)

_KINDS: Final = (OrderlyStatus, OrderlyResult)
_SLICE_S: Final = 0.005  # how long coroutines that never wait may keep the loop from everything else


class OrderlyService:
    """One per consumer; the loop owns it. ``lost(queue)`` is notified of a queue whose lock is not held any more.

    Progress is in the buffers; GroupMember commits it.
    """

    def __init__(self, parts: ServiceParts, lost: Callable[[OwnedQueue], None] | None) -> None:
        listener, settings, tasks, send_backs, hook_runner, clock = parts
        self._listener = listener
        self._settings = settings
        self._tasks = tasks
        self._send_backs = send_backs
        self._hook_runner = hook_runner
        self._now_s = clock.monotonic_s
        self._lost = lost
        self._slots = asyncio.Semaphore(settings.concurrency_max if listener.is_coroutine else settings.threads)
        self._attempts_max = attempts_max(settings.attempts_max)
        self._runs: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.is_paused = False  # by the application, all queues at once

    def arrived(self, owned: OwnedQueue) -> None:
        """Messages wait in a buffer, or may be handed out again."""
        if owned.run_state is RunState.IDLE and self._may_go_on(owned) and owned.settle().has_waiting:
            run = self._tasks.start(self._run(owned), name="orderly run")
            owned.begin_run(run)
            self._runs.add(run)
            run.add_done_callback(self._runs.discard)

    def resumed(self, queues: Iterable[OwnedQueue]) -> None:
        for owned in queues:
            self.arrived(owned)

    def _may_go_on(self, owned: OwnedQueue) -> bool:
        return owned.may_hand_out and not self._is_closed and not self.is_paused

    async def _run(self, owned: OwnedQueue) -> None:
        slice_began = self._now_s()
        try:
            while await self._step(owned):
                if self._now_s() - slice_began > _SLICE_S:
                    await asyncio.sleep(0)
                    slice_began = self._now_s()
        finally:
            owned.end_run()

    async def _step(self, owned: OwnedQueue) -> bool:
        """One batch; False when the run is over."""
        async with self._slots:
            if not self._may_go_on(owned):
                return False
            if not self._is_ours(owned):
                return False
            batch = owned.take(self._settings.batch_max)
            if not batch:
                return False
            verdict = await self._verdict(owned, batch)
        if not self._is_ours(owned):
            return False
        outcome = await self._send_dead_letters(owned, self._decide(batch, verdict))
        if not self._is_ours(owned):
            return False
        self._conclude(owned, outcome)
        owned.made_room(self._settings.limits.messages_max)
        if not outcome.goes_on:
            owned.rest()
            asyncio.get_running_loop().call_later(outcome.rest_ms / 1000, self._rested, owned)
        return outcome.goes_on

    def _is_ours(self, owned: OwnedQueue) -> bool:
        """Whether a verdict on its messages counts; a queue whose lock has run out is given up."""
        if not owned.is_ours:
            return False
        if self._lost is not None and not owned.lock.held:
            self._lost(owned)
            return False
        return True

    async def _verdict(
        self, owned: OwnedQueue, batch: list[ReceivedMessage]
    ) -> OrderlyStatus | OrderlyResult | Letters | None:
        """What the listener says; None when it raised, Letters when it said by that which messages are hopeless."""
        began, verdict, letters = self._now_s(), None, None
        failure: Exception | None = None
        if self._hook_runner:
            self._hook_runner.began(batch)
        try:
            result: Any = await self._listener.invoke(batch)
            verdict = OrderlyStatus.SUCCESS if result is None else checked(result, _KINDS)
        except DeadLetterError as error:
            failure, letters = error, letters_of(error, len(batch))
        except Exception as error:  # the listener is the application's: its messages have failed
            failure = error
            facts = (self._send_backs.group, owned.queue, batch[0].offset, batch[0].message_id)
            logger.warning("listener failed, queue rests: group=%s queue=%s offset=%d id=%s", *facts, exc_info=error)
        self._report(batch, verdict, failure, letters)
        status = verdict.status if isinstance(verdict, OrderlyResult) else verdict
        is_ok = status in (OrderlyStatus.SUCCESS, OrderlyStatus.COMMIT)
        count, seconds = len(batch), self._now_s() - began
        self._listener.took(seconds)
        if letters is not None:
            report_dead_letters(self._send_backs.group, owned, batch, letters, seconds)
        else:
            owned.counts.consumed(count if is_ok else 0, 0 if is_ok else count, seconds)
        if self._hook_runner:
            self._hook_runner.ended(batch, verdict, failure, seconds)
        return letters if letters is not None else verdict

    def _report(
        self,
        batch: list[ReceivedMessage],
        verdict: OrderlyStatus | OrderlyResult | None,
        error: Exception | None,
        letters: Letters | None,
    ) -> None:
        """Why they failed, if they did: messages are tried here again, and the story grows with them."""
        recorder = self._send_backs.recorder
        if error is None:
            status = verdict.status if isinstance(verdict, OrderlyResult) else verdict
            if status is OrderlyStatus.SUSPEND:
                recorder.returned_retry(batch)
        elif letters is not None:
            recorder.gave_up(batch, error, letters)
        else:
            recorder.raised(batch, error)

    def _decide(
        self, batch: list[ReceivedMessage], verdict: OrderlyStatus | OrderlyResult | Letters | None
    ) -> OrderlyOutcome[ReceivedMessage]:
        if isinstance(verdict, Letters):
            return give_up_orderly(batch, verdict, auto_commit=self._settings.auto_commit)
        return decide_orderly(
            batch,
            verdict,
            auto_commit=self._settings.auto_commit,
            attempts_max=self._attempts_max,
            suspend_ms=self._settings.rest_ms,
        )

    async def _send_dead_letters(
        self, owned: OwnedQueue, outcome: OrderlyOutcome[ReceivedMessage]
    ) -> OrderlyOutcome[ReceivedMessage]:
        if outcome.warning:
            logger.warning("%s: queue=%s", outcome.warning, owned.queue)
        not_sent = set[int]()
        for message in outcome.dead:
            if reason := outcome.reasons.get(message.offset):
                is_sent = await self._send_backs.give_up(message, reason, outcome.stage)
            else:
                is_sent = await self._send_backs.send_dead_letter(message)
            if not is_sent:
                not_sent.add(message.offset)
        return outcome.settled(not_sent) if outcome.dead else outcome

    def _conclude(self, owned: OwnedQueue, outcome: OrderlyOutcome[ReceivedMessage]) -> None:
        buffer = owned.settle()
        match outcome.step:
            case OrderlyStep.COMMIT:
                buffer.commit_taken()
            case OrderlyStep.ROLL_BACK:
                buffer.roll_back_taken()
            case OrderlyStep.PUT_BACK:
                buffer.finish(outcome.dead)
                buffer.put_back(outcome.put_back, failed=not outcome.reasons)
            case OrderlyStep.KEEP:
                pass

    def _rested(self, owned: OwnedQueue) -> None:
        owned.end_rest()
        self.arrived(owned)

    # --- the end ---

    async def quiesce(self, queues: Iterable[OwnedQueue], timeout_ms: int) -> None:
        """Waits for the runs of queues that nothing more is handed out of."""
        runs = [owned.run for owned in queues if owned.run is not None]
        if runs:
            await asyncio.wait(runs, timeout=timeout_ms / 1000)

    async def close(self, timeout_ms: int) -> None:
        """Hands out nothing more and waits for listeners."""
        self._is_closed = True
        if self._runs and (await asyncio.wait(self._runs, timeout=timeout_ms / 1000))[1]:
            logger.warning("listeners still busy, not waiting longer: their messages will come again")
