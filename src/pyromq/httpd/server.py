"""A small HTTP/1.1 server for pages that are read: GET and HEAD, bounded in everything.

    bytes of a head     8 KiB, 64 fields           time for a head      5 s from its first byte, 75 s until it begins
    connections         64, see ``seats``          requests on each     1 000, then it is closed
    a slow reader       10 s for every 64 KiB, of a body that all readers share

One request at a time for each connection; what is sent behind it waits its turn. Errors close the connection. Those
that have asked for nothing yet (handshakes of TLS, drops of a head, idle ones) make room for newcomers, oldest first;
what is ``brief`` is answered however many read something long: nobody keeps probes out.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyromq.httpd.head import HEAD_BYTES_MAX, HttpError, HttpRequest, parse_head
from pyromq.httpd.seats import Seat, Seats
from pyromq.net.address import Address

logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 64 * 1024
_HANDSHAKE_S: Final = 5.0
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_METHODS: Final = ("GET", "HEAD")


class HttpResponse(NamedTuple):
    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]
IsBrief = Callable[[HttpRequest], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    connections_max: int = 64
    requests_max: int = 1_000  # on one connection
    head_s: float = 5.0
    idle_s: float = 75.0
    write_s: float = 10.0


class HttpServer:
    """``start`` and ``stop`` on the loop that serves; ``answer`` is awaited for every request."""

    def __init__(
        self,
        answer: Answer,
        *,
        tls: ssl.SSLContext | None = None,
        limits: HttpLimits | None = None,
        is_brief: IsBrief = lambda request: False,
    ) -> None:
        self._answer = answer
        self._tls = tls
        self._limits = limits or HttpLimits()
        self._is_brief = is_brief
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.seats = Seats(self._limits.connections_max, lambda: asyncio.get_running_loop().time())

    @property
    def address(self) -> Address:
        assert self._server is not None, "it has not been started"
        return Address(*self._server.sockets[0].getsockname()[:2])

    @property
    def connection_count(self) -> int:
        return len(self.seats)

    async def start(self, address: tuple[str, int]) -> None:
        """Listen on an address. Raises OSError."""
        self._server = await asyncio.start_server(self._accepted, *address, limit=HEAD_BYTES_MAX)

    async def stop(self) -> None:
        """Closes at once: whoever reads here asks again."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, peer = asyncio.current_task(), writer.get_extra_info("peername")
        assert task is not None
        seat = self.seats.take(str(peer[0]) if peer else "", lambda: writer.transport.abort())
        if seat is None:
            return
        self._serving.add(task)
        try:
            if self._tls is not None:
                await writer.start_tls(self._tls, ssl_handshake_timeout=_HANDSHAKE_S)
            await self._serve(reader, writer, seat)
        except (OSError, TimeoutError, ssl.SSLError):
            writer.transport.abort()
        except asyncio.CancelledError:  # only ``stop`` does that; nobody awaits this task
            writer.transport.abort()
        finally:
            self.seats.leave(seat)
            self._serving.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seat: Seat) -> None:
        for number in range(1, self._limits.requests_max + 1):
            try:
                head = await self._read_head(reader)
                if head is None:
                    return
                request = parse_head(head)
                if not self.seats.serve(seat, is_brief=self._is_brief(request)):
                    raise HttpError(503, "too many others read at the moment, try again in a moment")
                response = await self._response(request)
            except HttpError as error:
                await self._write(writer, _refusal(error), is_last=True)
                return
            is_last = not request.keeps_alive or number == self._limits.requests_max
            await self._write(writer, response, is_last=is_last, without_body=request.method == "HEAD")
            if is_last:
                return
            self.seats.wait(seat)

    async def _read_head(self, reader: asyncio.StreamReader) -> bytes | None:
        """None when the peer closed the connection between two requests, or asked for nothing for long."""
        try:
            async with asyncio.timeout(self._limits.idle_s):
                first = await reader.read(1)
        except TimeoutError:
            return None
        if not first:
            return None
        try:
            async with asyncio.timeout(self._limits.head_s):
                return first + await reader.readuntil(b"\r\n\r\n")
        except TimeoutError as error:
            raise HttpError(408, f"the head of a request takes {self._limits.head_s:g} s at most") from error
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError as error:
            raise HttpError(431, f"the head of a request has {HEAD_BYTES_MAX} bytes at most") from error

    async def _response(self, request: HttpRequest) -> HttpResponse:
        if request.method not in _METHODS:
            return HttpResponse(405, b"GET or HEAD\n", headers=(("Allow", "GET, HEAD"),))
        try:
            return await self._answer(request)
        except HttpError:
            raise
        except Exception:  # a defect of ours must not end the endpoint
            logger.exception("request failed: path=%s", request.path)
            return HttpResponse(500, b"this request met a defect of the server, its log says more\n")

    async def _write(
        self, writer: asyncio.StreamWriter, response: HttpResponse, *, is_last: bool, without_body: bool = False
    ) -> None:
        fields = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close" if is_last else "keep-alive"),
            *response.headers,
        ]
        lines = [
            f"HTTP/1.1 {response.status} {_REASONS[response.status]}",
            *(f"{name}: {value}" for name, value in fields),
        ]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        body = memoryview(b"" if without_body else response.body)
        for start in range(0, len(body), _CHUNK_BYTES):
            await self._drain(writer)
            writer.write(body[start : start + _CHUNK_BYTES])
        await self._drain(writer)

    async def _drain(self, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(self._limits.write_s):
            await writer.drain()


def _refusal(error: HttpError) -> HttpResponse:
    return HttpResponse(error.status, f"{error.text}\n".encode())
