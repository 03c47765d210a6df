"""Concurrent consuming: batches of any queue to any free listener, progress by the smallest unfinished offset.

    arrived ──▶ line of queues with messages ──▶ runner takes a batch when a listener is free ──▶ over
                        ▲                                                                         │ success: consumed
                        └── after five seconds, what no broker takes ◀── send-back ◀──────────────┘ failure, timeout

Queues stand in a line and each gives one batch before the next one does, so a busy queue does not starve the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from pyromq.client.consumer.base.listeners import verdict_of
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.dispatch.dead_letters import report_dead_letters
from pyromq.client.consumer.dispatch.runners import CoroutineRunner, ListenerRunner, ServiceParts, ThreadRunner
from pyromq.client.consumer.dispatch.send_back_queue import SendBackQueue
from pyromq.client.consumer.rules.outcome import (
    TIMED_OUT_LEVEL,
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
from pyromq.wire.json.heartbeat import MessageModel

logger = logging.getLogger(__name__)

_SUCCESS: Final = ConsumeStatus.SUCCESS
_KINDS: Final = (ConsumeStatus, BatchResult)


class ConcurrentService:
    """One per consumer; the loop owns it. Progress is in the buffers; GroupMember commits it."""

    def __init__(self, parts: ServiceParts) -> None:
        listener, settings, tasks, send_backs, hook_runner, _ = parts
        self._settings = settings
        self._hook_runner = hook_runner
        self._batch_max = settings.batch_max
        self._messages_max = settings.limits.messages_max
        self._line: deque[OwnedQueue] = deque()  # queues with messages
        self._listed: set[OwnedQueue] = set()  # those in the line
        self._recorder = send_backs.recorder
        self._group = send_backs.group
        self._send_back_queue = SendBackQueue(send_backs, tasks, self._sent_back)
        self._is_closed = False
        self.is_paused = False  # by the application, all queues at once
        self._is_watched = bool(hook_runner)
        runner = CoroutineRunner[OwnedQueue] if listener.is_coroutine else ThreadRunner[OwnedQueue]
        self._runner: ListenerRunner[Any] = runner(parts, self._next, self._over)

    # --- messages come ---

    def arrived(self, owned: OwnedQueue) -> None:
        """Messages wait in a buffer, or may be handed out again."""
        if owned not in self._listed and not self._is_closed:
            self._listed.add(owned)
            self._line.append(owned)
            self._runner.wake()

    def resumed(self, queues: Iterable[OwnedQueue]) -> None:
        for owned in queues:
            self.arrived(owned)

    def _next(self) -> tuple[OwnedQueue, list[ReceivedMessage]] | None:
        """The next batch for a free listener."""
        line = self._line
        if self.is_paused:
            self._listed.clear()
            line.clear()
        while line and not self._is_closed:
            owned = line.popleft()
            batch = owned.take(self._batch_max) if owned.may_hand_out else None
            if not batch:
                self._listed.discard(owned)
                continue
            line.append(owned)
            if self._is_watched:
                self._hook_runner.began(batch)
            return owned, batch
        return None

    # --- listeners are done ---

    def _over(
        self, owned: OwnedQueue, batch: list[ReceivedMessage], result: Any, error: Exception | None, seconds: float
    ) -> None:
        if self._is_watched:
            self._hook_runner.ended(batch, result, error, seconds)
        if error is None and (result is None or result is _SUCCESS):
            owned.succeeded(batch, seconds, self._messages_max)
            return
        self._failed(owned, batch, result, error, seconds)

    def _failed(
        self, owned: OwnedQueue, batch: list[ReceivedMessage], result: Any, error: Exception | None, seconds: float
    ) -> None:
        if isinstance(error, DeadLetterError):
            self._give_up(owned, batch, error, seconds)
            return
        verdict, failure = verdict_of(result, error, _KINDS)
        if failure is not None:
            facts = (self._group, owned.queue, batch[0].offset, batch[0].message_id)
            logger.warning("listener failed: group=%s queue=%s offset=%d id=%s", *facts, exc_info=failure)
        settings = self._settings
        outcome = decide(batch, verdict, model=settings.model, ladder=settings.retry_levels)
        self._report([item.message for item in outcome.send_back], failure)
        ok = len(outcome.finished)
        owned.counts.consumed(ok, len(batch) - ok, seconds)
        self._settle(owned, outcome)

    def _give_up(self, owned: OwnedQueue, batch: list[ReceivedMessage], error: DeadLetterError, seconds: float) -> None:
        """Dead letters at once; what was taken with them is handed out again."""
        letters = letters_of(error, len(batch))
        report_dead_letters(self._group, owned, batch, letters, seconds)
        self._recorder.gave_up(batch, error, letters)
        self._settle(owned, give_up(batch, letters, model=self._settings.model))
        if again := [message for place, message in enumerate(batch) if place not in letters.reasons]:
            owned.settle().put_back(again, failed=False)
            self.arrived(owned)

    def _report(self, failed: list[ReceivedMessage], error: Exception | None) -> None:
        """Why they go back; without an error their listener said so."""
        if error is not None:
            self._recorder.raised(failed, error)
        else:
            self._recorder.returned_retry(failed)

    def _settle(self, owned: OwnedQueue, outcome: Outcome[ReceivedMessage]) -> None:
        """Verdicts on messages that were given up on, or put back meanwhile, are counted and passed over."""
        for message in outcome.dropped:
            logger.warning("failed message dropped, as broadcasting does: id=%s", message.message_id)
        buffer = owned.settle()
        late = buffer.consumed([*outcome.finished, *outcome.dropped])
        leaving = buffer.begin_leaving([item.message for item in outcome.send_back])
        if not owned.is_released:
            owned.counts.late += late + len(outcome.send_back) - len(leaving)
        owned.made_room(self._messages_max)
        offsets = {message.offset for message in leaving}
        self._send_back_queue.add(owned, (item for item in outcome.send_back if item.message.offset in offsets))

    def _sent_back(self, owned: OwnedQueue, message: ReceivedMessage, is_sent: bool) -> None:
        if is_sent:
            owned.settle().finish([message])
            owned.made_room(self._messages_max)
        elif not owned.is_released:
            delay_s = self._settings.retry_wait_ms / 1000
            asyncio.get_running_loop().call_later(delay_s, self._again, owned, message)

    def _again(self, owned: OwnedQueue, message: ReceivedMessage) -> None:
        if not owned.is_released and not self._is_closed:
            owned.settle().put_back([message])
            self.arrived(owned)

    def give_up_on(self, owned: OwnedQueue, late: list[ReceivedMessage]) -> None:
        """Listeners have had these for too long; what they say later counts for nothing."""
        facts = (self._group, owned.queue, late[0].offset, late[0].message_id, len(late))
        logger.warning("listener too slow: group=%s queue=%s offset=%d id=%s count=%d", *facts)
        owned.counts.timed_out += len(late)
        if self._settings.model is MessageModel.BROADCASTING:
            self._settle(owned, Outcome(dropped=late))
        else:
            self._recorder.timed_out(late)
            self._settle(owned, Outcome(send_back=[SendBack(message, TIMED_OUT_LEVEL) for message in late]))

    # --- the end ---

    async def quiesce(self, queues: Iterable[OwnedQueue], timeout_ms: int) -> None:
        """Concurrent consumers give queues up at once: what is under way comes again elsewhere."""

    async def close(self, timeout_ms: int) -> None:
        """Hands out nothing more, waits for listeners and for what they failed with."""
        self._is_closed = True
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        if not await self._runner.close(timeout_ms):
            logger.warning("listeners still busy, not waiting longer: their messages will come again")
        await self._send_back_queue.drain(max(0, int((deadline - asyncio.get_running_loop().time()) * 1000)))
