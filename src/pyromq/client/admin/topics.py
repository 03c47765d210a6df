"""Topics: what there are, making and deleting them, what they hold and which groups consume them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict, Unpack

from pyromq.client.admin.base import AdminBase
from pyromq.model.names import DEFAULT_TOPIC, validate_topic
from pyromq.model.queue import QueueId
from pyromq.model.topic import Perm, TopicConfig
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.admin import CreateTopicHeader, GetTopicConfigHeader
from pyromq.wire.headers.nameserver import DeleteTopicInNameServerHeader
from pyromq.wire.headers.shared import TopicHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.bodies import GroupNames, TopicOffset, TopicStats
from pyromq.wire.json.route import decode_topics


class TopicOptions(TypedDict, total=False):
    """Keywords of ``Admin.create_topic`` that describe the topic."""

    queues: int
    """For reading and writing, unless one of the next two says otherwise; 8 by default."""
    read_queues: int | None
    write_queues: int | None
    perm: Perm
    """What clients may do with it; both by default."""
    ordered: bool
    attributes: dict[str, str] | None
    """Those of RocketMQ 5, such as ``{"message.type": "FIFO"}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewTopic:
    """``TopicOptions`` with their defaults; refuses a keyword that is none of them."""

    queues: int = 8
    read_queues: int | None = None
    write_queues: int | None = None
    perm: Perm = Perm.READ_WRITE
    ordered: bool = False
    attributes: dict[str, str] | None = None


class TopicAdmin(AdminBase):
    """Of ``Admin``: topics."""

    async def topics(self) -> list[str]:
        """All names that name servers know, those of the system included."""
        response = await self._ask_nameserver(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted({self.client.plain_name(name) for name in decode_topics(response.body).topic_list})

    async def create_topic(
        self, topic: str, *, cluster: str = "", broker: str = "", **options: Unpack[TopicOptions]
    ) -> None:
        """Creates or changes a topic on one broker, on those of a cluster, or on all. Raises InvalidNameError.

        Keywords: ``queues`` (8), ``read_queues`` and ``write_queues`` where they differ, ``perm``, ``ordered``,
        ``attributes`` (see ``TopicOptions``).
        """
        new = _NewTopic(**options)
        header = CreateTopicHeader(
            topic=self.client.wire_name(validate_topic(topic)),
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=new.queues if new.read_queues is None else new.read_queues,
            write_queue_nums=new.queues if new.write_queues is None else new.write_queues,
            perm=int(new.perm),
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=new.ordered,
            attributes=",".join(f"+{key}={value}" for key, value in (new.attributes or {}).items()) or None,
        )
        await self._ask_all(await self._masters(cluster, broker), RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def delete_topic(self, topic: str, *, cluster: str = "") -> None:
        """Deletes a topic with its messages on every broker, then its route. Raises TopicNotFoundError."""
        name = self.client.wire_name(topic)
        await self.route(topic)
        await self._ask_all(await self._masters(cluster), RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=name))
        header = DeleteTopicInNameServerHeader(topic=name, cluster_name=cluster or None)
        for link in self.client.nameservers.links:
            await self.client.ask(link, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)
        self.client.routes.forget(name)

    async def topic_config(self, topic: str) -> dict[str, TopicConfig]:
        """The configuration of a topic on each broker that has it. Raises TopicNotFoundError."""
        header = GetTopicConfigHeader(topic=self.client.wire_name(topic), logical=False)
        route = await self.route(topic)
        found = {}
        for broker in route.broker_datas:
            response = await self._ask(broker.readable_addr() or "", RequestCode.GET_TOPIC_CONFIG, header)
            found[broker.broker_name] = java_json.decode(response.body, TopicConfig)
        return found

    async def topic_stats(self, topic: str) -> dict[QueueId, TopicOffset]:
        """What each queue of a topic holds. Raises TopicNotFoundError."""
        header = TopicHeader(topic=self.client.wire_name(topic))
        responses = await self._ask_brokers_of(topic, RequestCode.GET_TOPIC_STATS_INFO, header)
        tables = [bodies.decode(response.body, TopicStats).offset_table for response in responses]
        return dict(sorted((queue, held) for table in tables for queue, held in table.items()))

    async def topic_groups(self, topic: str) -> list[str]:
        """The groups that consume a topic, or did."""
        header = TopicHeader(topic=self.client.wire_name(topic))
        responses = await self._ask_brokers_of(topic, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        names = {name for response in responses for name in java_json.decode(response.body, GroupNames).group_list}
        return sorted(map(self.client.plain_name, names))
