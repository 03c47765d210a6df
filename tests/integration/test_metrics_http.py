"""The HTTP server against peers that do not behave."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop

from pyromq.endpoint.endpoint import Endpoint, Shelter
from pyromq.httpd.head import HEAD_BYTES_MAX, HttpRequest
from pyromq.httpd.server import HttpLimits, HttpResponse, HttpServer
from pyromq.metrics.settings import MetricsSettings
from pyromq.net.address import Address
from tests.integration.certificates import make_certificate

pytestmark = pytest.mark.integration

BODY = b"x" * 300_000
GET = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"


async def answer(request: HttpRequest) -> HttpResponse:
    if request.path == "/defect":
        raise ZeroDivisionError("a defect")
    return HttpResponse(200, BODY if request.path == "/large" else request.path.encode())


class WatchedServer(HttpServer):
    """Says when a connection has ended."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.ended = asyncio.Event()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await super()._accepted(reader, writer)
        finally:
            self.ended.set()


@asynccontextmanager
async def serving(**limits: float) -> AsyncIterator[WatchedServer]:
    bounds = HttpLimits(**limits)  # type: ignore[arg-type]
    server = WatchedServer(answer, limits=bounds, is_brief=lambda request: request.path == "/brief")
    await server.start(Address("127.0.0.1", 0))
    try:
        yield server
    finally:
        await server.stop()


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, server: HttpServer) -> Peer:
        return cls(*await asyncio.open_connection(*server.address))

    async def ask(self, data: bytes, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        self.writer.write(data)
        return await self.response(has_body=has_body)

    async def response(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        body = await self.reader.readexactly(int(headers["Content-Length"])) if has_body else b""
        return int(first.split(" ")[1]), headers, body

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()


async def test_requests_follow_each_other_on_one_connection() -> None:
    async with serving() as server:
        peer = await Peer.of(server)
        assert (await peer.ask(GET))[::2] == (200, b"/a")
        assert (await peer.ask(GET * 3))[2] == b"/a", "pipelined"
        assert [(await peer.response())[0] for _ in range(2)] == [200, 200]
        status, headers, _ = await peer.ask(b"GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert (status, headers["Connection"]) == (200, "close") and await peer.is_closed()
        await peer.close()


async def test_tls_works_where_all_loops_are_those_of_uvloop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path, "metrics")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    monkeypatch.setattr(asyncio, "new_event_loop", uvloop.new_event_loop)
    trusted = ssl.create_default_context(cafile=str(certificate.file))
    async with Endpoint(MetricsSettings(port=0, tls=True), Shelter(tls=context)) as endpoint:
        url = urlsplit(endpoint.url)
        for _ in range(10):
            where = (url.hostname, url.port)
            peer = Peer(*await asyncio.open_connection(*where, ssl=trusted, ssl_handshake_timeout=10))
            assert (await peer.ask(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0] == 200
            await peer.close()


async def test_head_has_the_length_and_no_body() -> None:
    async with serving() as server:
        peer = await Peer.of(server)
        status, headers, _ = await peer.ask(b"HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n", has_body=False)
        assert (status, headers["Content-Length"]) == (200, str(len(BODY)))
        assert (await peer.ask(GET))[2] == b"/a", "nothing lies in between"
        await peer.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
async def test_nothing_but_looking_is_served(method: str) -> None:
    async with serving() as server:
        peer = await Peer.of(server)
        status, headers, _ = await peer.ask(f"{method} /a HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert (status, headers["Allow"]) == (405, "GET, HEAD")
        await peer.close()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * HEAD_BYTES_MAX * 2 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nGET", 413),
    ],
    ids=["tls", "nonsense", "huge", "body"],
)
async def test_what_is_wrong_is_answered_and_the_connection_closed(data: bytes, status: int) -> None:
    async with serving() as server:
        peer = await Peer.of(server)
        assert (await peer.ask(data))[0] == status and await peer.is_closed()
        await peer.close()


async def test_a_defect_is_an_answer_and_the_next_request_is_served(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as server:
        peer = await Peer.of(server)
        assert (await peer.ask(b"GET /defect HTTP/1.1\r\nHost: a\r\n\r\n"))[0] == 500
        assert (await peer.ask(GET))[0] == 200 and "request failed: path=/defect" in caplog.text
        await peer.close()


async def test_a_head_that_never_ends_is_given_up() -> None:
    async with serving(head_s=0.01) as server:
        peer = await Peer.of(server)
        peer.writer.write(b"GET / HT")
        assert (await peer.response())[0] == 408 and await peer.is_closed()
        await peer.close()


async def test_a_peer_that_asks_nothing_is_closed() -> None:
    async with serving(idle_s=0.01) as server:
        peer = await Peer.of(server)
        assert await peer.is_closed()
        await peer.close()


async def test_a_peer_that_does_not_read_is_given_up() -> None:
    async with serving(write_s=0.05) as server:
        peer = await Peer.of(server)
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        large = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"
        peer.writer.write(large * 100)  # more than buffers of the system take
        await server.ended.wait()
        assert not server.connection_count
        peer.writer.transport.abort()


async def test_newcomers_take_the_seats_of_those_that_wait() -> None:
    async with serving(connections_max=4) as server:
        slow = [await Peer.of(server) for _ in range(3)]
        for peer in slow:
            peer.writer.write(b"GET /a HTTP")
        for _ in range(20):
            probe = await Peer.of(server)
            assert (await probe.ask(GET))[0] == 200
            await probe.close()
        assert server.connection_count <= 4
        for peer in slow:
            await peer.close()


async def test_readers_that_take_long_leave_room_for_what_is_brief() -> None:
    async with serving(connections_max=8, write_s=60) as server:
        large = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"
        readers = [await Peer.of(server) for _ in range(4)]
        for peer in readers:
            peer.writer.write(large * 100)  # more than buffers of the system take
            await peer.reader.read(1)  # it is served
        late = await Peer.of(server)
        assert (await late.ask(GET))[0] == 503 and await late.is_closed()
        for _ in range(10):
            probe = await Peer.of(server)
            assert (await probe.ask(b"GET /brief HTTP/1.1\r\nHost: a\r\n\r\n"))[0] == 200
            await probe.close()
        for peer in (*readers, late):
            peer.writer.transport.abort()


async def test_a_connection_serves_so_many_requests() -> None:
    async with serving(requests_max=2) as server:
        peer = await Peer.of(server)
        assert (await peer.ask(GET))[1]["Connection"] == "keep-alive"
        assert (await peer.ask(GET))[1]["Connection"] == "close" and await peer.is_closed()
        await peer.close()


async def test_it_stops_while_peers_are_connected() -> None:
    async with serving() as server:
        peer = await Peer.of(server)
        await peer.ask(GET)
        peer.writer.write(b"GET / HT")
    assert await peer.is_closed()
    await peer.close()
