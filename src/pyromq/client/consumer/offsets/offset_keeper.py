"""Committed offsets: at the broker for a group that shares its queues, in a file for one that broadcasts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Protocol

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.offsets.offsets_file import OffsetsFile, encode_offsets
from pyromq.client.consumer.rules.offset_store import MemberOffsets
from pyromq.client.consumer.rules.start_offset import Stored
from pyromq.errors import BrokerError, MQError
from pyromq.model.queue import Offset, QueueId

logger = logging.getLogger(__name__)


class OffsetKeeper(Protocol):
    """``table`` is what consuming moves forward; the keeper makes it last."""

    table: MemberOffsets

    async def open(self) -> None:
        """Before anything else. Raises ConfigError."""

    async def close(self) -> None:
        """Release files; called after everything else."""

    async def stored(self, queue: QueueId) -> int | Stored:
        """Where a queue that was just granted goes on. Raises nothing: what cannot be read is UNREADABLE."""

    async def keep_start(self, queue: QueueId, offset: Offset) -> None:
        """Commits where a queue starts that had no offset, before it is read: a restart skips nothing from there on.

        Raises TransportError, and the queue is tried again later; a start that is refused is logged.
        """

    async def persist(self, owned: Collection[QueueId]) -> None:
        """All offsets of owned queues."""

    def give_up(self, queue: QueueId) -> None:
        """The last offset of a queue that another member gets."""


class BrokerOffsets:
    """Clustering: the broker that has a queue knows how far the group is."""

    def __init__(self, calls: BrokerCalls) -> None:
        self._calls = calls
        self.table = MemberOffsets()

    async def open(self) -> None:
        """The broker serves all members."""

    async def close(self) -> None:
        """What was committed is committed."""

    async def stored(self, queue: QueueId) -> int | Stored:
        try:
            return await self._calls.stored_offset(queue)
        except MQError as error:
            logger.warning("stored offset not read, trying again later: queue=%s error=%s", queue, error)
            return Stored.UNREADABLE

    async def keep_start(self, queue: QueueId, offset: Offset) -> None:
        try:
            await self._calls.commit_surely(queue, offset)
        except BrokerError as error:
            logger.warning("start not committed, a restart may skip messages: queue=%s error=%s", queue, error)

    async def persist(self, owned: Collection[QueueId]) -> None:
        self._calls.commit(self.table.of(owned))

    def give_up(self, queue: QueueId) -> None:
        offset = self.table.forget(queue)
        if offset is not None:
            self._calls.commit({queue: offset})


class FileOffsets:
    """Broadcasting: only this machine knows how far it is. The file belongs to one member at a time."""

    def __init__(self, file: OffsetsFile) -> None:
        self._file = file
        self._is_loaded = False
        self._written = -1
        self._saving = asyncio.Lock()  # two threads at the same file would tear it
        self.table = MemberOffsets()

    async def open(self) -> None:
        """Open the file of a broadcasting member. Raises ConfigError when another member has it."""
        await asyncio.to_thread(self._file.claim)

    async def close(self) -> None:
        self._file.give_back()

    async def stored(self, queue: QueueId) -> int | Stored:
        if not self._is_loaded:
            try:
                self.table = MemberOffsets(await asyncio.to_thread(self._file.load))
            except (MQError, OSError) as error:
                logger.error("offsets cannot be read, nothing is consumed until they can: error=%s", error)
                return Stored.UNREADABLE
            self._is_loaded, self._written = True, self.table.revision
        offset = self.table.read(queue)
        self.table.thaw(queue)
        return Stored.NONE if offset is None else offset

    async def keep_start(self, queue: QueueId, offset: Offset) -> None:
        self.table.update(queue, offset)
        await self.persist([queue])

    async def persist(self, owned: Collection[QueueId]) -> None:
        async with self._saving:
            revision = self.table.revision
            if not self._is_loaded or revision == self._written:
                return
            text = encode_offsets(self.table.snapshot())
            try:
                await asyncio.to_thread(self._file.save, text)
            except OSError as error:
                logger.error("offsets not written: error=%s", error)
            else:
                self._written = revision

    def give_up(self, queue: QueueId) -> None:
        """The file remembers it; the next ``persist`` writes it."""
