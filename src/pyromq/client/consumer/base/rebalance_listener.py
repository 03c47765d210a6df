"""Rebalance listener: tells the application which queues a consumer has got, and which it is about to lose.

    on_assigned    after a queue was taken, before its first message comes
    on_revoked     before a queue is released: its listeners are done, its offset is not committed yet, and no other
                   member has it; also when the consumer closes

Calls follow each other in the order of what happened. What a function raises is logged and changes nothing; one that
takes too long is no longer waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from pyromq.client.core.tasks import TaskOwner
from pyromq.model.queue import QueueId
from pyromq.typed.listeners import is_coroutine_function

logger = logging.getLogger(__name__)

QueueListener: TypeAlias = Callable[[frozenset[QueueId]], object] | Callable[[frozenset[QueueId]], Awaitable[object]]
"""A coroutine function, or a function, which is called on a thread."""


class RebalanceListener:
    """``on_assigned`` and ``on_revoked`` of one consumer; ``timeout_ms`` is how long each call is waited for."""

    def __init__(
        self, group: str, on_assigned: QueueListener | None, on_revoked: QueueListener | None, timeout_ms: int
    ) -> None:
        self._group = group
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._timeout_ms = timeout_ms
        self._order = asyncio.Lock()

    @property
    def hears_of_assigned(self) -> bool:
        """Whether pulls have to wait for ``assigned``."""
        return self._on_assigned is not None

    async def assigned(self, queues: Iterable[QueueId], tasks: TaskOwner) -> None:
        await self._report("on_assigned", self._on_assigned, queues, tasks)

    async def revoked(self, queues: Iterable[QueueId], tasks: TaskOwner) -> None:
        await self._report("on_revoked", self._on_revoked, queues, tasks)

    async def _report(self, name: str, call: QueueListener | None, queues: Iterable[QueueId], tasks: TaskOwner) -> None:
        if call is not None and (changed := frozenset(queues)):
            # a task of its own: a round that is cancelled leaves it to its end, and the next call waits for that
            await asyncio.shield(tasks.start(self._call(name, call, changed), name=name))

    async def _call(self, name: str, call: QueueListener, queues: frozenset[QueueId]) -> None:
        async with self._order:
            try:
                async with asyncio.timeout(self._timeout_ms / 1000) as limit:
                    if is_coroutine_function(call):
                        await call(queues)  # type: ignore[misc]
                    else:
                        await asyncio.to_thread(call, queues)
            except Exception:  # the application's; the queues change hands either way
                if limit.expired():
                    facts = (name, self._group, self._timeout_ms)
                    logger.warning("%s takes too long, going on without it: group=%s timeout_ms=%d", *facts)
                else:
                    logger.exception("%s failed: group=%s queues=%d", name, self._group, len(queues))
