"""Silent connections are closed: one timer for any number of them, and nothing to do per read or write.

At every sweep a connection's counters are compared with those of the sweep before. Bytes count when they came or left,
not when they were queued, so a peer that has stopped reading is silent however much is meant for it. A connection
is therefore closed between one limit and one limit plus one sweep after its last byte.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from pyromq.clock import Clock

logger = logging.getLogger(__name__)

SWEEPS_PER_LIMIT: Final = 8


class Watched(Protocol):
    """A connection of any protocol, as servers see it."""

    remote_text: str
    half_read_bytes: int

    def quiet_ms(self, now_ms: int) -> int: ...

    def call_when_closed(self, callback: Callable[[Any], None]) -> None: ...

    def close(self, reason: str) -> None: ...

    def abort(self, reason: str) -> None: ...

    def forget_half_read(self) -> None: ...

    async def wait_closed(self) -> None: ...


W = TypeVar("W", bound=Watched)


class IdleWatch(Generic[W]):
    """The open connections of one server, or of one client."""

    def __init__(self, clock: Clock, idle_ms: int) -> None:
        self.connections: set[W] = set()
        self._clock = clock
        self._idle_ms = idle_ms
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: W) -> None:
        self.connections.add(connection)
        connection.call_when_closed(self._discard)
        if self._timer is None and self._idle_ms:
            self._arm()

    def sweep(self) -> None:
        """Closes what has been silent for too long; the timer calls it."""
        now_ms = self._clock.monotonic_ms()
        for connection in list(self.connections):
            if connection.quiet_ms(now_ms) >= self._idle_ms:
                logger.info("idle connection closed: peer=%s idle_ms=%d", connection.remote_text, self._idle_ms)
                connection.abort(f"silent for {self._idle_ms} ms")

    def _arm(self) -> None:
        delay_s = self._idle_ms / SWEEPS_PER_LIMIT / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.sweep()
        if self.connections:
            self._arm()

    def _discard(self, connection: W) -> None:
        self.connections.discard(connection)
        if not self.connections and self._timer is not None:
            self._timer.cancel()
            self._timer = None
