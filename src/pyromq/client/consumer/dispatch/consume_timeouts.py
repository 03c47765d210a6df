"""Consume timeouts: listeners that take too long are found when their time is over, not at the next round of some scan.

The listener that runs longest is the next whose time can be over, and one that begins later ends later. So a look now
says when to look again: when the oldest is due, or after one whole timeout when none runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.clock import Clock
from pyromq.waiting import set_within

Late = Callable[[OwnedQueue, list[ReceivedMessage]], None]


class ConsumeTimeouts:
    """``late(queue, messages)`` is notified of each message once; ``timeout_ms`` may be changed at any time."""

    def __init__(self, clock: Clock, timeout_ms: int, late: Late) -> None:
        self._clock = clock
        self._late = late
        self._timeout_ms = timeout_ms
        self._changed = asyncio.Event()

    @property
    def timeout_ms(self) -> int:
        return self._timeout_ms

    @timeout_ms.setter
    def timeout_ms(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._changed.set()

    async def run(self, queues: Callable[[], Iterable[OwnedQueue]]) -> None:
        while True:
            self._changed.clear()
            await set_within(self._changed, self.look(list(queues())) / 1000)

    def look(self, queues: Iterable[OwnedQueue]) -> int:
        """Gives up on those whose time is over; returns how long until the next look."""
        now_ms = oldest_ms = self._clock.monotonic_ms()
        for owned in queues:
            buffer = owned.settle()
            if late := buffer.timed_out(self._timeout_ms):
                self._late(owned, late)
            taken_ms = buffer.oldest_taken_ms
            if taken_ms is not None and taken_ms < oldest_ms:
                oldest_ms = taken_ms
        return max(1, oldest_ms + self._timeout_ms - now_ms)
