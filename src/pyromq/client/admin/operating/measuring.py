"""What single brokers and members tell about themselves, for those who measure: one request, one broker each."""

from __future__ import annotations

import msgspec

from pyromq.client.admin.clusters import ClusterAdmin
from pyromq.client.consumer.base.consume_stats import TopicRates
from pyromq.client.consumer.base.running_info import HeadOfLine, flow_counts, heads_of_line
from pyromq.model.queue import QueueId
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.admin import GetBrokerConsumeStatsHeader
from pyromq.wire.headers.shared import ConsumerGroupHeader, ConsumerRunningInfoHeader, TopicHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.bodies import BrokerConsumeStats, QueueProgress, TopicStats
from pyromq.wire.json.heartbeat import ConsumerConnections, decode_consumer_connections


class GroupProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A group in one topic on one broker."""

    group: str
    topic: str
    rate: float
    queues: dict[QueueId, QueueProgress]


class MemberReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a member says about itself; ``flow`` and ``heads`` are told by PyroMQ's."""

    rates: dict[str, TopicRates] = {}  # by topic
    flow: dict[str, int] = {}  # by rule of flow control
    heads: tuple[HeadOfLine, ...] = ()


class _Topics(msgspec.Struct, frozen=True, rename="camel"):
    topic_config_table: dict[str, TopicConfig] = {}


class _Groups(msgspec.Struct, frozen=True, rename="camel"):
    subscription_group_table: dict[str, GroupConfig] = {}


class MeasureAdmin(ClusterAdmin):
    """Beside ``Admin``: names are as brokers have them, namespaces included."""

    async def topics_at(self, address: str) -> dict[str, TopicConfig]:
        response = await self._ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        return java_json.decode(response.body, _Topics).topic_config_table

    async def groups_at(self, address: str) -> list[str]:
        response = await self._ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return sorted(java_json.decode(response.body, _Groups).subscription_group_table)

    async def topic_stats_at(self, address: str, topic: str) -> TopicStats:
        response = await self._ask(address, RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic=topic))
        return bodies.decode(response.body, TopicStats)

    async def progress_at(self, address: str) -> list[GroupProgress]:
        """Of all groups, with one request."""
        header = GetBrokerConsumeStatsHeader(is_order=False)
        response = await self._ask(address, RequestCode.GET_BROKER_CONSUME_STATS, header)
        told = bodies.decode(response.body, BrokerConsumeStats)
        found = []
        for group, topics in ((name, each) for table in told.consume_stats_list for name, each in table.items()):
            for stats in topics:
                by_topic: dict[str, dict[QueueId, QueueProgress]] = {}
                for queue, progress in stats.offset_table.items():
                    by_topic.setdefault(queue.topic, {})[queue] = progress
                found += [
                    GroupProgress(group=group, topic=topic, rate=stats.consume_tps, queues=queues)
                    for topic, queues in by_topic.items()
                ]
        return found

    async def members_at(self, address: str, group: str) -> ConsumerConnections:
        """Raises GroupOfflineError."""
        header = ConsumerGroupHeader(consumer_group=group)
        response = await self._ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        return decode_consumer_connections(response.body)

    async def member_report_at(self, address: str, group: str, client_id: str) -> MemberReport:
        """The broker passes the question on. Raises RemoteProtocolError for what cannot be read."""
        header = ConsumerRunningInfoHeader(consumer_group=group, client_id=client_id)
        body = (await self._ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header)).body
        rates = java_json.convert(java_json.parse(body).get("statusTable") or {}, dict[str, TopicRates])
        flow = {hold.name: count for hold, count in flow_counts(body).items()}
        return MemberReport(rates=rates, flow=flow, heads=tuple(heads_of_line(body)))
