"""The in-flight table: the rows of all groups and queues, and what expires next.

What happens and what is replayed go through the same ``apply``, so a broker that starts, or takes over, knows what the
one before it knew. Hand-outs are applied when they are decided, acknowledgements when the journal is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from pyromq.store.in_flight.journal import Acked, Change, Changed, Forgotten, HandedOut, name_of, offsets_of
from pyromq.store.in_flight.queue import NO_NUMBER, HandOut, InFlightQueue, QueueName

_SLACK: Final = 4_096


class Expired(NamedTuple):
    """Messages of one hand-out whose time is over, and that nobody settled."""

    queue: InFlightQueue
    hand_out: HandOut
    offsets: list[int]


class InFlightTable:
    """Owner of every in-flight queue; ``applied`` counts records of the journal that it contains."""

    def __init__(self) -> None:
        self.queues: dict[QueueName, InFlightQueue] = {}
        self.applied = 0
        self._expiries: list[tuple[int, int, InFlightQueue, HandOut]] = []  # a heap; some were settled
        self._sequence = count()

    def queue(self, name: QueueName, low: Callable[[], int]) -> InFlightQueue:
        """The queue of a group; one that is not known yet begins at ``low``."""
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = InFlightQueue(name, low())
        return found

    # --- changes ---

    def apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            match change:
                case HandedOut():
                    self.hand_out(change, offsets_of(change.runs))
                case Changed():
                    self._change(change)
                case Acked():
                    if (queue := self.queues.get(name_of(change))) is not None:
                        queue.settle(offsets_of(change.runs))
                case Forgotten():
                    self.queues.pop(name_of(change), None)

    def hand_out(self, change: HandedOut, offsets: Collection[int]) -> InFlightQueue:
        """``offsets`` are those of its runs."""
        queue = self.queue(name_of(change), lambda: change.low)
        queue.low = max(queue.low, change.low)
        if offsets:
            out = HandOut(change.number, change.popped_ms, change.until_ms, change.attempts, offsets)
            queue.put(out, change.next)
            self.watch(queue, out)
            if change.keys:
                queue.keys.update(zip(offsets, change.keys, strict=True))
        if change.blocked:
            queue.put(HandOut(NO_NUMBER, 0, 0, 0, change.blocked), change.next)
            queue.keys.update(zip(change.blocked, change.blocked_keys, strict=True))
            queue.make_ready(change.blocked)
        return queue

    def _change(self, change: Changed) -> None:
        queue = self.queues.get(name_of(change))
        if queue is None or change.offset not in queue.rows:
            return
        out = HandOut(change.number, change.popped_ms, change.until_ms, change.attempts, (change.offset,))
        queue.put(out, queue.next)
        self.watch(queue, out)

    def postpone(self, queue: InFlightQueue, offset: int, until_ms: int) -> None:
        """A row that is not ready before then, though nobody got it meanwhile; its receipt stays good."""
        out = queue.rows.get(offset)
        if out is not None:
            out = HandOut(out.number, out.popped_ms, max(out.until_ms, until_ms), out.attempts, (offset,))
            queue.put(out, queue.next)
            self.watch(queue, out)

    # --- time ---

    def watch(self, queue: InFlightQueue, out: HandOut) -> None:
        """``expired`` says when its time is over."""
        heappush(self._expiries, (out.until_ms, next(self._sequence), queue, out))
        if len(self._expiries) > _SLACK and not self._expiries[0][2].rows:
            self._drop_settled()

    def _drop_settled(self) -> None:
        alive = [each for each in self._expiries if each[2].rows and any(o in each[2].rows for o in each[3].offsets)]
        self._expiries = alive
        heapify(alive)

    def next_expiry_ms(self) -> int | None:
        return self._expiries[0][0] if self._expiries else None

    def has_expired(self, now_ms: int) -> bool:
        """Whether ``expired`` may find something."""
        return bool(self._expiries) and self._expiries[0][0] <= now_ms

    def expired(self, now_ms: int) -> list[Expired]:
        """What became ready since the last call; the caller makes it ready, or settles it."""
        found: list[Expired] = []
        heap = self._expiries
        while heap and heap[0][0] <= now_ms:
            _, _, queue, out = heappop(heap)
            if self.queues.get(queue.name) is queue:
                rows, settling = queue.rows, queue.settling
                offsets = [each for each in out.offsets if rows.get(each) is out and each not in settling]
                if offsets:
                    found.append(Expired(queue, out, offsets))
        return found

    # --- keeping in line with the store ---

    def forget(self, names: Iterable[QueueName]) -> None:
        for name in names:
            self.queues.pop(name, None)

    def bring_back(self, end_of: Callable[[str, int], int]) -> int:
        """After a crash that cost the ends of queues; returns how many were set back."""
        return sum(queue.bring_back(end_of(name.topic, name.queue_id)) for name, queue in self.queues.items())
