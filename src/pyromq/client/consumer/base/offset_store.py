"""Offset store of the application's own: where a consumer goes on is kept beside what it made of the messages.

    class Progress:
        def load(self, queue: QueueId) -> int | None: ...
        def save(self, offsets: Mapping[QueueId, int]) -> None: ...

    PushConsumer(…, offset_store=Progress())

Members of a group share their queues, so they must share the store, too: a queue's next owner loads what the last one
saved. Functions are called on a thread, coroutines on the loop; calls of one consumer never overlap.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol, runtime_checkable

from pyromq.model.queue import QueueId


@runtime_checkable
class OffsetStore(Protocol):
    """Functions or coroutine functions. An offset is that of the next message to be consumed."""

    def load(self, queue: QueueId) -> int | Awaitable[int | None] | None:
        """When a queue is taken; None if nothing was saved for it. While it raises, the queue is not consumed."""

    def save(self, offsets: Mapping[QueueId, int]) -> Awaitable[None] | None:
        """Every ``persist_ms``, when a queue is given up, and at the end. What it raises is logged, and it is called
        again with the same and newer offsets."""
