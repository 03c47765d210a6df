"""Which replicas a master has, how far they are, and what that confirms. Pure: no sockets, no clock.

    reported  ─▶ believed? ─▶ position of the connection ─▶ position of its replica ─▶ confirmed position

A replica is known by its address: two connections from one address are one replica, and count once. (Two replicas on
one machine count once, too: they would be lost together.) A position is believed if the master can have sent it; one
that lies beyond that, is negative or goes back changes nothing.

*In sync* is a replica that misses less than ``gap_bytes_max``. *Confirmed* is what as many copies have as are needed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from pyromq.replication.settings import ReplicationSettings

logger = logging.getLogger(__name__)


class Standing(Enum):
    """What a sync master can promise at the moment."""

    ENOUGH = "enough replicas are in sync"
    TOO_FEW = "too few replicas are in sync"


@dataclass(slots=True, eq=False)
class ReplicaConnection:
    """One connection of a replica."""

    host: str
    name: str  # address and port, for people
    position: int = -1  # the replica has everything before it; -1: it has not said anything yet
    sent: int = 0  # everything before this was sent, or the replica said that it has it
    doubts: set[str] = field(default_factory=set)  # what was not believed; each kind is logged once


class Replicas:
    """Owned by the leader, on the loop."""

    def __init__(self, settings: ReplicationSettings) -> None:
        self._settings = settings
        self._connections: dict[ReplicaConnection, None] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[ReplicaConnection]:
        return iter(self._connections)

    def connected(self, host: str, name: str) -> ReplicaConnection:
        connection = ReplicaConnection(host, name)
        self._connections[connection] = None
        return connection

    def disconnected(self, connection: ReplicaConnection) -> None:
        self._connections.pop(connection, None)

    def begins(self, connection: ReplicaConnection, position: int) -> None:
        """Its first report, which the leader has checked."""
        connection.position = connection.sent = position

    def reported(self, connection: ReplicaConnection, position: int) -> bool:
        """A later report; False when it is not believed."""
        doubt = ""
        if position < 0:
            doubt = "negative"
        elif position > connection.sent:
            doubt = "beyond what was sent"
        elif position < connection.position:
            doubt = "lower than before"
        if doubt:
            if doubt not in connection.doubts:
                connection.doubts.add(doubt)
                facts = (connection.name, doubt, position, connection.sent)
                logger.warning("report of a replica not believed: replica=%s reason=%s position=%d sent=%d", *facts)
            return False
        connection.position = position
        return True

    # --- what they confirm ---

    def positions(self) -> dict[str, int]:
        """How far each replica is, by its address; the best of its connections."""
        found: dict[str, int] = {}
        for each in self._connections:
            if each.position >= 0:
                found[each.host] = max(found.get(each.host, 0), each.position)
        return found

    def in_sync(self, end: int) -> list[int]:
        """Positions of the replicas that are in sync with a log that ends there, the furthest first."""
        limit = end - self._settings.gap_bytes_max
        return sorted((position for position in self.positions().values() if position > limit), reverse=True)

    def copies_needed(self, end: int) -> int:
        """Copies that a send waits for, the master's among them."""
        settings, in_sync = self._settings, len(self.in_sync(end)) + 1
        if settings.all_in_sync:
            return max(settings.copies_needed, in_sync)
        if settings.auto_in_sync_replicas:
            return min(settings.copies_needed, max(2, settings.min_in_sync_replicas, in_sync))
        return settings.copies_needed

    def standing(self, end: int) -> Standing:
        return Standing.ENOUGH if len(self.in_sync(end)) + 1 >= self.copies_needed(end) else Standing.TOO_FEW

    def confirmed(self, end: int) -> int:
        """Everything before it has as many copies as are needed; 0 when there are too few replicas."""
        others, positions = self.copies_needed(end) - 1, self.in_sync(end)
        return positions[others - 1] if len(positions) >= others else 0
