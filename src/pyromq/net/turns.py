"""Turns: the requests of one connection share the loop with those of all others.

A peer may send thousands of requests without waiting; hundreds of them arrive in one read. They are served in their
order, for some milliseconds at a time; the rest waits while nothing more is read from that connection. Connections that
wait take turns, and other events of the loop come between two of these. While a peer does not read its responses
nothing is served to it either, so what waits is at most one read.

Thousands of connections may each bring one request in the same loop iteration, as after a restart. What is not quick,
or is much, shares one allowance of all of them: when it is used up, the others wait as well, in order, and a few quick
requests pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator
from typing import Any, Final

from pyromq.net.connection import Connection
from pyromq.net.stalls import StallWatch
from pyromq.wire.received import Received

TURN_S: Final = 0.005
FEW: Final = 32  # quick requests of one read that wait for no other connection; nobody looks at a clock for these
REFUSED: Final = "requests that could not be read"
Serve = Callable[[Connection, Iterator[Received[Any]]], bool]
"""Serves from the iterator until it is empty, or its turn is over (see ``TURN_S``): True when something may be left."""


class Turns:
    """Owner of the requests that wait for the next turn of their connection."""

    def __init__(self, serve: Serve, now_s: Callable[[], float], quick: Container[int] = frozenset()) -> None:
        """``quick``: codes that never wait for other connections."""
        self._serve = serve
        self._now_s = now_s
        self._quick = quick
        self._until_s = 0.0  # when the allowance of this loop iteration is used up; 0: nothing has asked for it yet
        self.stalls: StallWatch | None = None  # the server's, which is made later
        self.waiting: dict[Connection, list[Received[Any]]] = {}  # what comes of these now must not overtake that
        self._ready: dict[Connection, None] = {}  # of those, whose peers read; the next to have its turn first
        self._is_arranged = False  # that these have their turns

    def __len__(self) -> int:
        """Number of requests that wait."""
        return sum(map(len, self.waiting.values()))

    def take(self, connection: Connection, requests: list[Received[Any]]) -> None:
        """What one read brought, or a piece of it."""
        if connection in self.waiting:
            self.waiting[connection] += requests
            return
        is_much = len(requests) > FEW or requests[0].code not in self._quick
        if is_much and self.is_used_up():
            self._wait(connection, requests)
            return
        coming = iter(requests)
        if self._serve(connection, coming) and (rest := list(coming)):
            self._wait(connection, rest)

    def serve_now(self, connection: Connection, requests: list[Received[Any]]) -> None:
        """Serve what came before anything that waits here; the caller sees to it that this is not much at once."""
        self._serve(connection, iter(requests))

    def spent(self, connection: Connection) -> None:
        """Something was done for a connection that never becomes a request: what comes of it now may have to wait."""
        if connection not in self.waiting and self.is_used_up():
            self._wait(connection, [])

    def is_used_up(self) -> bool:
        """Whether all connections together have had their allowance of this loop iteration."""
        return self._now_s() >= self.until_s()

    def until_s(self) -> float:
        """When all but a few quick requests have to stop, of all connections together, in this loop iteration."""
        if not self._until_s:
            self._until_s = self._now_s() + TURN_S
            asyncio.get_running_loop().call_soon(self._turn_is_over)
        return self._until_s

    def _turn_is_over(self) -> None:
        self._until_s = 0.0

    def _wait(self, connection: Connection, requests: list[Received[Any]]) -> None:
        self.waiting[connection] = requests
        connection.hold_reading()
        self.go_on(connection)

    def go_on(self, connection: Connection) -> None:
        """The connection is not congested: it gets a turn if it has something left."""
        if connection in self.waiting:
            self._ready[connection] = None
            self._arrange()

    def drop(self, connection: Connection) -> None:
        """Drop the requests of a connection that has ended."""
        self.waiting.pop(connection, None)
        self._ready.pop(connection, None)

    def _arrange(self) -> None:
        if self._ready and not self._is_arranged:
            self._is_arranged = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """The turns of the connections that wait longest, as many as fit into the allowance; one at least."""
        self._is_arranged = False
        until_s = self.until_s()
        while self._ready:
            connection = next(iter(self._ready))
            del self._ready[connection]
            if not connection.is_congested:  # else ``go_on`` comes when its peer has read
                self._turn(connection)
            if self._now_s() >= until_s:
                break
        self._arrange()

    def _turn(self, connection: Connection) -> None:
        requests = self.waiting[connection]
        began_s = self.stalls.begin() if self.stalls else 0.0
        coming = iter(requests)
        rest = list(coming) if self._serve(connection, coming) else []
        if rest:
            self.waiting[connection] = rest
            self.go_on(connection)
        else:
            del self.waiting[connection]
            connection.go_on_reading()  # which may bring the next ones
        connection.flush()
        if self.stalls:
            self.stalls.ended(began_s, str(requests[0].code) if requests else REFUSED)
