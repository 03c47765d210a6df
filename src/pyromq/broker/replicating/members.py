"""Members: which replicas of a master are which brokers, how far they are, and how far all those are that it waits for.

RocketMQ's replication says nothing of who connects. So a replica under a failover agent tells its master, over the port
for clients: its address, and its end of the connection over which it gets the log. Where addresses are translated on
the way, the connection from its host that says its broker id is taken for its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyromq.broker.base.lease import Lease
from pyromq.clock import Clock
from pyromq.replication.replicas import Replicas
from pyromq.wire.json.membership import MemberReport, MemberStatus

REPORT_INTERVAL_S: Final = 0.25
_SILENCE_MS: Final = 5_000  # a replica that tells nothing for longer is not told of


class _Known(NamedTuple):
    report: MemberReport
    host: str  # that it came from
    at_ms: int


class Members:
    """Owned by a master under a failover agent, on its loop."""

    def __init__(self, replicas: Replicas, lease: Lease, clock: Clock) -> None:
        self._replicas = replicas
        self._lease = lease
        self._clock = clock
        self._known: dict[str, _Known] = {}

    def reported(self, report: MemberReport, host: str) -> None:
        self._known[report.address] = _Known(report, host, self._clock.monotonic_ms())

    def position(self, address: str) -> int | None:
        """What that broker has on its disk; None when it is not connected."""
        known = self._known.get(address)
        if known is None:
            return None
        report = known.report
        found = [each.position for each in self._replicas if each.name == report.link]
        if not found:  # its address was translated on the way
            of_host = [each for each in self._replicas if each.host == known.host and each.broker_id is not None]
            found = [each.position for each in of_host if each.broker_id == report.broker_id and each.counts]
        return max(found) if found and max(found) >= 0 else None

    def required_position(self) -> int | None:
        """All replicas that the lease names have everything before it; None when it names none."""
        required = self._lease.required
        return min(self.position(each) or 0 for each in required) if required else None

    def have_metadata(self, number: int) -> bool:
        """Whether all replicas that the lease names have these tables, or newer ones."""
        known = [self._known.get(each) for each in self._lease.required]
        return all(each is not None and each.report.metadata >= number for each in known)

    def statuses(self) -> tuple[MemberStatus, ...]:
        """Of those that are connected, and have said so lately."""
        limit_ms, found = self._clock.monotonic_ms() - _SILENCE_MS, []
        for address, known in self._known.items():
            position = self.position(address)
            if position is not None and known.at_ms > limit_ms:
                found.append(MemberStatus(address=address, position=position, metadata=known.report.metadata))
        return tuple(found)
