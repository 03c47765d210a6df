"""Concurrent consuming: batches of any queue to any free listener, progress by the smallest unfinished offset.

    arrived ──▶ line of queues with messages ──▶ runner takes a batch when a listener is free ──▶ over
                        ▲                                                                         │ success: finish
                        └────── after five seconds, what no broker takes back ◀── give back ◀─────┘ failure

Queues stand in a line and each gives one batch before the next has its turn, so a busy queue starves nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from pyromq.client.consumer_settings import PushConsumerSettings
from pyromq.client.listeners import Listener, checked
from pyromq.client.outcome import TIMED_OUT_LEVEL, BatchResult, ConsumeStatus, Outcome, SendBack, decide
from pyromq.client.owned_queue import OwnedQueue
from pyromq.client.received_message import ReceivedMessage
from pyromq.client.returns import Returns
from pyromq.client.runners import CoroutineRunner, ThreadRunner
from pyromq.client.tasks import TaskOwner
from pyromq.wire.heartbeat import MessageModel

logger = logging.getLogger(__name__)

_SUCCESS: Final = ConsumeStatus.SUCCESS
_KINDS: Final = (ConsumeStatus, BatchResult)


class ConcurrentService:
    """One per consumer; the loop owns it. Progress is in the buffers, for whoever commits it."""

    def __init__(
        self,
        listener: Listener,
        settings: PushConsumerSettings,
        tasks: TaskOwner,
        returns: Returns,
    ) -> None:
        self._settings, self._tasks, self._returns = settings, tasks, returns
        self._batch_max, self._messages_max = settings.batch_max, settings.limits.messages_max
        self._line: deque[OwnedQueue] = deque()
        self._giving_back: set[asyncio.Task[Any]] = set()
        self._is_closed = self.is_paused = False
        runner: type[CoroutineRunner] | type[ThreadRunner] = CoroutineRunner if listener.is_coroutine else ThreadRunner
        self._runner = runner(listener, settings, tasks, self._next, self._over)

    # --- messages come ---

    def arrived(self, owned: OwnedQueue) -> None:
        """Messages wait in a buffer, or may be handed out again."""
        if not owned.is_listed and not self._is_closed:
            owned.is_listed = True
            self._line.append(owned)
            self._runner.wake()

    def resumed(self, queues: Iterable[OwnedQueue]) -> None:
        for owned in queues:
            self.arrived(owned)

    def _next(self) -> tuple[OwnedQueue, list[ReceivedMessage]] | None:
        """The next batch for a free listener."""
        line = self._line
        if self.is_paused:
            for owned in line:
                owned.is_listed = False
            line.clear()
        while line and not self._is_closed:
            owned = line.popleft()
            batch = owned.take(self._batch_max) if not owned.is_silent else None
            if not batch:
                owned.is_listed = False
                continue
            owned.batches_out += 1
            line.append(owned)
            return owned, batch
        return None

    # --- listeners are done ---

    def _over(
        self, owned: OwnedQueue, batch: list[ReceivedMessage], result: Any, error: Exception | None, seconds: float
    ) -> None:
        if error is None and (result is None or result is _SUCCESS):
            owned.succeeded(batch, seconds, self._messages_max)
            return
        owned.batches_out -= 1
        self._failed(owned, batch, result, error, seconds)

    def _finish(self, owned: OwnedQueue, messages: Iterable[ReceivedMessage]) -> None:
        owned.buffer.finish(messages)
        owned.made_room(self._messages_max)

    def _failed(
        self, owned: OwnedQueue, batch: list[ReceivedMessage], result: Any, error: Exception | None, seconds: float
    ) -> None:
        verdict: ConsumeStatus | BatchResult | None = None
        try:
            if error is not None:
                raise error
            verdict = checked(result, _KINDS)
        except Exception as cause:
            facts = (owned.queue, batch[0].offset, batch[0].message_id)
            logger.warning("listener failed: queue=%s offset=%d id=%s", *facts, exc_info=cause)
        outcome = decide(batch, verdict, model=self._settings.model)
        ok = len(outcome.finished)
        owned.counts.consumed(ok, len(batch) - ok, seconds)
        for message in outcome.dropped:
            logger.warning("failed message dropped, as broadcasting does: id=%s", message.message_id)
        self._settle(owned, outcome)

    def _settle(self, owned: OwnedQueue, outcome: Outcome[ReceivedMessage]) -> None:
        out = {message.offset for message in owned.buffer.still_out([item.message for item in outcome.send_back])}
        send_back = [item for item in outcome.send_back if item.message.offset in out]
        self._finish(owned, [*outcome.finished, *outcome.dropped])
        if send_back:
            task = self._tasks.start(self._give_back(owned, send_back), name="give back")
            self._giving_back.add(task)
            task.add_done_callback(self._giving_back.discard)

    async def _give_back(self, owned: OwnedQueue, items: list[SendBack[ReceivedMessage]]) -> None:
        not_sent = set[int]()
        for item in items:
            attempt = owned.buffer.delivery_attempt(item.message)
            try:
                is_sent = await self._returns.give_back(item.message, item.delay_level, attempt)
            except Exception:  # a mistake of ours must not cost a message
                logger.exception("failed message kept here: id=%s", item.message.message_id)
                is_sent = False
            if not is_sent:
                not_sent.add(item.message.offset)
        settled = Outcome(send_back=items).settled(not_sent)
        self._finish(owned, settled.finished)
        if settled.put_back:
            delay_s = self._settings.retry_wait_ms / 1000
            asyncio.get_running_loop().call_later(delay_s, self._again, owned, settled.put_back)

    def _again(self, owned: OwnedQueue, messages: Iterable[ReceivedMessage]) -> None:
        if not owned.buffer.dropped and not self._is_closed:
            owned.buffer.put_back(messages)
            self.arrived(owned)

    # --- listeners that take too long ---

    async def watch(self, queues: Callable[[], Iterable[OwnedQueue]]) -> None:
        """The task that gives back what a listener has had for too long; its late verdict counts for nothing."""
        if self._settings.model is MessageModel.BROADCASTING:
            return
        timeout_ms = self._settings.consume_timeout_ms
        while True:
            await asyncio.sleep(timeout_ms / 1000)
            for owned in list(queues()):
                if late := owned.buffer.timed_out(timeout_ms):
                    logger.warning("listener too slow, messages given back: queue=%s count=%d", owned.queue, len(late))
                    self._settle(owned, Outcome(send_back=[SendBack(each, TIMED_OUT_LEVEL) for each in late]))

    # --- the end ---

    async def quiesce(self, queues: Iterable[OwnedQueue], timeout_ms: int) -> None:
        """Concurrent consumers give queues up at once: what is under way comes again elsewhere."""

    async def close(self, timeout_ms: int) -> None:
        """Hands out nothing more, waits for listeners and for what they failed with."""
        self._is_closed = True
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        if not await self._runner.close(timeout_ms):
            logger.warning("listeners still busy, not waiting longer: their messages will come again")
        if self._giving_back:
            left = max(0.0, deadline - asyncio.get_running_loop().time())
            await asyncio.wait(self._giving_back, timeout=left)
