"""Replicas that are scripts: they ask a master for its log and report what they are told to, true or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyromq.net import Address
from pyromq.wire.transfer import SliceDecoder, encode_report


class ScriptedReplica:
    """One connection to the port for replicas. ``honest``: what has arrived is reported, as a replica does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, honest: bool) -> None:
        self._reader, self._writer, self._honest = reader, writer, honest
        self._decoder = SliceDecoder()
        self.received = 0  # bytes of the log
        self.heard = asyncio.Event()  # the master has said something
        self.ended = asyncio.Event()  # the master has ended the connection

    def report(self, position: int) -> None:
        self._writer.write(encode_report(position))

    async def follow(self) -> None:
        """Until the connection ends."""
        try:
            while data := await self._reader.read(1 << 16):
                self.heard.set()
                for position, part in self._decoder.feed(data):
                    self.received += len(part)
                    if self._honest and part:
                        self.report(position + len(part))
        except ConnectionError:
            pass
        finally:
            self.ended.set()


@asynccontextmanager
async def scripted_replica(
    master: Address, first: int, *, honest: bool = True, host: str = "127.0.0.1"
) -> AsyncIterator[ScriptedReplica]:
    """Connects from ``host`` to the port for replicas of the broker at ``master``; ``first`` is its first report."""
    reader, writer = await asyncio.open_connection(master.host, master.port + 1, local_addr=(host, 0))
    replica = ScriptedReplica(reader, writer, honest=honest)
    replica.report(first)
    following = asyncio.create_task(replica.follow())
    try:
        yield replica
    finally:
        writer.transport.abort()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
