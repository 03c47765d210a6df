"""Listening for gRPC: TLS and plain text on one port, told apart by the first byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyromq.clock import Clock
from pyromq.net.address import Address
from pyromq.net.http2.connection import Http2Connection
from pyromq.net.http2.handler import CallHandler
from pyromq.net.http2.limits import Http2Limits
from pyromq.net.server import ServerListener


class Http2Server(ServerListener[Http2Connection]):
    """``handler`` serves every address; the other arguments are those of every listener."""

    def __init__(
        self,
        handler: CallHandler,
        listen: Sequence[Address],
        *,
        clock: Clock,
        limits: Http2Limits | None = None,
        **listener: Any,
    ) -> None:
        super().__init__(listen, clock=clock, **listener)
        self._handler = handler
        self._limits = limits or Http2Limits()

    def _connection(self, peer: Address) -> Http2Connection:
        return Http2Connection(self._handler, self._clock, self._limits, self._watch, peer, self.half_read)
