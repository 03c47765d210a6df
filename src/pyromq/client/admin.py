"""Administration on asyncio: topics, groups, messages, brokers.

    async with Admin("10.0.0.1:9876") as admin:
        await admin.create_topic("orders", queues=8)
        lag = await admin.lag("billing")

What concerns a cluster is asked of the masters of all its brokers, and their answers are put together. Names are plain;
the namespace of the client, if it has one, is added.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, Self, TypeVar

import msgspec

from pyromq.client.client import Client
from pyromq.client.errors import GroupNotFoundError, GroupOfflineError, NotFoundError, error_of
from pyromq.client.producer import client_settings_of
from pyromq.client.received_message import ReceivedMessage, split_messages
from pyromq.client.settings import ClientSettings
from pyromq.errors import BrokerError, ConfigError
from pyromq.model.names import DEFAULT_TOPIC, validate_group, validate_topic
from pyromq.model.queue import QueueId
from pyromq.model.route import TopicRoute
from pyromq.model.topic import GroupConfig, Perm, TopicConfig
from pyromq.wire import bodies, java_json
from pyromq.wire.bodies import ConsumeStats, QueueProgress, QueueRange, TopicStats
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Ext
from pyromq.wire.flags import PullFlag
from pyromq.wire.headers.admin import (
    CreateTopicHeader,
    DeleteGroupHeader,
    GetConsumeStatsHeader,
    GetTopicConfigHeader,
    GroupHeader,
    ProducerGroupHeader,
)
from pyromq.wire.headers.consumer import (
    OffsetResponseHeader,
    PullHeader,
    QueryMessageHeader,
    SearchOffsetHeader,
    ViewMessageHeader,
)
from pyromq.wire.headers.nameserver import DeleteTopicInNameServerHeader
from pyromq.wire.headers.shared import ConsumerGroupHeader, ResetOffsetHeader, TopicHeader
from pyromq.wire.heartbeat import Connection as ClientConnection
from pyromq.wire.heartbeat import ConsumerConnections, ProducerConnections, decode_consumer_connections
from pyromq.wire.message_id import MalformedMessageIdError, decode_offset_id
from pyromq.wire.received import Received
from pyromq.wire.route import ClusterInfo, decode_cluster, decode_topics

T = TypeVar("T")

EARLIEST: Final = 0
LATEST: Final = -1
_TIME_MAX: Final = (1 << 63) - 1
_TOOL_GROUP: Final = "TOOLS_CONSUMER"


class _GroupTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    subscription_group_table: dict[str, GroupConfig] = {}


class _GroupNames(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    group_list: list[str] = []


class Admin:
    """``client`` is shared with producers and consumers; without one it has its own.

    Methods raise TransportError when a server cannot be reached, BrokerError when it refuses.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str] = (),
        *,
        client_settings: ClientSettings | None = None,
        client: Client | None = None,
    ) -> None:
        self._owns_client = client is None
        self.client = client or Client(client_settings_of(nameservers, client_settings))

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def open(self) -> None:
        if self._owns_client:
            await self.client.open()
        self.client.require_open()

    async def close(self) -> None:
        if self._owns_client:
            await self.client.close()

    # --- clusters and brokers ---

    async def cluster(self) -> ClusterInfo:
        """Every broker with its addresses, and the brokers of each cluster."""
        return decode_cluster((await self._ask_nameserver(RequestCode.GET_BROKER_CLUSTER_INFO)).body)

    async def broker_config(self, broker: str) -> dict[str, str]:
        """The configuration of a broker (its name, or its address) in RocketMQ's words."""
        answer = await self._ask(await self._address(broker), RequestCode.GET_BROKER_CONFIG)
        lines = (line.partition("=") for line in answer.body.decode("utf-8", "replace").splitlines())
        return {key.strip(): value.strip() for key, equals, value in lines if equals}

    async def update_broker_config(self, broker: str, values: dict[str, str]) -> None:
        for key, value in values.items():
            if not key or any(character in key + value for character in "\r\n") or "=" in key:
                raise ConfigError(f"setting {key!r} cannot be written as one line key=value")
        body = "".join(f"{key}={value}\n" for key, value in values.items()).encode()
        await self._ask(await self._address(broker), RequestCode.UPDATE_BROKER_CONFIG, None, body)

    async def broker_runtime(self, broker: str) -> dict[str, str]:
        """What a broker (its name, or its address) is doing."""
        answer = await self._ask(await self._address(broker), RequestCode.GET_BROKER_RUNTIME_INFO)
        return bodies.decode(answer.body, bodies.KeyValues).table

    # --- topics ---

    async def topics(self) -> list[str]:
        """All names that name servers know, those of the system included."""
        answer = await self._ask_nameserver(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted({self.client.plain_name(name) for name in decode_topics(answer.body).topic_list})

    async def route(self, topic: str) -> TopicRoute:
        """Where a topic lives, as name servers say now. Raises TopicNotFoundError."""
        name = self.client.wire_name(topic)
        return await self.client.routes.refresh(name, timeout_ms=self.client.settings.request_timeout_ms)

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = 8,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: Perm = Perm.READ_WRITE,
        ordered: bool = False,
        attributes: dict[str, str] | None = None,
        cluster: str = "",
        broker: str = "",
    ) -> None:
        """Creates or changes a topic on one broker, on those of a cluster, or on all. Raises InvalidNameError."""
        header = CreateTopicHeader(
            topic=self.client.wire_name(validate_topic(topic)),
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=queues if read_queues is None else read_queues,
            write_queue_nums=queues if write_queues is None else write_queues,
            perm=int(perm),
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=ordered,
            attributes=",".join(f"+{key}={value}" for key, value in (attributes or {}).items()) or None,
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
            answer = await self._ask(broker.readable_addr() or "", RequestCode.GET_TOPIC_CONFIG, header)
            found[broker.broker_name] = java_json.decode(answer.body, TopicConfig)
        return found

    async def topic_stats(self, topic: str) -> dict[QueueId, QueueRange]:
        """What each queue of a topic holds. Raises TopicNotFoundError."""
        header = TopicHeader(topic=self.client.wire_name(topic))
        answers = await self._ask_brokers_of(topic, RequestCode.GET_TOPIC_STATS_INFO, header)
        tables = [bodies.decode(answer.body, TopicStats).offset_table for answer in answers]
        return dict(sorted((queue, held) for table in tables for queue, held in table.items()))

    async def topic_groups(self, topic: str) -> list[str]:
        """The groups that consume a topic, or did."""
        header = TopicHeader(topic=self.client.wire_name(topic))
        answers = await self._ask_brokers_of(topic, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        names = {name for answer in answers for name in java_json.decode(answer.body, _GroupNames).group_list}
        return sorted(map(self.client.plain_name, names))

    # --- groups ---

    async def groups(self) -> list[str]:
        """All consumer groups that brokers have a configuration of, those of the system included."""
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        answers = await self._ask_all(await self._masters(), code)
        tables = [java_json.decode(answer.body, _GroupTable).subscription_group_table for answer in answers]
        return sorted({self.client.plain_name(name) for table in tables for name in table})

    async def create_group(self, group: GroupConfig | str, *, cluster: str = "", broker: str = "") -> None:
        """Creates or changes a consumer group. Raises InvalidNameError."""
        config = GroupConfig(group_name=group) if isinstance(group, str) else group
        name = self.client.wire_name(validate_group(config.group_name))
        body = java_json.dumps(msgspec.structs.replace(config, group_name=name))
        masters = await self._masters(cluster, broker)
        await self._ask_all(masters, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)

    async def delete_group(self, group: str, *, clean_offsets: bool = True, cluster: str = "") -> None:
        """Deletes a consumer group; with ``clean_offsets`` it would start anew if it came back."""
        header = DeleteGroupHeader(group_name=self.client.wire_name(group), clean_offset=clean_offsets)
        await self._ask_all(await self._masters(cluster), RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def group_config(self, group: str) -> GroupConfig:
        """As the first broker that knows the group has it. Raises GroupNotFoundError."""
        header = GroupHeader(group=self.client.wire_name(group))
        for address in await self._masters():
            try:
                answer = await self._ask(address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
            except GroupNotFoundError:
                continue
            return java_json.decode(answer.body, GroupConfig)
        raise GroupNotFoundError(
            code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=f"no broker has a group {group}"
        )

    async def group_connections(self, group: str) -> ConsumerConnections:
        """The consumers of a group and what they subscribe. Raises GroupOfflineError."""
        header = ConsumerGroupHeader(consumer_group=self.client.wire_name(group))
        found: list[ConsumerConnections] = []
        for address in await self._masters():
            try:
                answer = await self._ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
            except GroupOfflineError:
                continue
            found.append(decode_consumer_connections(answer.body))
        if not found:
            text = f"no consumer of group {group} is connected"
            raise GroupOfflineError(code=ResponseCode.CONSUMER_NOT_ONLINE, remark=text)
        return msgspec.structs.replace(found[0], connection_set=_distinct(found))

    async def producer_connections(self, group: str) -> tuple[ClientConnection, ...]:
        """The producers of a group; none if nobody is connected."""
        header = ProducerGroupHeader(producer_group=self.client.wire_name(group))
        found = []
        for address in await self._masters():
            try:
                answer = await self._ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
            except BrokerError as error:
                if error.code != ResponseCode.SYSTEM_ERROR:  # that is how a broker says "none"
                    raise
            else:
                found.append(bodies.decode(answer.body, ProducerConnections))
        return _distinct(found)

    async def lag(self, group: str, topic: str = "") -> dict[QueueId, QueueProgress]:
        """How far a group is in each queue: what it has not consumed is ``broker_offset - consumer_offset``."""
        header = GetConsumeStatsHeader(
            consumer_group=self.client.wire_name(group), topic=self.client.wire_name(topic) if topic else None
        )
        answers = await self._ask_all(await self._masters(), RequestCode.GET_CONSUME_STATS, header)
        tables = [bodies.decode(answer.body, ConsumeStats).offset_table for answer in answers]
        return dict(sorted((queue, progress) for table in tables for queue, progress in table.items()))

    async def reset_offset(
        self, group: str, topic: str, *, to_ms: int = LATEST, queue: QueueId | None = None, offset: int | None = None
    ) -> dict[QueueId, int]:
        """Moves a group to the messages of a time, LATEST or EARLIEST, or one queue of it to an offset.

        Returns where it goes on, by queue.
        """
        if (offset is None) != (queue is None):
            raise ConfigError("an offset belongs to one queue: give both, or neither")
        header = ResetOffsetHeader(
            topic=self.client.wire_name(topic),
            group=self.client.wire_name(group),
            timestamp=to_ms,
            is_force=True,
            queue_id=-1 if queue is None else queue.number,
            offset=offset,
        )
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        if queue is None:
            answers = await self._ask_brokers_of(topic, code, header)
        else:
            answers = [await self._ask(await self._address(queue.broker), code, header)]
        tables = [bodies.decode(answer.body, bodies.ResetOffsets).offset_table for answer in answers if answer.body]
        return dict(sorted((queue, offset) for table in tables for queue, offset in table.items()))

    async def offset_at(self, queue: QueueId, time_ms: int) -> int:
        """The first offset of a queue that was stored at that time or later."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.number, timestamp=time_ms)
        answer = await self._ask(await self._address(queue.broker), RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return answer.header_as(OffsetResponseHeader).offset

    # --- messages ---

    async def message(self, topic: str, message_id: str) -> ReceivedMessage:
        """By either of its ids. Raises NotFoundError."""
        try:
            return await self.message_by_offset_id(message_id)
        except (MalformedMessageIdError, NotFoundError):
            return await self.message_by_unique_key(topic, message_id)

    async def message_by_offset_id(self, message_id: str) -> ReceivedMessage:
        """By the id that the broker gave. Raises NotFoundError, MalformedMessageIdError.

        An id names the address to ask; only those of brokers that name servers know are asked.
        """
        host, position = decode_offset_id(message_id)
        names = {
            address: broker.broker_name
            for broker in (await self.cluster()).broker_addr_table.values()
            for address in broker.broker_addrs.values()
        }
        if str(host) not in names:
            raise _no_message(f"no broker that name servers know has the address {host} of message {message_id}")
        try:
            answer = await self._ask(str(host), RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(position=position))
        except BrokerError as error:
            raise NotFoundError(code=error.code, remark=f"no message {message_id}: {error.remark}") from error
        return self._messages(answer, names[str(host)])[0]

    async def message_by_unique_key(self, topic: str, unique_key: str) -> ReceivedMessage:
        """By the id that its producer gave; the latest if there are several. Raises NotFoundError."""
        found = await self._query(topic, unique_key, 32, 0, _TIME_MAX, is_unique_key=True)
        found = [message for message in found if message.message_id == unique_key]
        if not found:
            raise _no_message(f"no message of topic {topic} has the id {unique_key}")
        return max(found, key=lambda message: message.stored_ms)

    async def messages_by_key(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = _TIME_MAX, count_max: int = 32
    ) -> list[ReceivedMessage]:
        """Messages that carry a key, oldest first; none if there are none."""
        found = await self._query(topic, key, count_max, begin_ms, end_ms, is_unique_key=False)
        found = [message for message in found if key in message.keys]
        return sorted(found, key=lambda message: message.stored_ms)[:count_max]

    async def message_at(self, queue: QueueId, offset: int) -> ReceivedMessage:
        """The message at an offset of a queue. Raises NotFoundError."""
        header = PullHeader(
            consumer_group=_TOOL_GROUP,
            topic=queue.topic,
            queue_id=queue.number,
            queue_offset=offset,
            max_msg_nums=1,
            sys_flag=int(PullFlag.SUBSCRIPTION),
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        address, code = await self._address(queue.broker), RequestCode.PULL_MESSAGE
        answer = await self.client.ask(self.client.brokers.link(address), code, header, expect=(0, 19, 20, 21))
        found = [message for message in self._messages(answer, queue.broker) if message.offset == offset]
        if not found:
            raise _no_message(f"queue {queue.number} of topic {queue.topic} on {queue.broker} has no offset {offset}")
        return found[0]

    async def _query(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int, *, is_unique_key: bool
    ) -> list[ReceivedMessage]:
        header = QueryMessageHeader(
            topic=self.client.wire_name(topic),
            key=key,
            max_num=count_max,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            unique_key_query=is_unique_key,
        )
        found: list[ReceivedMessage] = []
        for broker in (await self.route(topic)).broker_datas:
            try:
                answer = await self._ask(broker.readable_addr() or "", RequestCode.QUERY_MESSAGE, header)
            except NotFoundError:
                continue
            found += self._messages(answer, broker.broker_name)
        return found

    # --- asking ---

    async def _ask_nameserver(self, code: RequestCode, header: Ext = None) -> Received[Any]:
        self.client.require_open()
        answer = await self.client.nameservers.ask(code, header, timeout_ms=self.client.settings.request_timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            raise error_of(answer)
        return answer

    async def _ask(self, address: str, code: RequestCode, header: Ext = None, body: bytes = b"") -> Received[Any]:
        return await self.client.ask(self.client.brokers.link(address), code, header, body)

    async def _ask_all(
        self, addresses: Iterable[str], code: RequestCode, header: Ext = None, body: bytes = b""
    ) -> list[Received[Any]]:
        return await _gather([self._ask(address, code, header, body) for address in addresses])

    async def _ask_brokers_of(self, topic: str, code: RequestCode, header: Ext) -> list[Received[Any]]:
        brokers = (await self.route(topic)).broker_datas
        return await self._ask_all([address for broker in brokers if (address := broker.readable_addr())], code, header)

    async def _masters(self, cluster: str = "", broker: str = "") -> list[str]:
        """Addresses of masters: of one broker, of a cluster, of all. Raises BrokerError if there are none."""
        if broker:
            return [await self._address(broker)]
        info = await self.cluster()
        names = info.cluster_addr_table.get(cluster, []) if cluster else list(info.broker_addr_table)
        found = sorted(
            address
            for name in names
            if name in info.broker_addr_table and (address := info.broker_addr_table[name].master_addr)
        )
        if not found:
            where = f"in cluster {cluster}" if cluster else "anywhere"
            raise BrokerError(code=ResponseCode.BROKER_NOT_EXIST, remark=f"no broker with a master {where}")
        return found

    async def _address(self, broker: str) -> str:
        """Of a broker's master by its name; an address stays what it is. Raises BrokerError."""
        if ":" in broker:
            return broker
        data = (await self.cluster()).broker_addr_table.get(broker)
        if data is None or not (address := data.readable_addr()):
            raise BrokerError(code=ResponseCode.BROKER_NOT_EXIST, remark=f"name servers know no broker {broker}")
        return address

    def _messages(self, answer: Received[Any], broker: str) -> list[ReceivedMessage]:
        return split_messages(answer.body, broker, namespace=self.client.settings.namespace)


async def _gather(work: list[Coroutine[Any, Any, T]]) -> list[T]:
    """All together; the first failure is raised when all are over."""
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def _distinct(found: Iterable[ConsumerConnections | ProducerConnections]) -> tuple[ClientConnection, ...]:
    """Each client once, though it is connected to every broker."""
    by_id = {client.client_id: client for connections in found for client in connections.connection_set}
    return tuple(by_id[client_id] for client_id in sorted(by_id))


def _no_message(text: str) -> NotFoundError:
    return NotFoundError(code=ResponseCode.NO_MESSAGE, remark=text)
