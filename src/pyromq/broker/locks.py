"""Queue locks of orderly consumers: one client at a time may consume a queue of a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyromq.clock import Clock
from pyromq.model.queue import QueueId


class _Lock(NamedTuple):
    client_id: str
    at_ms: int


class QueueLocks:
    """Who holds which queue, per group. Locks that nobody renews end by themselves."""

    def __init__(self, clock: Clock, expiry_ms: int = 60_000) -> None:
        self._clock, self._expiry_ms = clock, expiry_ms
        self._groups: dict[str, dict[QueueId, _Lock]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[QueueId]) -> list[QueueId]:
        """Take or renew; returns the queues that the client holds now."""
        now, locks = self._clock.monotonic_ms(), self._groups.setdefault(group, {})
        granted = []
        for queue in queues:
            held = locks.get(queue)
            if held is None or held.client_id == client_id or now - held.at_ms > self._expiry_ms:
                locks[queue] = _Lock(client_id, now)
                granted.append(queue)
        return granted

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
