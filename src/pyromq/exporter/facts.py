"""What one round of admin requests found out."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyromq.errors import MQError
from pyromq.operate.measuring import MemberFacts
from pyromq.operate.sweep import BrokerProcess, BrokerTables
from pyromq.wire.json.bodies import TopicStats
from pyromq.wire.json.heartbeat import ConsumerConnections


@dataclass(slots=True)
class BrokerFacts:
    """One master: what a sweep read of it, and what was asked about single topics and members; the rest is empty."""

    process: BrokerProcess
    tables: BrokerTables | None = None
    topics: dict[str, TopicStats] = field(default_factory=dict)
    topic_rates: dict[str, float] = field(default_factory=dict)  # messages a second
    members: dict[str, ConsumerConnections] = field(default_factory=dict)  # by group
    reports: dict[tuple[str, str], MemberFacts] = field(default_factory=dict)  # by group and client id

    @property
    def name(self) -> str:
        return self.process.broker

    @property
    def address(self) -> str:
        return self.process.address

    @property
    def is_up(self) -> bool:
        return not isinstance(self.process.told, MQError)
