"""Health of a run over HTTP, for whoever watches processes: ``/live`` and ``/ready``, 200 or 503, with JSON.

    /live    the process does its work; 503: restart it            /ready   messages are consumed; 503: not yet, no more

A few lines of HTTP/1.1, one request for a connection. Headers are bounded in size and time, connections in number: one
that has not asked yet makes room for the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

import msgspec

from pyromq.errors import ConfigError
from pyromq.seats import Seats

LOOPBACK: Final = "127.0.0.1"
_HEAD_BYTES_MAX: Final = 8_192
_HEAD_S_MAX: Final = 5.0
_CONNECTIONS_MAX: Final = 32
_WORDS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Health(NamedTuple):
    """What a watcher is told."""

    is_live: bool
    is_ready: bool
    facts: dict[str, Any]


class HealthServer:
    """``async with HealthServer(look, port=8080)``; ``look()`` is asked for every request."""

    def __init__(self, look: Callable[[], Health], *, port: int, host: str = LOOPBACK) -> None:
        self._look = look
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None
        self._seats = Seats(_CONNECTIONS_MAX, lambda: asyncio.get_running_loop().time())

    @property
    def port(self) -> int:
        """The one that was chosen, if 0 was asked for."""
        assert self._server is not None
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def __aenter__(self) -> Self:
        """Raises ConfigError when the port cannot be had."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=_HEAD_BYTES_MAX)
        except OSError as error:
            raise ConfigError(f"health endpoint {self._host}:{self._port}: {error.strerror or error}") from error
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        seat = self._seats.take(str(peer[0]) if peer else "", writer.transport.abort)
        if seat is None:
            return
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_HEAD_S_MAX):
                    head = await reader.readuntil(b"\r\n\r\n")
                    self._seats.serve(seat, is_brief=True)
                    writer.write(self._response(head))
                    await writer.drain()
        finally:
            self._seats.leave(seat)
            writer.close()

    def _response(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(400, {"error": "not an HTTP request"})
        method, path = words[0], words[1].partition(b"?")[0]
        if path not in (b"/live", b"/ready"):
            return _response(404, {"error": "there are /live and /ready"}, method)
        if method not in (b"GET", b"HEAD"):
            return _response(405, {"error": "GET or HEAD"})
        health = self._look()
        is_well = health.is_live if path == b"/live" else health.is_live and health.is_ready
        return _response(200 if is_well else 503, health.facts, method)


def _response(status: int, facts: dict[str, Any], method: bytes = b"GET") -> bytes:
    body = msgspec.json.encode(facts)
    head = (
        f"HTTP/1.1 {status} {_WORDS[status]}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
