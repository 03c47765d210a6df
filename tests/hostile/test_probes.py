"""Connections that send a request drop by drop, or nothing: probes and visitors are answered beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import pytest

from pyromq.testing import AsyncServerProcess
from tests.hostile.rig import beside_honest_client, count, victim
from tests.hostile.test_connections import with_files_for

pytestmark = pytest.mark.integration

Record = Callable[[str, object], None]
DRIPPING = 200
PROBES = count(30, 300)
DROP_S = 0.5


def split(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)


async def drip(address: str) -> None:
    """A head that never ends; a connection that was cut comes back."""
    while True:
        writer = None
        try:
            _, writer = await asyncio.open_connection(*split(address))
            writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n")
            while not writer.transport.is_closing():
                await asyncio.sleep(DROP_S)
                writer.write(b"X")
                await writer.drain()
        except OSError:
            await asyncio.sleep(DROP_S)
        finally:
            if writer is not None:
                writer.transport.abort()


@asynccontextmanager
async def dripping(address: str, number: int) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(drip(address)) for _ in range(number)]
    await asyncio.sleep(2 * DROP_S)  # all of them are there, and took what they could
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def status_of(address: str, path: str) -> int:
    """0: no answer."""
    with suppress(OSError, asyncio.IncompleteReadError):
        reader, writer = await asyncio.open_connection(*split(address))
        with closing(writer):
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 20)
            return int(head.split(b" ")[1])
    return 0


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
async def test_dripping_connections_do_not_keep_probes_out(path: str, tmp_path: Path, record_property: Record) -> None:
    async with victim(tmp_path) as server:
        what = f"dripping connections beside {path}"
        async with beside_honest_client(server, what, DRIPPING, record_property):
            async with dripping(server.metrics, DRIPPING):
                found = [await status_of(server.metrics, path) for _ in range(PROBES)]
        assert found == [200] * PROBES


async def test_dripping_connections_do_not_keep_visitors_of_the_console_out(tmp_path: Path) -> None:
    number = with_files_for(1_200)  # more than the console has at once
    flags = ("--nameserver", "127.0.0.1:1")
    async with AsyncServerProcess("console", *flags, data=tmp_path / "console") as console:
        address = console.addresses["console"].removeprefix("http://")
        async with dripping(address, number):
            answers = [await status_of(address, "/login") for _ in range(PROBES)]
        assert answers == [200] * PROBES
