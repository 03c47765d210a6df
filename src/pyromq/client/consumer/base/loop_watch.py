"""Loop watch: notices that a coroutine listener keeps the event loop from everything else, and says so once.

A tick every half second says when the loop last had a turn. A listener that took long is no news while the loop ticks;
one during which it did not tick has blocked it: heartbeats, pulls and lock renewals waited, too.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

logger = logging.getLogger(__name__)

TICK_S: Final = 0.5
BLOCKED_S: Final = 1.0


class LoopWatch:
    """For one consumer whose listener is a coroutine; ``run`` is its task."""

    def __init__(self, listener_name: str) -> None:
        self._listener_name = listener_name
        self._ticked: float | None = None  # by the loop's clock; None while ``run`` does not run
        self._stall: tuple[float, float] = (0.0, 0.0)  # the last time without ticks, from and to
        self._has_said_so = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._ticked = loop.time()
        try:
            while True:
                await asyncio.sleep(TICK_S)
                self.tick(loop.time())
        finally:
            self._ticked = None

    def tick(self, now: float) -> None:
        if self._ticked is not None and now - self._ticked > TICK_S + BLOCKED_S:
            self._stall = (self._ticked, now)
        self._ticked = now

    def took(self, seconds: float, now: float) -> None:
        """A listener took longer than ``BLOCKED_S``, until now."""
        if self._has_said_so or self._ticked is None:
            return
        blocked = now - self._ticked if now - self._ticked > TICK_S + BLOCKED_S else 0.0
        if not blocked and self._stall[1] > now - seconds:
            blocked = self._stall[1] - self._stall[0]
        if blocked:
            self._has_said_so = True
            logger.warning(
                "coroutine listener blocks the event loop: listener=%s seconds=%.1f; await what waits, or make it a "
                "function: those run on threads",
                self._listener_name,
                blocked,
            )
