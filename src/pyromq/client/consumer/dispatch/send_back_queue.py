"""Send-back queue: many failed messages are on their way back at once, but not more than a broker can bear.

    add ──▶ line ──▶ fast path: a request on an open connection, and a callback on its response ──taken──▶ over
                └──▶ slow path: a task ◀── no connection, congested; refused, no response ──────┘ ────────▶ over

What stands in line is still in its buffer, so flow control bounds the line too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.base.send_back import Begun, is_taken
from pyromq.client.consumer.dispatch.send_back import SendBacks
from pyromq.client.consumer.rules.outcome import SendBack
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import ClientClosedError

logger = logging.getLogger(__name__)

AT_ONCE_MAX: Final = 64

Over = Callable[[OwnedQueue, ReceivedMessage, bool], None]
Item = SendBack[ReceivedMessage]


class SendBackQueue:
    """``over(queue, message, is_sent)`` is called on the loop for every message that was added."""

    def __init__(self, send_backs: SendBacks, tasks: TaskOwner, over: Over, *, at_once_max: int = AT_ONCE_MAX) -> None:
        self._send_backs = send_backs
        self._tasks = tasks
        self._over = over
        self._at_once_max = at_once_max
        self._line: deque[tuple[OwnedQueue, Item]] = deque()
        self._under_way = 0
        self._quiet = asyncio.Event()  # set when nothing is under way; ``drain`` waits for it

    def __len__(self) -> int:
        """How many wait; those under way do not count."""
        return len(self._line)

    def add(self, owned: OwnedQueue, items: Iterable[Item]) -> None:
        for item in items:
            self._line.append((owned, item))
        self._go_on()

    def _go_on(self) -> None:
        while self._line and self._under_way < self._at_once_max:
            owned, item = self._line.popleft()
            self._under_way += 1
            if owned.is_released:  # its next owner gets the message from there
                self._ended(owned, item, False)
            elif item.reason:  # a dead letter with properties of ours
                self._take_slow_path(owned, item, None)
            elif (begun := self._send_backs.begin(item.message, item.delay_level)) is not None:
                begun.add_done_callback(partial(self._answered, owned, item))
            else:
                self._take_slow_path(owned, item, None)
        if not self._under_way:
            self._quiet.set()

    def _answered(self, owned: OwnedQueue, item: Item, begun: Begun) -> None:
        if is_taken(begun):
            self._ended(owned, item, True)
        else:
            self._take_slow_path(owned, item, begun)
        self._go_on()

    def _take_slow_path(self, owned: OwnedQueue, item: Item, begun: Begun | None) -> None:
        try:
            self._tasks.start(self._send_back(owned, item, begun), name="send back")
        except ClientClosedError:  # the consumer is gone, and its message comes again elsewhere
            self._ended(owned, item, False)

    async def _send_back(self, owned: OwnedQueue, item: Item, begun: Begun | None) -> None:
        is_sent = False
        try:
            if item.reason:
                is_sent = await self._send_backs.give_up(item.message, item.reason, item.stage)
            else:
                is_sent = await self._send_backs.send_back(item.message, item.delay_level, begun)
        except Exception:  # a mistake of ours must not cost a message
            logger.exception("failed message kept here: id=%s", item.message.message_id)
        finally:
            self._ended(owned, item, is_sent)
            self._go_on()

    def _ended(self, owned: OwnedQueue, item: Item, is_sent: bool) -> None:
        self._under_way -= 1
        self._over(owned, item.message, is_sent)

    async def drain(self, timeout_ms: int) -> bool:
        """Waits for all of them; False when some are left."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                while self._under_way:
                    self._quiet.clear()
                    await self._quiet.wait()
        return not self._under_way
