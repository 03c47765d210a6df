"""A TCP proxy between any two: it cuts, swallows one direction or both, delays, and closes half of a connection.

    client ──▶ Proxy ──▶ target          forward: from who connects to the target; back: the other way

A swallowed byte was taken by the system and reaches nobody, as after a one-way cut of a network: neither side is told.
What a direction has swallowed would be missing in the stream, so a connection that has lost bytes ends when the
direction heals; the two sides connect again, as they do when a network comes back after its timeouts.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from pyromq.net import Address


class Way(Enum):
    FORWARD = "forward"
    BACK = "back"


BOTH = (Way.FORWARD, Way.BACK)


@dataclass(eq=False)
class _Pipe:
    """One direction of one connection."""

    way: Way
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    has_lost: bool = False


class Proxy:
    """``async with Proxy(target) as proxy``; ``target`` may change, for the connections that come then."""

    def __init__(self, target: Address, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.target = target
        self._listen = host, port
        self._server: asyncio.Server | None = None
        self._pipes: set[_Pipe] = set()
        self._closed: set[Way] = set()
        self.delay_s = 0.0  # of every piece, both ways
        self.refuses = False  # connections end as soon as they are made
        self.connections = 0  # that were made so far
        self.forwarded = dict.fromkeys(BOTH, 0)  # bytes that were passed on
        self.swallowed = dict.fromkeys(BOTH, 0)  # and bytes that were not

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, *self._listen)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    @property
    def address(self) -> Address:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    # --- faults ---

    def cut(self) -> None:
        """Every connection is reset now; new ones are made as before."""
        for pipe in list(self._pipes):
            pipe.writer.transport.abort()

    def part(self) -> None:
        """Cut, and nobody gets through until ``heal``."""
        self.refuses = True
        self.cut()

    def swallow(self, *ways: Way) -> None:
        """Bytes of these directions go nowhere until ``heal``; those of connections that are made meanwhile, too."""
        self._closed |= set(ways)

    def half_close(self, way: Way) -> None:
        """The receiver of that direction hears its end; the other direction goes on."""
        for pipe in list(self._pipes):
            if pipe.way is way and pipe.writer.can_write_eof():
                with suppress(OSError):
                    pipe.writer.write_eof()

    def heal(self) -> None:
        self.refuses, self.delay_s = False, 0.0
        self._closed.clear()
        for pipe in list(self._pipes):
            if pipe.has_lost:
                pipe.writer.transport.abort()

    # --- inside ---

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if self.refuses:
                writer.transport.abort()
                return
            up, down = await asyncio.open_connection(self.target.host, self.target.port)
        except OSError:
            return
        else:
            await self._forward((_Pipe(Way.FORWARD, reader, down), _Pipe(Way.BACK, up, writer)))
        finally:
            writer.close()

    async def _forward(self, pipes: tuple[_Pipe, _Pipe]) -> None:
        self._pipes |= set(pipes)
        tasks = [asyncio.ensure_future(self._pump(pipe)) for pipe in pipes]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._pipes -= set(pipes)
            for task in tasks:
                task.cancel()
            for pipe, task in zip(pipes, tasks, strict=True):
                if task.done() and not task.cancelled() and task.exception() is None:
                    pipe.writer.close()  # what was written arrives
                else:
                    pipe.writer.transport.abort()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump(self, pipe: _Pipe) -> None:
        """Until the sender ends its direction; raises OSError when the connection is gone, or has a hole."""
        while data := await pipe.reader.read(1 << 16):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if pipe.way in self._closed:
                pipe.has_lost = True
                self.swallowed[pipe.way] += len(data)
                continue
            if pipe.has_lost:
                raise ConnectionAbortedError
            pipe.writer.write(data)
            await pipe.writer.drain()
            self.forwarded[pipe.way] += len(data)
        if pipe.has_lost:
            raise ConnectionAbortedError
        pipe.writer.write_eof()
