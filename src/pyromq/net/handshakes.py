"""TLS handshakes of one server: how many are under way at once, what becomes of slow ones, what they leave behind.

A handshake takes tens of kilobytes, and its peer may stop half-way. So at most ``HANDSHAKES_MAX`` are under way, the
next wait for their turn, and while any waits those that have taken longer than ``SLOW_S`` are cut. Their memory is free
again but lies scattered in the heap: a moment after many have failed the allocator is asked to return what it can.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from pyromq.clock import Clock
from pyromq.net.address import Address

logger = logging.getLogger(__name__)

HANDSHAKES_MAX: Final = 1_024
HANDSHAKE_S: Final = 10.0
SLOW_S: Final = 2.0
TRIM_AFTER: Final = 256  # failed handshakes
TRIM_PAUSE_S: Final = 3.0
_CUT_AT_ONCE: Final = 16  # the end of each is work for the loop, which others wait for
_PAUSE_S: Final = 0.02
REPORTED_S: Final = 1.0  # between two warnings of failed ones


def return_free_memory() -> None:
    """Free pages inside the heap go back to the system, where the C library can do that (glibc)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class Handshakes:
    """``async with handshakes.turn(peer_socket)`` around one; ``failed`` when it did not work out."""

    def __init__(
        self, clock: Clock, most: int = HANDSHAKES_MAX, return_memory: Callable[[], None] = return_free_memory
    ) -> None:
        self._clock = clock
        self._turns = asyncio.Semaphore(most)
        self._return_memory = return_memory
        self._under_way: dict[socket.socket, float] = {}  # since when; the oldest first, without those that were cut
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None  # of the next look at slow ones
        self._trimming: asyncio.TimerHandle | None = None
        self._failed = 0  # since memory was returned
        self._unreported = 0
        self._reported_s = -REPORTED_S

    def __len__(self) -> int:
        return len(self._under_way)

    @asynccontextmanager
    async def turn(self, peer_socket: socket.socket) -> AsyncIterator[None]:
        """Wait for a place among the TLS handshakes under way. Raises TimeoutError when none is free in time."""
        await self._wait()
        self._under_way[peer_socket] = self._clock.monotonic_s()
        try:
            yield
        finally:
            self._under_way.pop(peer_socket, None)
            self._turns.release()

    async def _wait(self) -> None:
        self._waiting += 1
        try:
            if self._turns.locked() and self._timer is None:
                self._cut_slow()
            async with asyncio.timeout(HANDSHAKE_S):
                await self._turns.acquire()
        finally:
            self._waiting -= 1

    def _cut_slow(self) -> None:
        """Abort handshakes that take longer than usual, as many as others wait, a few at a time."""
        now_s, next_s = self._clock.monotonic_s(), _PAUSE_S
        for _ in range(min(self._waiting, _CUT_AT_ONCE, len(self._under_way))):
            peer_socket, since_s = next(iter(self._under_way.items()))
            if now_s - since_s < SLOW_S:
                next_s = since_s + SLOW_S - now_s
                break
            del self._under_way[peer_socket]  # each is cut once
            with suppress(OSError):  # the peer is gone already
                peer_socket.shutdown(socket.SHUT_RDWR)
        if self._waiting and self._under_way and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(next_s, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._cut_slow()

    def failed(self, peer: Address, error: Exception) -> None:
        """One warning in a second, with the number of others: a flood of them is not a flood of lines."""
        self._failed += 1
        now_s = self._clock.monotonic_s()
        if now_s - self._reported_s >= REPORTED_S:
            more = f" others={self._unreported}" if self._unreported else ""
            reason = str(error) or type(error).__name__
            logger.warning("connection failed during its handshake: peer=%s error=%s%s", peer, reason, more)
            self._reported_s, self._unreported = now_s, 0
        else:
            self._unreported += 1
        if self._failed >= TRIM_AFTER and self._trimming is None:
            self._trimming = asyncio.get_running_loop().call_later(TRIM_PAUSE_S, self._trim)

    def _trim(self) -> None:
        """Again and again until the last one of the flood is gone."""
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, self._return_memory)
        is_over = not self._under_way and not self._waiting
        self._trimming = None if is_over else loop.call_later(TRIM_PAUSE_S, self._trim)
        self._failed = 0 if is_over else self._failed

    def close(self) -> None:
        """End all handshakes, because the server stops."""
        for timer in (self._timer, self._trimming):
            if timer is not None:
                timer.cancel()
        self._timer = self._trimming = None
