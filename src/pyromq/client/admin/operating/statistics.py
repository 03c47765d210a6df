"""Numbers that brokers keep: what a topic holds and takes, all configurations at once, who produces."""

from __future__ import annotations

import msgspec

from pyromq.client.admin.base import AdminBase
from pyromq.model.queue import QueueId
from pyromq.model.topic import TopicConfig
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.admin import GetAllTopicConfigHeader
from pyromq.wire.headers.shared import TopicHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.bodies import TopicOffset, TopicStats
from pyromq.wire.json.route import decode_topics


class TopicTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """What the queues of a topic hold, and how many messages a second it took during the last minute."""

    queues: dict[QueueId, TopicOffset]
    put_rate: float

    @property
    def messages(self) -> int:
        return sum(max(0, held.max_offset - held.min_offset) for held in self.queues.values())

    @property
    def last_stored_ms(self) -> int:
        return max((held.last_update_timestamp for held in self.queues.values()), default=0)


class ProducerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A producer that is connected (RocketMQ: ProducerInfo)."""

    client_id: str = msgspec.field(name="clientId")
    address: str = msgspec.field(name="remoteIP", default="")
    language: str = ""
    version: int = 0
    seen_ms: int = msgspec.field(name="lastUpdateTimestamp", default=0)


class _Producers(msgspec.Struct, frozen=True):
    data: dict[str, list[ProducerInfo]] = {}


class _TopicTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topic_config_table: dict[str, TopicConfig] = {}


class StatisticsAdmin(AdminBase):
    """Of ``Admin``: numbers of topics, and of brokers as a whole."""

    async def topic_traffic(self, topic: str) -> TopicTraffic:
        """Raises TopicNotFoundError. Brokers older than 5.2 do not tell the rate: it is 0."""
        header = TopicHeader(topic=self.client.wire_name(topic))
        responses = await self._ask_brokers_of(topic, RequestCode.GET_TOPIC_STATS_INFO, header)
        found = [bodies.decode(response.body, TopicStats) for response in responses]
        queues = sorted((queue, held) for stats in found for queue, held in stats.offset_table.items())
        return TopicTraffic(queues=dict(queues), put_rate=sum(stats.topic_put_tps for stats in found))

    async def topic_configs(self) -> dict[str, TopicConfig]:
        """Every topic that brokers have, as the first of them has it."""
        header = GetAllTopicConfigHeader()
        responses = await self._ask_all(await self._masters(), RequestCode.GET_ALL_TOPIC_CONFIG, header)
        tables = [java_json.decode(response.body, _TopicTable).topic_config_table for response in responses]
        return {self.client.plain_name(name): config for table in reversed(tables) for name, config in table.items()}

    async def system_topics(self) -> frozenset[str]:
        """Topics that brokers made for themselves."""
        responses = await self._ask_all(await self._masters(), RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        return frozenset(name for response in responses for name in decode_topics(response.body).topic_list)

    async def producers(self, broker: str = "") -> dict[str, list[ProducerInfo]]:
        """Producers that are connected, by group, each once though it is connected to every broker.

        Of one broker (its name, or its address) if it is given.
        """
        responses = await self._ask_all(await self._masters(broker=broker), RequestCode.GET_ALL_PRODUCER_INFO)
        found: dict[str, dict[str, ProducerInfo]] = {}
        for response in responses:
            for group, members in java_json.decode(response.body, _Producers).data.items():
                by_id = found.setdefault(self.client.plain_name(group), {})
                by_id.update((member.client_id, member) for member in members)
        return {group: [members[each] for each in sorted(members)] for group, members in sorted(found.items())}
