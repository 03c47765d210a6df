"""Requests of one connection that wait for a response: their ids and deadlines. No I/O, no timers.

Ids count from 1 (RocketMQ's Node client takes 0 for "none") and start over before they leave 31 bits. Deadlines are not
sorted: a request adds to one dict and its response takes from it, which is all that most requests ever cost. The
owner of the table looks for late ones when the earliest deadline has passed, and that scan finds the next earliest.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

ID_MAX: Final = 0x7FFF_FFFF
NEVER_MS: Final = 1 << 62


class PendingRequest(msgspec.Struct, frozen=True):
    response: asyncio.Future[Any]  # of a Received
    deadline_ms: int
    timeout_ms: int
    code: int
    takes_facts: bool = False  # SentFacts in place of the Received will do


class PendingRequests:
    """A table of PendingRequest by correlation id."""

    __slots__ = ("_last_id", "by_id")

    def __init__(self, last_id: int = 0) -> None:
        self.by_id: dict[int, PendingRequest] = {}
        self._last_id = last_id

    def next_id(self) -> int:
        """An id that no request of this connection waits under; also for one-way requests."""
        following = self._last_id + 1
        while following > ID_MAX or following in self.by_id:
            following = 1 if following > ID_MAX else following + 1
        self._last_id = following
        return following

    def take_late(self, now_ms: int) -> tuple[list[PendingRequest], int]:
        """Removes what is past its deadline; also the earliest deadline of the others, NEVER_MS if there are none."""
        late = [number for number, pending in self.by_id.items() if pending.deadline_ms <= now_ms]
        taken = [self.by_id.pop(number) for number in late]
        return taken, min((pending.deadline_ms for pending in self.by_id.values()), default=NEVER_MS)

    def take_all(self) -> list[PendingRequest]:
        taken = list(self.by_id.values())
        self.by_id.clear()
        return taken
