"""Care of servers: settings of name servers, their key-value table, write permissions, cleaning, raw queue entries."""

from __future__ import annotations

from typing import Any

from pyromq.client.admin.base import AdminBase, gather
from pyromq.client.admin.clusters import settings_in, settings_text
from pyromq.client.admin.topics import TopicAdmin
from pyromq.client.core.errors import error_of
from pyromq.errors import BrokerError, ConfigError
from pyromq.model.queue import QueueId
from pyromq.model.topic import Perm
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Ext
from pyromq.wire.headers.admin import CloneGroupOffsetHeader, QueryConsumeQueueHeader
from pyromq.wire.headers.nameserver import (
    AddWritePermResponseHeader,
    BrokerNameHeader,
    ClusterHeader,
    KvConfigHeader,
    NamespaceHeader,
    PutKvConfigHeader,
    WipeWritePermResponseHeader,
)
from pyromq.wire.headers.shared import TopicGroupHeader
from pyromq.wire.json import bodies
from pyromq.wire.json.bodies import QueueTimes, QueueView, TimeSpans
from pyromq.wire.json.route import decode_topics
from pyromq.wire.received import Received


class NameServerAdmin(AdminBase):
    """Of ``Admin``: name servers. They do not talk to each other, so each is asked, and each is told."""

    async def nameserver_config(self) -> dict[str, dict[str, str]]:
        """The configuration of each name server by its address, in RocketMQ's words."""
        responses = await self._ask_nameservers(RequestCode.GET_NAMESRV_CONFIG)
        return {address: settings_in(response.body) for address, response in responses.items()}

    async def update_nameserver_config(self, values: dict[str, str]) -> None:
        """On all name servers. Raises ConfigError for what cannot be written as ``key=value``."""
        await self._ask_nameservers(RequestCode.UPDATE_NAMESRV_CONFIG, None, settings_text(values))

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """A value in the key-value table of all name servers."""
        header = PutKvConfigHeader(namespace=namespace, key=key, value=value)
        await self._ask_nameservers(RequestCode.PUT_KV_CONFIG, header)

    async def delete_kv(self, namespace: str, key: str) -> None:
        await self._ask_nameservers(RequestCode.DELETE_KV_CONFIG, KvConfigHeader(namespace=namespace, key=key))

    async def kv(self, namespace: str) -> dict[str, str]:
        """What one name server keeps under a namespace; nothing if there is none."""
        try:
            response = await self._ask_nameserver(
                RequestCode.GET_KVLIST_BY_NAMESPACE, NamespaceHeader(namespace=namespace)
            )
        except BrokerError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise
        return bodies.decode(response.body, bodies.KeyValues).table

    async def wipe_write_permission(self, broker: str) -> dict[str, int]:
        """Producers leave a broker, which consumers go on reading; how many topics changed, by name server."""
        responses = await self._ask_nameservers(
            RequestCode.WIPE_WRITE_PERM_OF_BROKER, BrokerNameHeader(broker_name=broker)
        )
        kind = WipeWritePermResponseHeader
        return {address: each.header_as(kind).wipe_topic_count for address, each in responses.items()}

    async def add_write_permission(self, broker: str) -> dict[str, int]:
        """Producers come back to a broker; how many topics changed, by name server."""
        responses = await self._ask_nameservers(
            RequestCode.ADD_WRITE_PERM_OF_BROKER, BrokerNameHeader(broker_name=broker)
        )
        kind = AddWritePermResponseHeader
        return {address: each.header_as(kind).add_topic_count for address, each in responses.items()}

    async def topics_of_cluster(self, cluster: str) -> list[str]:
        """Names as name servers have them; none of a cluster that they do not know."""
        response = await self._ask_nameserver(RequestCode.GET_TOPICS_BY_CLUSTER, ClusterHeader(cluster=cluster))
        return sorted(map(self.client.plain_name, decode_topics(response.body).topic_list))

    async def _ask_nameservers(
        self, code: RequestCode, header: Ext = None, body: bytes = b""
    ) -> dict[str, Received[Any]]:
        self.client.require_open()
        links = list(self.client.nameservers.links)
        responses = await gather([self.client.ask(link, code, header, body) for link in links])
        for response in responses:
            if response.code != ResponseCode.SUCCESS:
                raise error_of(response)
        return {str(link.address): response for link, response in zip(links, responses, strict=True)}


class MaintenanceAdmin(NameServerAdmin, TopicAdmin):
    """Of ``Admin``: care of brokers."""

    async def clean_expired_queues(self, *, cluster: str = "", broker: str = "") -> None:
        """Brokers delete files of consume queues whose messages are gone."""
        await self._ask_all(await self._masters(cluster, broker), RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def delete_expired_log(self, *, cluster: str = "", broker: str = "") -> None:
        """Brokers delete files of the commit log that are older than messages are kept."""
        await self._ask_all(await self._masters(cluster, broker), RequestCode.DELETE_EXPIRED_COMMITLOG)

    async def clean_unused_topics(self, *, cluster: str = "", broker: str = "") -> None:
        """Brokers delete consume queues of topics that they do not have any more."""
        await self._ask_all(await self._masters(cluster, broker), RequestCode.CLEAN_UNUSED_TOPIC)

    async def set_topic_permission(self, topic: str, perm: Perm, *, broker: str = "") -> dict[str, int]:
        """What clients may do with a topic, on one broker (name or address) or all; what it was, by broker.

        Raises TopicNotFoundError, NotFoundError.
        """
        before = {}
        for name, config in (await self.topic_config(topic)).items():
            if broker and await self._address(broker) != await self._address(name):
                continue
            before[name] = config.perm
            await self.create_topic(
                topic,
                broker=name,
                read_queues=config.read_queue_nums,
                write_queues=config.write_queue_nums,
                perm=perm,
                ordered=config.order,
            )
        if not before:
            raise ConfigError(f"topic {topic} is not on broker {broker}")
        return before

    async def queue_entries(self, queue: QueueId, offset: int, count: int = 10, *, group: str = "") -> QueueView:
        """Entries of a consume queue as they are stored, and with a group whether its filter takes them."""
        header = QueryConsumeQueueHeader(
            topic=self.client.wire_name(queue.topic),
            queue_id=queue.number,
            index=offset,
            count=count,
            consumer_group=self.client.wire_name(group) if group else None,
        )
        response = await self._ask(await self._address(queue.broker), RequestCode.QUERY_CONSUME_QUEUE, header)
        return bodies.decode(response.body, QueueView)

    async def clone_offsets(self, from_group: str, to_group: str, topic: str) -> None:
        """A group goes on where another one stands. Raises GroupNotFoundError."""
        header = CloneGroupOffsetHeader(
            src_group=self.client.wire_name(from_group),
            dest_group=self.client.wire_name(to_group),
            topic=self.client.wire_name(topic),
        )
        await self._ask_brokers_of(topic, RequestCode.CLONE_GROUP_OFFSET, header)

    async def consume_times(self, group: str, topic: str) -> list[QueueTimes]:
        """When the oldest, the newest and the last consumed message of each queue were stored."""
        header = TopicGroupHeader(topic=self.client.wire_name(topic), group=self.client.wire_name(group))
        responses = await self._ask_brokers_of(topic, RequestCode.QUERY_CONSUME_TIME_SPAN, header)
        spans = [span for each in responses for span in bodies.decode(each.body, TimeSpans).consume_time_span_set]
        return sorted(spans, key=lambda span: span.message_queue)
