"""Which replicas a master has, how far they are, and what that confirms. Pure: no sockets, no clock.

    reported  ─▶ believed? ─▶ position of the connection ─▶ position of its replica ─▶ confirmed position

A replica of ours is known by its address and the broker id that it says, RocketMQ's by the address alone: two
connections of one replica count once. A copy that says so is never counted.

The first report says from where on the replica wants the log. It counts as nothing: the replica has not compared yet
what it has with what the master has, and a repetition of it says no more, unless nothing has been sent since. After
that a position is believed if the master can have sent it; one that lies beyond that, is negative or goes back changes
nothing.

*In sync* is a replica that misses less than ``gap_bytes_max`` and is not stalled: one that was sent something and got
no further for ``stall_ms_max`` hangs, or its link is cut, and nobody waits for it until it gets on. A replica that the
lease has dropped is not in sync either. *Confirmed* is what as many copies have as are needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
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
    name: str  # address and port
    broker_id: int | None = None  # as it says; None: it has not said it
    is_copy: bool = False  # never an acknowledgement, whatever it says
    position: int = -1  # the replica has everything before it; -1: it has not said anything that counts
    first: int = 0  # what it was sent begins here
    sent: int = 0  # everything before this was sent, or the replica said that it has it
    doubts: set[str] = field(default_factory=set)  # what was not believed; each kind is logged once
    behind_since_ms: int | None = None  # it has got no further since then; None: it has all that it was sent
    behind_at: int = -1  # where it was then
    is_stalled: bool = False  # and that is too long

    @property
    def counts(self) -> bool:
        return self.position >= 0 and not self.is_copy

    @property
    def replica(self) -> str:
        """Replica that this connection belongs to."""
        return self.host if self.broker_id is None else f"{self.host} id {self.broker_id}"


class Replicas:
    """Owned by the leader, on the loop."""

    def __init__(self, settings: ReplicationSettings) -> None:
        self._settings = settings
        self._connections: dict[ReplicaConnection, None] = {}
        self.is_dropped: Callable[[ReplicaConnection], bool] = lambda connection: False  # by the lease

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
        """It gets the log from there on, as the leader has decided."""
        connection.first = connection.sent = position

    def reported(self, connection: ReplicaConnection, position: int) -> bool:
        """A later report; False when it changes nothing."""
        if position == connection.first < connection.sent and connection.position < 0:
            return False
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
        if position > connection.position:
            connection.is_stalled = False
        connection.position = position
        return True

    # --- who gets on ---

    def notice_stalls(self, now_ms: int) -> bool:
        """Look which replicas got no further for too long; True when one is stalled that was not before."""
        found = False
        for each in self._connections:
            if each.position >= each.sent:
                each.behind_since_ms = None
            elif each.behind_since_ms is None or each.position != each.behind_at:
                each.behind_since_ms, each.behind_at = now_ms, each.position
            elif now_ms - each.behind_since_ms >= self._settings.stall_ms_max and not each.is_stalled:
                each.is_stalled = found = True
                facts = each.name, each.position, each.sent
                logger.warning("replica stalled, not waited for: replica=%s position=%d sent=%d", *facts)
        return found

    def next_stall_ms(self, now_ms: int) -> int:
        """No replica stalls before that moment."""
        since = (each.behind_since_ms for each in self._connections if not each.is_stalled)
        return min((each for each in since if each is not None), default=now_ms) + self._settings.stall_ms_max

    # --- what they confirm ---

    def positions(self) -> dict[str, int]:
        """How far each replica is that counts, by its name; the best of its connections."""
        return _furthest(each for each in self._connections if each.counts)

    def in_sync(self, end: int) -> list[int]:
        """Positions of the replicas that are in sync with a log that ends there, the furthest first."""
        found = _furthest(each for each in self._connections if self.is_in_sync(each, end))
        return sorted(found.values(), reverse=True)

    def is_in_sync(self, connection: ReplicaConnection, end: int) -> bool:
        gets_on = not connection.is_stalled and not self.is_dropped(connection)
        return connection.counts and gets_on and self._is_near(connection.position, end)

    def _is_near(self, position: int, end: int) -> bool:
        return position > end - self._settings.gap_bytes_max

    def copies_needed(self, end: int) -> int:
        """Copies that a send waits for, the master's among them."""
        return self._needed(len(self.in_sync(end)) + 1)

    def _needed(self, in_sync: int) -> int:
        settings = self._settings
        if settings.all_in_sync:
            return max(settings.copies_needed, in_sync)
        if settings.auto_in_sync_replicas:
            return min(settings.copies_needed, max(2, settings.min_in_sync_replicas, in_sync))
        return settings.copies_needed

    def standing(self, end: int) -> Standing:
        return self.agreement(end)[0]

    def confirmed(self, end: int) -> int:
        """Everything before it has as many copies as are needed; 0 when there are too few replicas."""
        return self.agreement(end)[1]

    def agreement(self, end: int) -> tuple[Standing, int]:
        """``standing`` and ``confirmed`` by one look at the replicas: every report of one asks for both."""
        positions = self.in_sync(end)
        others = self._needed(len(positions) + 1) - 1
        is_enough = len(positions) >= others
        return Standing.ENOUGH if is_enough else Standing.TOO_FEW, positions[others - 1] if is_enough else 0


def _furthest(connections: Iterable[ReplicaConnection]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in connections:
        found[each.replica] = max(found.get(each.replica, 0), each.position)
    return found
