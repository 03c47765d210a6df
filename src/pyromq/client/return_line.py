"""The line of failed messages: many are on their way back at once, but not more than a broker can bear.

What stands in line is still in its buffer, so flow control bounds the line too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from pyromq.client.outcome import SendBack
from pyromq.client.owned_queue import OwnedQueue
from pyromq.client.received_message import ReceivedMessage
from pyromq.client.returns import Returns
from pyromq.client.tasks import TaskOwner, this_task

logger = logging.getLogger(__name__)

AT_ONCE_MAX: Final = 64

Over = Callable[[OwnedQueue, ReceivedMessage, bool], None]


class ReturnLine:
    """``over(queue, message, is_sent)`` is called on the loop for every message that was added."""

    def __init__(self, returns: Returns, tasks: TaskOwner, over: Over, *, at_once_max: int = AT_ONCE_MAX) -> None:
        self._returns, self._tasks, self._over, self._at_once_max = returns, tasks, over, at_once_max
        self._line: deque[tuple[OwnedQueue, SendBack[ReceivedMessage]]] = deque()
        self._workers: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """How many wait; those under way do not count."""
        return len(self._line)

    def add(self, owned: OwnedQueue, items: Iterable[SendBack[ReceivedMessage]]) -> None:
        for item in items:
            self._line.append((owned, item))
            if len(self._workers) < self._at_once_max:
                worker = self._tasks.start(self._work(), name="give back")
                self._workers.add(worker)
                worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        try:
            while self._line:
                owned, item = self._line.popleft()
                self._over(owned, item.message, await self._give_back(owned, item))
        finally:
            self._workers.discard(this_task())  # at once: what is added before the task counts as done needs another

    async def _give_back(self, owned: OwnedQueue, item: SendBack[ReceivedMessage]) -> bool:
        if owned.buffer.dropped:  # whoever has the queue now gets the message from there
            return False
        try:
            return await self._returns.give_back(item.message, item.delay_level)
        except Exception:  # a mistake of ours must not cost a message
            logger.exception("failed message kept here: id=%s", item.message.message_id)
            return False

    async def drain(self, timeout_ms: int) -> bool:
        """Waits for all of them; False when some are left."""
        if not self._workers:
            return True
        return not (await asyncio.wait(self._workers, timeout=timeout_ms / 1000))[1]
