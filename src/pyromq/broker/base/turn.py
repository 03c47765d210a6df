"""A share of the loop: how much of what one peer asks is done before others have their turn.

Requests that follow each other without waiting arrive in one read, hundreds of them. Sends are quick and share a
commit, so they all go through; of everything else only as many as fit in a moment. The rest waits, in order, while
nothing more is read from that connection; connections that wait take turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from pyromq.clock import Clock
from pyromq.net.connection import Connection
from pyromq.wire.codes import RequestCode
from pyromq.wire.received import Received

SHARE_MS: Final = 20
QUICK: Final = frozenset(
    map(
        int,
        (
            RequestCode.SEND_MESSAGE,
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.SEND_BATCH_MESSAGE,
            RequestCode.END_TRANSACTION,
            RequestCode.CONSUMER_SEND_MSG_BACK,
        ),
    )
)
"""Requests after which nobody looks at the clock."""

Handle = Callable[[Connection, Received[Any]], None]


class Turns:
    """Hands requests on; owner of those that wait for the next turn of their connection."""

    def __init__(self, clock: Clock, handle: Handle, at_end: Callable[[], None]) -> None:
        self._clock = clock
        self._handle = handle
        self._at_end = at_end
        self._waiting: dict[Connection, list[Received[Any]]] = {}  # the next to have its turn first

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def take(self, connection: Connection, requests: list[Received[Any]]) -> None:
        if connection in self._waiting:
            self._waiting[connection] += requests
            return
        self._work(connection, requests)

    def drop(self, connection: Connection) -> None:
        """It is closed."""
        self._waiting.pop(connection, None)

    def _work(self, connection: Connection, requests: list[Received[Any]]) -> None:
        handle, until_ms = self._handle, 0
        for number, request in enumerate(requests, 1):
            handle(connection, request)
            if request.code in QUICK or number == len(requests):
                continue
            now_ms = self._clock.monotonic_ms()
            until_ms = until_ms or now_ms + SHARE_MS
            if now_ms >= until_ms:
                self._put_off(connection, requests[number:])
                break
        self._at_end()

    def _put_off(self, connection: Connection, requests: list[Received[Any]]) -> None:
        connection.hold_reading()
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        self._waiting[connection] = requests

    def _next(self) -> None:
        """The turn of the connection that waits longest."""
        if not self._waiting:
            return
        connection = next(iter(self._waiting))
        requests = self._waiting.pop(connection)
        others = bool(self._waiting)
        self._work(connection, requests)
        connection.flush()
        if connection not in self._waiting:
            connection.go_on_reading()
        if others:
            asyncio.get_running_loop().call_soon(self._next)
