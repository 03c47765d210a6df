"""Committed offsets in a store of the application: functions are called on a thread, coroutines on the loop."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Collection, Mapping
from typing import Any

from pyromq.client.consumer.base.offset_store import OffsetStore
from pyromq.client.consumer.rules.offset_store import MemberOffsets
from pyromq.client.consumer.rules.start_offset import Stored
from pyromq.model.queue import Offset, QueueId

logger = logging.getLogger(__name__)


class UserOffsets:
    """An ``OffsetKeeper`` over the application's store."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self.table = MemberOffsets()
        self._given_up: dict[QueueId, int] = {}  # not saved yet
        self._saving: set[asyncio.Task[None]] = set()
        self._one = asyncio.Lock()

    async def open(self) -> None:
        """There is nothing to claim."""

    async def close(self) -> None:
        """The last word of queues that were given up."""
        if self._saving:
            await asyncio.gather(*self._saving)

    async def stored(self, queue: QueueId) -> int | Stored:
        try:
            async with self._one:
                offset = await _call(self._store.load, queue)
        except Exception as error:  # the store is the application's
            logger.error("offset not loaded, trying again later: queue=%s", queue, exc_info=error)
            return Stored.UNREADABLE
        if offset is None:
            return Stored.NONE
        if not isinstance(offset, int) or isinstance(offset, bool):
            logger.error("offset_store.load must return a whole number or None: queue=%s got=%r", queue, offset)
            return Stored.UNREADABLE
        return offset

    async def keep_start(self, queue: QueueId, offset: Offset) -> None:
        """The application's store hears of it at once, unless it fails: then with the next offsets."""
        await self._save({queue: offset})

    async def persist(self, owned: Collection[QueueId]) -> None:
        await self._save({**self._given_up, **self.table.of(owned)})

    def give_up(self, queue: QueueId) -> None:
        offset = self.table.forget(queue)
        if offset is not None:
            self._given_up[queue] = offset
            task = asyncio.get_running_loop().create_task(self._save({queue: offset}))
            self._saving.add(task)
            task.add_done_callback(self._saving.discard)

    async def _save(self, offsets: Mapping[QueueId, int]) -> None:
        if not offsets:
            return
        given_up = dict(self._given_up)
        try:
            async with self._one:
                await _call(self._store.save, dict(offsets))
        except Exception as error:  # the store is the application's
            logger.error("offsets not saved, trying again later: queues=%d", len(offsets), exc_info=error)
            return
        for queue in offsets.keys() & given_up.keys():  # saved now, or older than what was: it must not come later
            if self._given_up.get(queue) == given_up[queue]:
                del self._given_up[queue]


async def _call(function: Any, argument: object) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(argument)
    return await asyncio.to_thread(function, argument)
