"""Connections of the console: uvicorn's protocol, with a time for every request and seats for those who ask.

uvicorn waits for a head, and for a body, as long as its sender likes; and when all connections are taken it refuses the
next. Here one that waits makes room for a newcomer (``httpd.seats``), and a request has to arrive within a minute.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from pyromq.httpd.seats import Seat, Seats

CONNECTIONS_MAX: Final = 1_000
RECEIVE_S: Final = 60.0  # for a request to arrive, and for the next one to begin


class SeatedProtocol(H11Protocol):
    """One connection; ``seats`` are those of the server."""

    def __init__(self, *, seats: Seats, receive_s: float = RECEIVE_S, **given: Any) -> None:
        super().__init__(**given)
        self._seats = seats
        self._receive_s = receive_s
        self._seat: Seat | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._seat = self._seats.take(self.client[0] if self.client else "", transport.abort)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._seat is not None:
            self._seats.leave(self._seat)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._look()

    def on_response_complete(self) -> None:
        if self._seat is not None:
            self._seats.wait(self._seat)
            self._expect()
        super().on_response_complete()
        self._look()  # a request that was sent behind this one

    def _look(self) -> None:
        """Whether a whole request is being answered now."""
        cycle = self.cycle
        if self._seat is not None and cycle is not None and not cycle.response_complete and not cycle.more_body:
            self._stop_timer()
            self._seats.serve(self._seat, is_brief=False)  # if there are too many, this one may have to go

    def _expect(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self._receive_s, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
