"""Queue locks of orderly consumers: one client at a time may consume a queue of a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyromq.clock import Clock
from pyromq.model.queue import QueueId

LOCKS_MAX: Final = 100_000
_TIDY_MS: Final = 1_000  # a full table is searched for locks that ended no more often than that


class _Lock(NamedTuple):
    client_id: str
    at_ms: int


class QueueLocks:
    """Which client holds which queue, per group. Locks that are not renewed end by themselves."""

    def __init__(self, clock: Clock, expiry_ms: int = 60_000, *, locks_max: int = LOCKS_MAX) -> None:
        self._clock = clock
        self._expiry_ms = expiry_ms
        self._locks_max = locks_max
        self._groups: dict[str, dict[QueueId, _Lock]] = {}  # by group and queue
        self._tidied_ms: int | None = None

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def lock(self, group: str, client_id: str, queues: Iterable[QueueId]) -> list[QueueId]:
        """Take or renew: gives the queues that the client holds now. Where there is no room, no others are granted."""
        now, room = self._clock.monotonic_ms(), self._room()
        locks, granted = self._groups.get(group, {}), []
        for queue in queues:
            held = locks.get(queue)
            if held is None and not room:
                continue
            if held is None or held.client_id == client_id or now - held.at_ms > self._expiry_ms:
                room -= held is None
                locks[queue] = _Lock(client_id, now)
                granted.append(queue)
        if locks:
            self._groups[group] = locks
        return granted

    def _room(self) -> int:
        """For how many more; those that were not renewed make room when there is none."""
        now = self._clock.monotonic_ms()
        is_due = self._tidied_ms is None or now - self._tidied_ms >= _TIDY_MS
        if is_due and len(self) >= self._locks_max:
            self._tidied_ms, oldest_ms = now, now - self._expiry_ms
            for group, locks in list(self._groups.items()):
                if kept := {queue: held for queue, held in locks.items() if held.at_ms >= oldest_ms}:
                    self._groups[group] = kept
                else:
                    del self._groups[group]
        return max(0, self._locks_max - len(self))

    def unlock(self, group: str, client_id: str, queues: Iterable[QueueId]) -> None:
        """Give back; locks of others stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            if (held := locks.get(queue)) and held.client_id == client_id:
                del locks[queue]
        if not locks:
            self._groups.pop(group, None)

    def is_held(self, group: str) -> bool:
        """True while any queue of the group is locked: it has orderly consumers."""
        now = self._clock.monotonic_ms()
        return any(now - held.at_ms <= self._expiry_ms for held in self._groups.get(group, {}).values())
