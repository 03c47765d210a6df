"""The proxy itself: a fault that does not happen proves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from pyromq.net import Address
from tests.faults.proxy import BOTH, Proxy, Way
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


@asynccontextmanager
async def echo() -> AsyncIterator[Address]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
            writer.write(b"end")
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()[:2]
        yield Address(host, port)
    finally:
        server.close()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connection(proxy: Proxy) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection(proxy.address.host, proxy.address.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def speaks(streams: Streams) -> None:
    reader, writer = streams
    writer.write(b"one")
    assert await reader.readexactly(3) == b"one"


async def ended(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_bytes_go_both_ways_until_it_cuts() -> None:
    async with echo() as target, Proxy(target) as proxy:
        async with connection(proxy) as streams:
            await speaks(streams)
            proxy.part()
            assert await ended(streams[0]) == b""
        async with connection(proxy) as streams:
            assert await ended(streams[0]) == b"", "nobody gets through"
        proxy.heal()
        async with connection(proxy) as streams:
            await speaks(streams)
        assert proxy.connections == 3


@pytest.mark.parametrize("way", BOTH)
async def test_one_direction_is_swallowed_and_nobody_is_told(way: Way) -> None:
    async with echo() as target, Proxy(target) as proxy:
        async with connection(proxy) as streams:
            await speaks(streams)
            reader, writer = streams
            before = dict(proxy.forwarded)
            proxy.swallow(way)
            writer.write(b"two")
            await until(lambda: proxy.swallowed[way] == 3, "they are swallowed")
            assert proxy.forwarded[way] == before[way]
            assert not reader.at_eof()
            proxy.heal()
            with suppress(OSError):
                writer.write(b"three")
            assert await ended(reader) == b"", "the stream has a hole: it ends, and does not go on behind it"
        async with connection(proxy) as streams:
            await speaks(streams)


async def test_half_of_a_connection_is_closed() -> None:
    async with echo() as target, Proxy(target) as proxy, connection(proxy) as streams:
        await speaks(streams)
        proxy.half_close(Way.FORWARD)
        assert await streams[0].readexactly(3) == b"end", "the target heard the end, and what it answered came back"


async def test_the_target_may_change_and_be_away() -> None:
    async with echo() as first, echo() as second, Proxy(first) as proxy:
        async with connection(proxy) as streams:
            await speaks(streams)
        proxy.target = Address("127.0.0.1", 1)
        async with connection(proxy) as streams:
            assert await ended(streams[0]) == b""
        proxy.target = second
        async with connection(proxy) as streams:
            await speaks(streams)
