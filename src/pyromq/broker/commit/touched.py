"""Touched queues: those with new messages, until readers are notified of them.

Queues of one read that the send lane took come in a list, and are named only when somebody asks for their names: with
thousands of busy queues that would cost more than all else about them, and mostly no pull waits. Names are in the order
of writing, not in that of hashes of text: so the pulls that wait for them are answered in the same order in every run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyromq.broker.base.queue_key import QueueKey
from pyromq.store.derived.queue_tail import QueueTail

_UNNAMED_MAX: Final = 256  # reads; behind a slow flush there could be many


class Touched:
    """Grows until it is read; ``keys`` are all but those of the send lane, which are never the broker's own queues."""

    __slots__ = ("_unnamed", "keys")

    def __init__(self, keys: Iterable[QueueKey] = ()) -> None:
        self.keys: dict[QueueKey, None] = dict.fromkeys(keys)
        self._unnamed: list[list[QueueTail]] = []

    def __bool__(self) -> bool:
        return bool(self.keys or self._unnamed)

    def add_together(self, queues: list[QueueTail]) -> None:
        """Add the queues of what the send lane took of one read."""
        self._unnamed.append(queues)

    def add_all(self, other: Touched) -> None:
        """The other one is not used any more."""
        self.keys |= other.keys
        self._unnamed += other._unnamed
        if len(self._unnamed) > _UNNAMED_MAX:
            self.names()

    def names(self) -> dict[QueueKey, None]:
        """Names of all queues that were written."""
        if self._unnamed:
            named = [(queue.topic, queue.queue_id) for queues in self._unnamed for queue in queues]
            self.keys |= dict.fromkeys(named)
            self._unnamed.clear()
        return self.keys


NO_QUEUES: Final = Touched()
"""Stays empty."""
