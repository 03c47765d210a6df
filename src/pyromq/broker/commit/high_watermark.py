"""High watermark: the position up to which consumers of a sync master may read (RocketMQ: confirmOffset).

    stored, waits for replicas ─▶ hidden ─▶ answered: confirmed, late, or without a replica in sync ─▶ visible

A replica that takes over gives the offsets of what it never got to other messages; a consumer that had read the first
ones would pass over the others, and those may have been acknowledged. What is visible never becomes invisible.

Under a failover agent the replicas count that may become master by themselves, those that the lease names: what one of
them lacks stays hidden, also after it was answered without it. Where the lease names none, nobody takes over.

A master that opens its log does not know what was shown of it before. To show less than that would set consumers back,
to show more could set them ahead of a replica. So it shows nothing (``is_shut``: pulls are refused) until it is granted
its time, and the replicas that the lease names have all that the log had then.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from pyromq.broker.base.queue_key import QueueKey
from pyromq.store.message_store import EVERYTHING, MessageStore

_UNREPORTED_MAX: Final = 256  # commits whose queues are kept one by one; those of later ones together


class HighWatermark:
    """Owned by the replica stage, on the loop. It answers questions and calls nobody.

    ``required``: how far the replicas are that the lease names; None when it names none.
    """

    def __init__(self, store: MessageStore, *, is_shut: bool = False) -> None:
        self._store = store
        self._safe = store.visible_end  # may be seen up to here
        # end, queues: not all of it has become visible
        self._unreported: deque[tuple[int, dict[QueueKey, None]]] = deque()
        self._reported = self._safe  # ``advance`` has returned the queues of what lies before
        self.is_shut = is_shut
        self._opened_end = store.end_position

    @property
    def end(self) -> int:
        """Readers see up to here."""
        return self._store.visible_end

    @property
    def is_hiding(self) -> bool:
        return self._store.visible_max != EVERYTHING

    def hide_new(self) -> None:
        """Something was stored in this loop iteration and waits from now on; no reader has seen it yet."""
        if self._store.visible_max == EVERYTHING:
            self._store.visible_max = self._safe

    def confirm(self, position: int) -> None:
        """What ends there or before was answered."""
        self._safe = max(self._safe, position)

    def add(self, queues: dict[QueueKey, None]) -> None:
        """More of these queues was stored; ``advance`` follows."""
        if len(self._unreported) >= _UNREPORTED_MAX:
            queues = self._unreported.pop()[1] | queues
        self._unreported.append((self._store.end_position, queues))

    def open_if_ready(self, required: int | None) -> bool:
        """There is a lease: stop being shut if replicas have what the log had; True when that has just happened."""
        if not self.is_shut or (required is not None and required < self._opened_end):
            return False
        self.is_shut = False
        return True

    def advance(self, required: int | None, *, everything: bool) -> dict[QueueKey, None]:
        """Show what is safe by now, and return the queues of which more is visible; ``everything``: nothing waits."""
        self._store.visible_max = self._most(required, everything)
        everything = everything and not self.is_hiding
        visible = self._store.visible_end
        if everything:
            self._safe = visible
        if visible == self._reported and not everything:
            return {}  # a reader that looked would see nothing new
        self._reported = visible
        queues: dict[QueueKey, None] = {}
        for _, touched in self._unreported:
            queues |= touched
        while self._unreported and (everything or self._unreported[0][0] <= visible):
            self._unreported.popleft()
        return queues

    def _most(self, required: int | None, everything: bool) -> int:
        store = self._store
        shown = self._safe if store.visible_max == EVERYTHING else store.visible_max
        safe = store.readable_end if everything else self._safe
        if required is None or required >= safe:
            return EVERYTHING if everything else max(shown, safe)
        return max(shown, required)
