"""What single brokers and members say about themselves, for those who measure: one request, one broker each."""

from __future__ import annotations

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.consumer.base.consume_stats import TopicRates
from pyromq.client.consumer.base.running_info import HeadOfLine, flow_counts, heads_of_line
from pyromq.wire.json import java_json
from pyromq.wire.json.bodies import TopicStats
from pyromq.wire.json.heartbeat import ConsumerConnections


class MemberFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a member says about itself; ``flow`` and ``heads`` are reported by PyroMQ's."""

    rates: dict[str, TopicRates] = {}  # by topic
    flow: dict[str, int] = {}  # by rule of flow control
    heads: tuple[HeadOfLine, ...] = ()


class MeasureFacet:
    """``admin.measuring``: single brokers by address; names are as brokers have them, namespaces included."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests.brokers

    async def topic_stats(self, address: str, topic: str) -> TopicStats:
        """Return what the queues of a topic hold on a broker, and its put rate. Raises TopicNotFoundError."""
        return await self._requests.topic_stats(address, topic)

    async def members(self, address: str, group: str) -> ConsumerConnections:
        """Return the consumers of a group that are connected to a broker. Raises GroupOfflineError."""
        return await self._requests.consumer_connections(address, group)

    async def report(self, address: str, group: str, client_id: str) -> MemberFacts:
        """Return what a member says about itself. Raises RemoteProtocolError for what cannot be read."""
        body = await self._requests.running_info(address, group, client_id)
        rates = java_json.convert(java_json.parse(body).get("statusTable") or {}, dict[str, TopicRates])
        flow = {hold.name: count for hold, count in flow_counts(body).items()}
        return MemberFacts(rates=rates, flow=flow, heads=tuple(heads_of_line(body)))
