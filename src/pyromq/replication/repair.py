"""Repair: what a scrub found damaged in the log of a replica is fetched again from its master, and verified.

    damaged range ─▶ connect as a copy that is not counted ─▶ whole records, checked ─▶ written, synced

The log of a replica is its master's, byte for byte; what does not fit where the damage was is not written. Until
everything is mended the replica does not follow: it is in nobody's set, and nobody makes it master. What the master has
deleted cannot be mended, and keeps nobody from following: the master does not serve it either. Nor does what turns out
to be whole: a damaged queue entry may have led to a place where no record begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from pyromq.errors import CorruptRecordError, RemoteProtocolError
from pyromq.net.address import Address
from pyromq.store.log.log_walk import DamagedRange
from pyromq.store.message_store import MessageStore
from pyromq.store.scrub import Scrub, mend, sync_of
from pyromq.wire.transfer import SliceDecoder, encode_report

logger = logging.getLogger(__name__)

_CONNECT_S: Final = 5.0
_SILENCE_S: Final = 10.0
_READ_BYTES: Final = 1 << 18


class LogRepair:
    """Owned by a follower, on its loop."""

    def __init__(self, store: MessageStore, scrub: Scrub) -> None:
        self._store = store
        self._scrub = scrub

    @property
    def is_needed(self) -> bool:
        return bool(self._scrub.damaged)

    async def run(self, address: Address, introduce: Callable[[], Awaitable[bytes]], first: int) -> None:
        """From a master whose log begins at ``first``; what is said to it at the start of a connection is good for one.

        Raises MQError, OSError, TimeoutError; what was mended by then stays mended.
        """
        for damaged in list(self._scrub.damaged):
            size = damaged.end - damaged.position
            if damaged.position < first:
                logger.error(
                    "damage not mended, the master has deleted it: position=%d bytes=%d", damaged.position, size
                )
                self._scrub.mended(damaged.position)
                continue
            try:
                await self._mend(damaged, address, await introduce())
            except (CorruptRecordError, TimeoutError):  # the master has no such record
                if await asyncio.to_thread(self._scrub.is_damaged, damaged):
                    raise
                logger.warning("no damage there after all: position=%d bytes=%d", damaged.position, size)
                self._scrub.mended(damaged.position)
                continue
            logger.warning("damage mended: position=%d bytes=%d", damaged.position, size)

    async def _mend(self, damaged: DamagedRange, address: Address, introduction: bytes) -> None:
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(address.host, address.port)
        try:
            asked = max(1, damaged.position)  # 0 would mean the last file
            writer.write(introduction + encode_report(asked))
            await self._take(reader, damaged, asked)
        finally:
            writer.close()
        if (sync := sync_of(self._store, damaged.position)) is not None:
            await asyncio.to_thread(sync)
        self._scrub.mended(damaged.position)

    async def _take(self, reader: asyncio.StreamReader, damaged: DamagedRange, asked: int) -> None:
        decoder, position, coming = SliceDecoder(), damaged.position, asked
        buffer = bytearray(asked - damaged.position)  # the first byte of a log is 0
        while position < damaged.end:
            async with asyncio.timeout(_SILENCE_S):
                data = await reader.read(_READ_BYTES)
            if not data:
                raise RemoteProtocolError("the master ended the connection while it mended damage: it may lack it")
            for at, part in decoder.feed(data):
                if part and at != coming:
                    raise RemoteProtocolError(f"the master sent position {at}, but {coming} comes next")
                buffer += part
                coming += len(part)
            taken = mend(self._store, position, damaged.end, buffer)
            del buffer[:taken]
            position += taken
