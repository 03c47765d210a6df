"""What one round of admin requests found out."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyromq.operate.measuring import GroupProgress, MemberFacts
from pyromq.wire.json.bodies import TopicStats
from pyromq.wire.json.heartbeat import ConsumerConnections


@dataclass(slots=True)
class BrokerFacts:
    """One broker; what it did not answer is empty."""

    cluster: str
    name: str
    address: str
    is_up: bool = False
    runtime: dict[str, str] = field(default_factory=dict)
    topic_count: int | None = None
    group_count: int | None = None
    topics: dict[str, TopicStats] = field(default_factory=dict)
    topic_rates: dict[str, float] = field(default_factory=dict)  # messages a second
    progress: list[GroupProgress] = field(default_factory=list)
    members: dict[str, ConsumerConnections] = field(default_factory=dict)  # by group
    reports: dict[tuple[str, str], MemberFacts] = field(default_factory=dict)  # by group and client id
