"""The health endpoint, asked politely and otherwise."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.app.health import HealthServer, RunHealth
from pyromq.errors import ConfigError

pytestmark = pytest.mark.integration

END = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    found = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return found


async def test_live_and_ready_say_what_they_are_told() -> None:
    health = RunHealth(True, False, {"state": "starting"})
    async with HealthServer(lambda: health, port=0) as server:
        live = await ask(server.port, b"GET /live" + END)
        assert live.startswith(b"HTTP/1.1 200 OK\r\n") and live.endswith(b'\r\n\r\n{"state":"starting"}')
        assert (await ask(server.port, b"GET /ready?x=1" + END)).startswith(b"HTTP/1.1 503 ")
        health = RunHealth(True, True, {})
        assert (await ask(server.port, b"GET /ready HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        head = await ask(server.port, b"HEAD /ready" + END)
        assert head.startswith(b"HTTP/1.1 200 ") and head.endswith(b"\r\n\r\n")
        health = RunHealth(False, True, {})
        assert (await ask(server.port, b"GET /ready" + END)).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /" + END, b"404"),
        (b"POST /live" + END, b"405"),
        (b"\x16\x03\x01\r\n\r\n", b"400"),
        (b"GET /live\r\n\r\n", b"400"),
        (b"GET /live HTTP/2\r\n\r\n", b"400"),
    ],
)
async def test_other_requests_are_refused(request_: bytes, status: bytes) -> None:
    async with HealthServer(lambda: RunHealth(True, True, {}), port=0) as server:
        assert (await ask(server.port, request_)).split(b" ")[1] == status


async def test_a_head_that_does_not_end_is_cut_off() -> None:
    async with HealthServer(lambda: RunHealth(True, True, {}), port=0) as server:
        with pytest.raises(ConnectionError):
            assert b" 431 " in await ask(server.port, b"GET /live HTTP/1.1\r\n" + b"x" * 100_000)
            raise ConnectionError  # a reset and a refusal are both right
        assert b"200" in await ask(server.port, b"GET /live" + END)


async def test_a_port_that_is_taken_is_a_mistake_of_settings() -> None:
    async with HealthServer(lambda: RunHealth(True, True, {}), port=0) as server:
        with pytest.raises(ConfigError, match="health endpoint"):
            async with HealthServer(lambda: RunHealth(True, True, {}), port=server.port):
                pass


async def test_connections_that_ask_for_nothing_make_room_for_probes() -> None:
    async with HealthServer(lambda: RunHealth(True, True, {}), port=0) as server:
        slow = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(100)]
        for _, writer in slow:
            writer.write(b"GET /li")
        for _ in range(20):
            assert (await ask(server.port, b"GET /live" + END)).startswith(b"HTTP/1.1 200 ")
        for _, writer in slow:
            writer.transport.abort()
