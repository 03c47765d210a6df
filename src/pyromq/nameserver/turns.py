"""Turns: the requests of one connection share the loop with those of all others.

A peer may send thousands of requests at once. They are answered in their order, for some milliseconds at a time; then
the loop turns to others, and the connection is not read from until the rest has been answered. While the peer does not
read its responses nothing is answered either, so what waits is at most one read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from pyromq.clock import SystemClock
from pyromq.net import Connection
from pyromq.net.stalls import StallWatch
from pyromq.wire.received import Received

TURN_S: Final = 0.02
Answer = Callable[[Received[Any], Connection], bytes | None]


class Turns:
    """``answer`` carries out one request and gives the frame of its response, if it gets one."""

    def __init__(self, answer: Answer, elapsed_s: Callable[[], float] = SystemClock.monotonic_s) -> None:
        self._answer = answer
        self._elapsed_s = elapsed_s
        self.stalls: StallWatch | None = None  # the server's, which is made later
        self._waiting: dict[Connection, deque[Received[Any]]] = {}

    def take(self, connection: Connection, requests: list[Received[Any]]) -> None:
        """What one read brought."""
        if waiting := self._waiting.get(connection):
            waiting.extend(requests)  # a transport may deliver one more read after it was told to stop
            return
        rest = self._serve(connection, deque(requests))
        if rest:
            self._waiting[connection] = rest
            connection.hold_reading()
            asyncio.get_running_loop().call_soon(self.go_on, connection)

    def go_on(self, connection: Connection) -> None:
        """The next turn of a connection, if it has something left; also when it is not congested any more."""
        waiting = self._waiting.get(connection)
        if waiting is None or connection.is_congested:
            return
        began_s = self.stalls.begin() if self.stalls else 0.0
        code = waiting[0].code
        self._serve(connection, waiting)
        connection.flush()
        if self.stalls:
            self.stalls.ended(began_s, str(code))
        if waiting:
            asyncio.get_running_loop().call_soon(self.go_on, connection)
        else:
            del self._waiting[connection]
            connection.go_on_reading()

    def drop(self, connection: Connection) -> None:
        """The connection has ended."""
        self._waiting.pop(connection, None)

    def _serve(self, connection: Connection, waiting: deque[Received[Any]]) -> deque[Received[Any]]:
        """Answer from the front until the turn is over, or the peer has enough to read."""
        until_s = self._elapsed_s() + TURN_S
        while waiting:
            request = waiting.popleft()
            if (response := self._answer(request, connection)) is not None:
                connection.send(response)
            if self._elapsed_s() >= until_s:
                break
        return waiting
