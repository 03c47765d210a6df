"""Curtain: consumers of a sync master see what its replicas have, or what was answered without them.

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
from collections.abc import Callable
from typing import Final

from pyromq.broker.base.queue_key import QueueKey
from pyromq.store.message_store import EVERYTHING, MessageStore

_UNTOLD_MAX: Final = 256  # commits that are told of one by one; later ones together


class Curtain:
    """Owned by the replica gate, on the loop; without a store it hides nothing."""

    def __init__(self, store: MessageStore | None) -> None:
        self._store = store
        self._safe = store.visible_end if store is not None else EVERYTHING  # may be seen up to here
        self._untold: deque[tuple[int, set[QueueKey]]] = deque()  # end, queues: readers were not told of all of it
        self._told = self._safe  # readers were told when they could see up to here
        self.on_visible: Callable[[set[QueueKey]], None] = lambda queues: None  # readers can see more of these queues
        # under a failover agent
        self.required: Callable[[], int | None] = lambda: None  # how far the replicas are that the lease names
        self.on_shown: Callable[[int], None] = lambda position: None  # readers see up to there
        self.is_shut = False
        self.on_open: Callable[[], None] = lambda: None
        self._opened_end = store.end_position if store is not None else 0

    @property
    def is_hiding(self) -> bool:
        return self._store is not None and self._store.visible_max != EVERYTHING

    def close(self) -> None:
        """Something was stored in this turn and waits from now on; no reader has seen it yet."""
        if self._store is not None and self._store.visible_max == EVERYTHING:
            self._store.visible_max = self._safe

    def safe(self, position: int) -> None:
        """What ends there or before was answered."""
        self._safe = max(self._safe, position)

    def add(self, queues: set[QueueKey]) -> None:
        """More of these queues was stored; ``reveal`` follows."""
        end = self._store.end_position if self._store is not None else 0
        if len(self._untold) >= _UNTOLD_MAX:
            queues = queues | self._untold.pop()[1]
        self._untold.append((end, queues))

    def open_if_ready(self) -> None:
        """There is a lease."""
        required = self.required()
        if self.is_shut and (required is None or required >= self._opened_end):
            self.is_shut = False
            self.on_open()

    def reveal(self, *, everything: bool) -> None:
        """Readers see, and are told of, what is safe by now; ``everything``: nothing waits."""
        visible = EVERYTHING
        if self._store is not None:
            self._store.visible_max = self._most(self._store, everything)
            everything = everything and not self.is_hiding
            visible = self._store.visible_end
            if everything:
                self._safe = visible
            self.on_shown(visible)
        if visible == self._told and not everything:
            return  # a reader that looked would see nothing new
        self._told = visible
        queues = set[QueueKey]()
        for _, touched in self._untold:
            queues |= touched
        while self._untold and (everything or self._untold[0][0] <= visible):
            self._untold.popleft()
        if queues:
            self.on_visible(queues)

    def _most(self, store: MessageStore, everything: bool) -> int:
        shown = self._safe if store.visible_max == EVERYTHING else store.visible_max
        safe, required = store.readable_end if everything else self._safe, self.required()
        if required is None or required >= safe:
            return EVERYTHING if everything else max(shown, safe)
        return max(shown, required)
