"""Watched server: what a test sees of, and does to, the requests and responses of a server.

    bytes ─▶ WatchedConnection ─▶ Watcher ─▶ the server's own handler ─▶ WatchedConnection ─▶ bytes

Servers are what they are everywhere; they are only handed another class for their listening side. The watcher stands
between a connection and the handler: it hands requests on, or does something else with them; and it hears of the
responses that it waits for, and may keep them from leaving.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pyromq.net import Address, Connection, Handler, Server
from pyromq.net.connection import Part
from pyromq.net.handler import FastPath
from pyromq.testing.traffic.memory_network import MemoryNetwork
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.header_errors import HeaderFieldError
from pyromq.wire.received import Received, decode_received

logger = logging.getLogger(__name__)

OnResponse = Callable[[Received[Any]], bool]
"""Called with a response before it leaves; False keeps it from leaving."""

Handle = Callable[[Received[Any]], None]
"""What the server makes of a request."""


class WatchedConnection(Connection):
    """``awaited`` says, by correlation id, who wants to see which response."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.awaited: dict[int, list[OnResponse]] = {}

    def call_with_response(self, request: Received[Any], call: OnResponse) -> None:
        if not request.is_oneway:
            self.awaited.setdefault(request.correlation_id, []).append(call)

    def use_fast_path(self, fast_path: FastPath | None) -> None:
        """Has none: the watcher sees every request."""

    def send(self, frame: bytes) -> None:
        if not self.awaited or self._may_leave(frame):
            super().send(frame)

    def queue(self, frames: bytes, count: int = 1) -> bool:
        return (not self.awaited or self._may_leave(frames)) and super().queue(frames, count)

    def send_now(self, frames: bytes, count: int = 1) -> None:
        if not self.awaited or self._may_leave(frames):
            super().send_now(frames, count)
        else:
            self.flush()  # of what was queued before it

    def send_parts(self, head: bytes, parts: Iterable[Part]) -> None:
        whole = tuple(parts)
        if not self.awaited or self._may_leave(head + b"".join(whole)):
            super().send(head)
            self._queue.extend(whole)
            self._body_parts += len(whole)

    def _may_leave(self, data: bytes) -> bool:
        for frame in FrameDecoder().feed(data):
            received = decode_received(frame)
            if received.is_response:
                answers = [call(received) for call in self.awaited.pop(received.correlation_id, ())]
                return all(answers)
        return True


class Watcher(Protocol):
    """What a test makes of the traffic of one server."""

    def on_request(self, connection: WatchedConnection, request: Received[Any], handle: Handle) -> None:
        """Calls ``handle``, which is the server, or does not: now, later, more than once."""

    def is_away(self) -> bool:
        """Whether the server is away, so that nobody can connect."""


class _WatchedHandler(Handler):
    """Hands everything to the server's own handler, requests by way of the watcher."""

    def __init__(self, handler: Handler, watcher: Watcher) -> None:
        self._handler = handler
        self._watcher = watcher
        self.on_connected = handler.on_connected  # type: ignore[method-assign]
        self.on_congested = handler.on_congested  # type: ignore[method-assign]
        self.on_drained = handler.on_drained  # type: ignore[method-assign]
        self.on_disconnected = handler.on_disconnected  # type: ignore[method-assign]

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        assert isinstance(connection, WatchedConnection)
        at_once: list[Received[Any]] = []
        is_now = True

        def handle(request: Received[Any]) -> None:
            if is_now:
                at_once.append(request)
            elif connection.is_open:
                self._handler.on_requests(connection, [request])

        for request in requests:
            self._watcher.on_request(connection, request, handle)
        is_now = False
        if at_once and connection.is_open:
            self._handler.on_requests(connection, at_once)

    def on_bad_header(self, connection: Connection, error: HeaderFieldError) -> None:
        self._handler.on_bad_header(connection, error)


class WatchedServer(Server):
    """``partial(WatchedServer, watcher=…, network=…)`` takes the place of ``Server``."""

    connection_type = WatchedConnection

    def __init__(
        self, handler: Handler, *arguments: Any, watcher: Watcher, network: MemoryNetwork | None = None, **named: Any
    ) -> None:
        super().__init__(_WatchedHandler(handler, watcher), *arguments, **named)
        self._watcher = watcher
        self._network = network

    async def start(self) -> None:
        if self._network is None:
            await super().start()
            return
        self.addresses = [self._network.listen(address, self._accept_inside) for address in self._listen]
        logger.info("listening in memory: addresses=%s", ",".join(map(str, self.addresses)))

    def _close_listeners(self) -> None:
        if self._network is not None:
            for address in self.addresses:
                self._network.leave(address)
        super()._close_listeners()

    def _accept_inside(self, peer: Address, wanted: Address) -> Connection | None:
        return None if self._refuses(peer) else self._connection(peer)

    def _refuses(self, peer: Address) -> bool:
        return self._watcher.is_away() or super()._refuses(peer)

    def cut(self, reason: str) -> None:
        """Every connection ends, with all that is unsent."""
        for connection in self.connections:
            connection.abort(reason)

    def vanish(self, reason: str) -> None:
        """Nobody listens any more, and every connection ends: as when the process dies."""
        self._close_listeners()
        for task in self._greeting - self._handing_over:
            task.cancel()
        self.cut(reason)
