"""Turns: how many bytes one connection may be given, and may get written, in one loop iteration.

A client with open windows and many calls could otherwise have megabytes of responses made and written for it before
anybody else has a turn. Handlers of large responses wait for a turn that is not spent; frames that are left over go on
in the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_WOKEN: Final = 8  # at the end of a turn: those that find the next one spent wait again


class ByteTurns:
    """The budget of one connection; a turn begins with the first write and ends before the next loop iteration."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bytes_max: int, on_end: Callable[[], None]) -> None:
        self.given = 0  # bytes of responses that handlers made in this turn
        self.left = bytes_max  # of DATA that may still be written in this turn
        self._loop = loop
        self._bytes_max = bytes_max
        self._on_end = on_end
        self._is_open = False
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def is_spent(self) -> bool:
        """Whether this connection was given as many bytes as one turn has, or others wait for the next turn."""
        return self.given >= self._bytes_max or bool(self._waiters)

    def open(self) -> None:
        if not self._is_open:
            self._is_open = True
            self._loop.call_soon(self._end)

    def give(self, size: int) -> None:
        """A handler has made so many bytes of a response."""
        self.given += size
        self.open()

    async def have(self) -> None:
        """Wait for a turn that is not spent, in the order of those who wait; that may be this one."""
        while self.is_spent:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            self.open()
            await waiter
            if self.given < self._bytes_max:
                return

    def _end(self) -> None:
        self._is_open = False
        self.given, self.left = 0, self._bytes_max
        for _ in range(min(_WOKEN, len(self._waiters))):
            waiter = self._waiters.popleft()
            if not waiter.done():  # its call was cancelled
                waiter.set_result(None)
        if self._waiters:
            self.open()
        self._on_end()
