"""Long polling: requests that found nothing wait for the next message of their queue, or until their time is over."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.state.subscriptions import PullFilter
from pyromq.clock import Clock
from pyromq.net.connection import Connection
from pyromq.wire.received import Received

_SLACK = 1_024


class Held(Protocol):
    """What waiters need of a request that waits: whose it is, for what, until when; ``release`` answers it."""

    connection: Any
    queue: Any
    deadline_ms: int
    answered: bool


H = TypeVar("H", bound=Held)


@dataclass(slots=True, eq=False)
class HeldPull:
    """One waiting request. ``scanned`` is the first offset that its filter has not seen yet."""

    connection: Connection
    request: Received[Any]
    queue: QueueKey
    scanned: int
    deadline_ms: int
    wanted: PullFilter
    rules_version: int = 0  # of users and policies, when it was admitted
    since_ms: int = 0  # when it began to wait
    answered: bool = field(default=False)


class Waiters(Generic[H]):
    """Held requests by queue, by connection and by deadline; their handler answers them."""

    def __init__(self, clock: Clock, held_max: int = 100_000) -> None:
        self._clock = clock
        self._held_max = held_max
        self._by_queue: dict[Any, dict[H, None]] = {}
        self._by_connection: dict[Any, dict[H, None]] = {}
        self._deadlines: list[tuple[int, int, H]] = []  # a heap; may hold answered ones
        self._sequence = count()  # orders equal deadlines
        self._count = 0  # of those that wait

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[H]:
        return (held for by_queue in self._by_queue.values() for held in by_queue)

    @property
    def full(self) -> bool:
        return self._count >= self._held_max

    def hold(self, held: H) -> None:
        self._by_queue.setdefault(held.queue, {})[held] = None
        self._by_connection.setdefault(held.connection, {})[held] = None
        heapq.heappush(self._deadlines, (held.deadline_ms, next(self._sequence), held))
        self._count += 1

    def of_queue(self, queue: object) -> list[H]:
        """Those that a new message of the queue may concern."""
        waiting = self._by_queue.get(queue)
        return list(waiting) if waiting else []

    def release(self, held: H) -> None:
        """It gets its response now."""
        if not held.answered:
            held.answered = True
            self._count -= 1
            _discard(self._by_queue, held.queue, held)
            _discard(self._by_connection, held.connection, held)
            if len(self._deadlines) > _SLACK + 2 * self._count:  # else answered ones would stay until their time
                self._deadlines = [entry for entry in self._deadlines if not entry[2].answered]
                heapq.heapify(self._deadlines)

    def drop_connection(self, connection: object) -> None:
        """The connection is gone, so its pulls need no response."""
        for held in list(self._by_connection.get(connection, ())):
            self.release(held)

    def is_due(self, now_ms: int) -> bool:
        """Whether ``due`` may find something."""
        return bool(self._deadlines) and self._deadlines[0][0] <= now_ms

    def due(self) -> list[H]:
        """Those whose time has run out; released."""
        now, found = self._clock.monotonic_ms(), list[H]()
        while self._deadlines and (self._deadlines[0][0] <= now or self._deadlines[0][2].answered):
            held = heapq.heappop(self._deadlines)[2]
            if not held.answered:
                self.release(held)
                found.append(held)
        return found

    def next_deadline_ms(self) -> int | None:
        while self._deadlines and self._deadlines[0][2].answered:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def drop_all(self, response: Callable[[H], None]) -> None:
        for waiting in list(self._by_queue.values()):
            for held in list(waiting):
                self.release(held)
                response(held)


class PullWaiters(Waiters[HeldPull]):
    """Held pulls; the pull handler answers them."""


def _discard(table: dict[Any, dict[H, None]], key: object, held: H) -> None:
    waiting = table.get(key)
    if waiting is not None:
        waiting.pop(held, None)
        if not waiting:
            del table[key]
