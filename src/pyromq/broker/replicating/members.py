"""Replica members: which replicas are which brokers, how far they are, and how far all are that a master waits for.

RocketMQ's replication says nothing of who connects. So a replica under a failover agent tells its master, over the port
for clients: its address, and its end of the connection over which it gets the log. Where addresses are translated on
the way, the connection from its host that says its broker id is taken for its own.

A replica counts under the lease under which it has agreed with its master: one that still follows an older one takes
what it gets for that lease's, and cuts it when it hears of the newer one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyromq.broker.base.lease import Lease
from pyromq.clock import Clock
from pyromq.replication.replicas import ReplicaConnection, Replicas
from pyromq.wire.json.membership import MemberReport, MemberStatus

REPORT_INTERVAL_S: Final = 0.25
_SILENCE_MS: Final = 5_000  # a replica that says nothing for longer is not reported


class _Known(NamedTuple):
    report: MemberReport
    host: str  # that it came from
    at_ms: int


class ReplicaMembers:
    """Owned by a master under a failover agent, on its loop."""

    def __init__(self, replicas: Replicas, lease: Lease, clock: Clock) -> None:
        self._replicas = replicas
        self._lease = lease
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._required: tuple[str, ...] = ()  # whom the lease named when it was looked at last
        self._dropped: set[str] = set()  # members that it no longer names
        replicas.is_dropped = self.is_dropped

    def reported(self, report: MemberReport, host: str) -> None:
        self._known[report.address] = _Known(report, host, self._clock.monotonic_ms())

    def position(self, address: str) -> int | None:
        """What that broker has on its disk; None when it is not connected."""
        return _furthest(self._connections(address))

    def _connections(self, address: str) -> list[ReplicaConnection]:
        """Its connections that count."""
        known = self._known.get(address)
        return self._links(known) if known is not None and self._is_current(known) else []

    def _is_current(self, known: _Known) -> bool:
        return known.report.number == self._lease.state.number

    def _links(self, known: _Known) -> list[ReplicaConnection]:
        report = known.report
        found = [each for each in self._replicas if each.name == report.link]
        if not found:  # its address was translated on the way
            of_host = [each for each in self._replicas if each.host == known.host and each.broker_id is not None]
            found = [each for each in of_host if each.broker_id == report.broker_id and each.counts]
        return found

    def is_dropped(self, connection: ReplicaConnection) -> bool:
        """Whether it belongs to a member that the lease waited for under this master, and does not wait for now, or to
        one that follows another lease.
        """
        self._note_required()
        gone = (each for name, each in self._known.items() if name in self._dropped or not self._is_current(each))
        return any(connection in self._links(each) for each in gone)

    def required_position(self) -> int | None:
        """All replicas that the lease names have everything before it; None when it names none."""
        self._note_required()
        return min(self.position(each) or 0 for each in self._required) if self._required else None

    def _note_required(self) -> None:
        required = self._lease.required
        if required != self._required:
            self._dropped = (self._dropped | set(self._required)) - set(required)
            self._required = required

    def have_metadata(self, number: int) -> bool:
        """Whether all replicas that the lease names have these tables, or newer ones."""
        known = [self._known.get(each) for each in self._lease.required]
        return all(each is not None and self._is_current(each) and each.report.metadata >= number for each in known)

    def statuses(self) -> tuple[MemberStatus, ...]:
        """Status of replicas that are connected, have reported lately, and make progress with the log."""
        limit_ms, found = self._clock.monotonic_ms() - _SILENCE_MS, []
        for address, known in self._known.items():
            if known.at_ms <= limit_ms:
                continue
            connections = self._connections(address)
            position = _furthest(connections)
            if position is not None and not all(each.is_stalled for each in connections):
                report = known.report
                status = MemberStatus(
                    address=address, position=position, metadata=report.metadata, writable=report.writable
                )
                found.append(status)
        return tuple(found)


def _furthest(connections: list[ReplicaConnection]) -> int | None:
    found = max([each.position for each in connections], default=-1)
    return found if found >= 0 else None
