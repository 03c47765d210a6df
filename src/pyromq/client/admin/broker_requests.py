"""Requests to one broker, by its address: one method per request code, and nothing joined.

Names are as brokers have them, namespaces included. Methods raise TransportError when the broker cannot be reached,
BrokerError when it refuses, RemoteProtocolError for a response that cannot be read.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, TypeVar

import msgspec

from pyromq.client.admin.directory import BrokerDirectory
from pyromq.client.admin.settings_text import settings_in, settings_text
from pyromq.client.core.client import Client
from pyromq.client.core.received_message import ReceivedMessage, split_messages
from pyromq.errors import BrokerError, NotFoundError
from pyromq.model.queue import QueueId
from pyromq.model.system_names import TOOL_GROUP, TOOL_PRODUCER
from pyromq.model.topic import GroupConfig, TopicConfig
from pyromq.security.audit import AuditEntry, AuditSearch
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import Ext
from pyromq.wire.flags import PullFlag
from pyromq.wire.headers.admin import (
    CloneGroupOffsetHeader,
    CreateTopicHeader,
    DeleteGroupHeader,
    GetAllTopicConfigHeader,
    GetBrokerConsumeStatsHeader,
    GetConsumeStatsHeader,
    GetTopicConfigHeader,
    GroupHeader,
    ProducerGroupHeader,
    QueryConsumeQueueHeader,
    ViewBrokerStatsHeader,
)
from pyromq.wire.headers.consumer import (
    GetMaxOffsetHeader,
    OffsetResponseHeader,
    PullHeader,
    PullResponseHeader,
    QueryConsumerOffsetHeader,
    QueryMessageHeader,
    QueryMessageResponseHeader,
    QueueHeader,
    SearchOffsetHeader,
    SendBackHeader,
    UpdateConsumerOffsetHeader,
    ViewMessageHeader,
)
from pyromq.wire.headers.pop import PollingInfoHeader, PollingInfoResponseHeader
from pyromq.wire.headers.producer import RecallMessageHeader, RecallMessageResponseHeader
from pyromq.wire.headers.shared import (
    ConsumeDirectlyHeader,
    ConsumerGroupHeader,
    ConsumerRunningInfoHeader,
    ResetOffsetHeader,
    TopicHeader,
)
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.bodies import (
    BrokerConsumeStats,
    ConsumeStatsBody,
    QueueProgress,
    QueueView,
    StatsData,
)
from pyromq.wire.json.heartbeat import ConsumerConnections, ProducerConnections, decode_consumer_connections
from pyromq.wire.json.membership import BrokerStatus
from pyromq.wire.json.store_facts import CheckCounts, StoreFacts
from pyromq.wire.received import Received

T = TypeVar("T")

READ_AT_ONCE: Final = 32
_OK: Final = (ResponseCode.SUCCESS,)
_FOUND_OR_NOT: Final = (0, 19, 20, 21)
_BULK_TIMEOUT_MS: Final = 20_000  # a broker walks all of its topics or groups for it
_DIRECT_TIMEOUT_MS: Final = 12_000  # a broker waits 10 s for the member


class ProducerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A producer that is connected (RocketMQ: ProducerInfo)."""

    client_id: str = msgspec.field(name="clientId")
    address: str = msgspec.field(name="remoteIP", default="")
    language: str = ""
    version: int = 0
    seen_ms: int = msgspec.field(name="lastUpdateTimestamp", default=0)


class QueuePage(msgspec.Struct, frozen=True):
    """What one read of a queue gave: messages in order, where to read on, and what the queue holds now."""

    messages: list[ReceivedMessage]
    next_offset: int
    first: int
    end: int


class KeyMatches(msgspec.Struct, frozen=True):
    """What the key index of a broker gave; ``is_cut``: older messages may have the key too."""

    messages: list[ReceivedMessage]
    is_cut: bool = False


class _Producers(msgspec.Struct, frozen=True):
    data: dict[str, list[ProducerInfo]] = {}


class _TopicTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    topic_config_table: dict[str, TopicConfig] = {}


class _GroupTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    subscription_group_table: dict[str, GroupConfig] = {}


class BrokerRequests:
    """What one broker is asked, by its address or its name. Raises NotFoundError for a name that is not known."""

    def __init__(self, client: Client, directory: BrokerDirectory) -> None:
        self._client = client
        self._directory = directory

    async def ask(
        self,
        broker: str,
        code: RequestCode,
        header: Ext = None,
        body: bytes = b"",
        *,
        timeout_ms: int = 0,
        expect: Collection[int] = _OK,
    ) -> Received[Any]:
        link = self._client.brokers.link(await self._directory.address(broker))
        return await self._client.ask(link, code, header, body, timeout_ms=timeout_ms, expect=expect)

    async def _ask_for_all(self, address: str, code: RequestCode, header: Ext = None) -> bytes:
        timeout_ms = max(_BULK_TIMEOUT_MS, self._client.settings.request_timeout_ms)
        return (await self.ask(address, code, header, timeout_ms=timeout_ms)).body

    async def _ask_ours(self, address: str, code: RequestCode, kind: type[T], *more: ResponseCode) -> T | None:
        """Return what brokers of ours say; None where the request is not known, or refused with one of ``more``."""
        try:
            response = await self.ask(address, code)
        except BrokerError as error:
            if error.code in (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, *more):
                return None
            raise
        return msgspec.json.decode(response.body, type=kind)

    def _messages(self, response: Received[Any], broker: str) -> list[ReceivedMessage]:
        return split_messages(response.body, broker, namespace=self._client.settings.namespace)

    # --- topics ---

    async def topic_configs(self, address: str) -> dict[str, TopicConfig]:
        body = await self._ask_for_all(address, RequestCode.GET_ALL_TOPIC_CONFIG, GetAllTopicConfigHeader())
        return java_json.decode(body, _TopicTable).topic_config_table

    async def topic_config(self, address: str, topic: str) -> TopicConfig:
        header = GetTopicConfigHeader(topic=topic, logical=False)
        return java_json.decode((await self.ask(address, RequestCode.GET_TOPIC_CONFIG, header)).body, TopicConfig)

    async def create_topic(self, address: str, header: CreateTopicHeader) -> None:
        await self.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def delete_topic(self, address: str, topic: str) -> None:
        await self.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=topic))

    async def topic_stats(self, address: str, topic: str) -> bodies.TopicStats:
        response = await self.ask(address, RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic=topic))
        return bodies.decode(response.body, bodies.TopicStats)

    async def groups_of_topic(self, address: str, topic: str) -> tuple[str, ...]:
        response = await self.ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic=topic))
        return tuple(java_json.decode(response.body, bodies.GroupNames).group_list)

    async def clean_unused_topics(self, address: str) -> None:
        await self.ask(address, RequestCode.CLEAN_UNUSED_TOPIC)

    # --- groups and clients ---

    async def group_configs(self, address: str) -> dict[str, GroupConfig]:
        body = await self._ask_for_all(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return java_json.decode(body, _GroupTable).subscription_group_table

    async def popped(
        self, address: str, group: str, topic: str, queue_id: int, offset: int
    ) -> PollingInfoResponseHeader:
        """Return what became of a message in a group that pops; its fields are None where the broker cannot know."""
        header = PollingInfoHeader(consumer_group=group, topic=topic, queue_id=queue_id, offset=offset)
        response = await self.ask(address, RequestCode.POLLING_INFO, header)
        return response.header_as(PollingInfoResponseHeader)

    async def group_config(self, address: str, group: str) -> GroupConfig:
        """Return what the broker has, or makes up. Raises GroupNotFoundError."""
        response = await self.ask(address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader(group=group))
        return java_json.decode(response.body, GroupConfig)

    async def update_group(self, address: str, config: GroupConfig) -> None:
        body = java_json.dumps(config)
        await self.ask(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)

    async def delete_group(self, address: str, group: str, *, clean_offsets: bool) -> None:
        header = DeleteGroupHeader(group_name=group, clean_offset=clean_offsets)
        await self.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def consumer_connections(self, address: str, group: str) -> ConsumerConnections:
        """Members of a group at one broker. Raises GroupOfflineError."""
        header = ConsumerGroupHeader(consumer_group=group)
        return decode_consumer_connections(
            (await self.ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)).body
        )

    async def producer_connections(self, address: str, group: str) -> ProducerConnections | None:
        """Return None where no producer of the group is connected."""
        header = ProducerGroupHeader(producer_group=group)
        try:
            response = await self.ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        except BrokerError as error:
            if error.code == ResponseCode.SYSTEM_ERROR:  # that is how a broker says "none"
                return None
            raise
        return bodies.decode(response.body, ProducerConnections)

    async def producers(self, address: str) -> dict[str, list[ProducerInfo]]:
        """Return the connected producers by group."""
        return java_json.decode((await self.ask(address, RequestCode.GET_ALL_PRODUCER_INFO)).body, _Producers).data

    async def running_info(self, address: str, group: str, client_id: str, *, with_stack: bool = False) -> bytes:
        """Return what a member says about itself; the broker passes the question on."""
        header = ConsumerRunningInfoHeader(consumer_group=group, client_id=client_id, jstack_enable=with_stack)
        return (await self.ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header)).body

    async def consume_directly(self, address: str, header: ConsumeDirectlyHeader) -> bytes:
        """Return what the member says that was handed the message."""
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        return (await self.ask(address, code, header, timeout_ms=_DIRECT_TIMEOUT_MS)).body

    # --- offsets ---

    async def progress(self, address: str, group: str, topic: str = "") -> dict[QueueId, QueueProgress]:
        """Return how far a group is in each queue of a topic, or of all of its topics."""
        header = GetConsumeStatsHeader(consumer_group=group, topic=topic or None)
        response = await self.ask(address, RequestCode.GET_CONSUME_STATS, header)
        return bodies.decode(response.body, ConsumeStatsBody).offset_table

    async def progress_of_all(self, address: str, *, ordered_only: bool = False) -> BrokerConsumeStats:
        """Return how far every group is in every topic that it consumes."""
        header = GetBrokerConsumeStatsHeader(is_order=ordered_only)
        body = await self._ask_for_all(address, RequestCode.GET_BROKER_CONSUME_STATS, header)
        return bodies.decode_broker_consume_stats(body)

    async def first_offset(self, queue: QueueId) -> int:
        header = QueueHeader(topic=queue.topic, queue_id=queue.number)
        return (await self.ask(queue.broker, RequestCode.GET_MIN_OFFSET, header)).header_as(OffsetResponseHeader).offset

    async def end_offset(self, queue: QueueId) -> int:
        header = GetMaxOffsetHeader(topic=queue.topic, queue_id=queue.number)
        return (await self.ask(queue.broker, RequestCode.GET_MAX_OFFSET, header)).header_as(OffsetResponseHeader).offset

    async def offset_at(self, queue: QueueId, time_ms: int) -> int:
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.number, timestamp=time_ms)
        response = await self.ask(queue.broker, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return response.header_as(OffsetResponseHeader).offset

    async def committed(self, group: str, queue: QueueId) -> int | None:
        """Return None for a group that never committed in this queue."""
        header = QueryConsumerOffsetHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.number, set_zero_if_not_found=False
        )
        try:
            response = await self.ask(queue.broker, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except NotFoundError as error:
            if error.code == ResponseCode.BROKER_NOT_EXIST:
                raise
            return None
        return response.header_as(OffsetResponseHeader).offset

    async def commit(self, group: str, queue: QueueId, offset: int) -> None:
        header = UpdateConsumerOffsetHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.number, commit_offset=offset
        )
        await self.ask(queue.broker, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def reset_offset(self, address: str, header: ResetOffsetHeader) -> dict[QueueId, int]:
        """Return where the group goes on, by queue."""
        body = (await self.ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)).body
        return bodies.decode(body, bodies.ResetOffsets).offset_table if body else {}

    async def clone_offsets(self, address: str, from_group: str, to_group: str, topic: str) -> None:
        header = CloneGroupOffsetHeader(src_group=from_group, dest_group=to_group, topic=topic)
        await self.ask(address, RequestCode.CLONE_GROUP_OFFSET, header)

    # --- messages ---

    async def read(self, queue: QueueId, offset: int, count_max: int = READ_AT_ONCE) -> QueuePage:
        """Return messages from an offset on, as many as the broker gives at once; no group moves by it."""
        header = PullHeader(
            consumer_group=TOOL_GROUP,
            topic=queue.topic,
            queue_id=queue.number,
            queue_offset=offset,
            max_msg_nums=count_max,
            sys_flag=int(PullFlag.SUBSCRIPTION),
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        response = await self.ask(queue.broker, RequestCode.PULL_MESSAGE, header, expect=_FOUND_OR_NOT)
        facts = response.header_as(PullResponseHeader)
        messages = self._messages(response, queue.broker)
        return QueuePage(messages, facts.next_begin_offset, facts.min_offset, facts.max_offset)

    async def message_at(self, address: str, broker: str, position: int) -> ReceivedMessage:
        """Return the message at a position of the broker's log."""
        response = await self.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(position=position))
        return self._messages(response, broker)[0]

    async def messages_by_key(self, address: str, broker: str, header: QueryMessageHeader) -> KeyMatches:
        """Return what the key index has. Raises NotFoundError, TopicNotFoundError."""
        response = await self.ask(address, RequestCode.QUERY_MESSAGE, header)
        is_cut = bool(response.header_as(QueryMessageResponseHeader).older_unseen)
        return KeyMatches(self._messages(response, broker), is_cut)

    async def send_back(self, address: str, header: SendBackHeader) -> None:
        await self.ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, header)

    async def queue_entries(self, address: str, header: QueryConsumeQueueHeader) -> QueueView:
        return bodies.decode((await self.ask(address, RequestCode.QUERY_CONSUME_QUEUE, header)).body, QueueView)

    # --- delays and transactions ---

    async def delay_offsets(self, address: str) -> dict[int, int]:
        """Return by level the offset up to which everything is delivered."""
        body = (await self.ask(address, RequestCode.GET_ALL_DELAY_OFFSET)).body
        table = java_json.parse(body) if body else {}
        return {int(level): int(offset) for level, offset in (table.get("offsetTable") or {}).items()}

    async def recall(self, address: str, topic: str, handle: str) -> str:
        """Return the id of the message that was called back."""
        header = RecallMessageHeader(producer_group=TOOL_PRODUCER, topic=topic, recall_handle=handle)
        response = await self.ask(address, RequestCode.RECALL_MESSAGE, header)
        return response.header_as(RecallMessageResponseHeader).msg_id or ""

    async def prepared_checks(self, address: str) -> dict[int, int]:
        """Return how often prepared messages were checked, by offset; Apache's brokers count in the message instead."""
        code = RequestCode.QUERY_PREPARED_CHECKS
        found = await self._ask_ours(address, code, CheckCounts, ResponseCode.NO_PERMISSION)
        return found.checks if found is not None else {}

    # --- the broker itself ---

    async def config(self, address: str) -> dict[str, str]:
        return settings_in((await self.ask(address, RequestCode.GET_BROKER_CONFIG)).body)

    async def update_config(self, address: str, values: dict[str, str]) -> None:
        """Change settings of a broker. Raises ConfigError for what cannot be written as ``key=value``."""
        await self.ask(address, RequestCode.UPDATE_BROKER_CONFIG, None, settings_text(values))

    async def runtime(self, address: str) -> dict[str, str]:
        response = await self.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return bodies.decode(response.body, bodies.KeyValues).table

    async def store_facts(self, address: str) -> StoreFacts | None:
        """Return None for Apache RocketMQ, which says nothing of the kind."""
        return await self._ask_ours(address, RequestCode.QUERY_STORE_FACTS, StoreFacts)

    async def status(self, address: str) -> BrokerStatus | None:
        """Return None for Apache RocketMQ, which says nothing of the kind."""
        return await self._ask_ours(address, RequestCode.QUERY_MEMBER, BrokerStatus)

    async def replication_state(self, address: str) -> bodies.ReplicationState:
        response = await self.ask(address, RequestCode.GET_BROKER_HA_STATUS)
        return bodies.decode(response.body, bodies.ReplicationState)

    async def stats(self, address: str, name: str, key: str) -> StatsData | None:
        """Return one of RocketMQ's statistics; None when nothing happened yet."""
        header = ViewBrokerStatsHeader(stats_name=name, stats_key=key)
        try:
            response = await self.ask(address, RequestCode.VIEW_BROKER_STATS_DATA, header)
        except BrokerError as error:
            if error.code == ResponseCode.SYSTEM_ERROR:  # that is how a broker says "none"
                return None
            raise
        return bodies.decode(response.body, StatsData)

    async def clean_expired_queues(self, address: str) -> None:
        await self.ask(address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def delete_expired_log(self, address: str) -> None:
        await self.ask(address, RequestCode.DELETE_EXPIRED_COMMITLOG)

    async def audit_log(self, address: str, question: AuditSearch) -> list[AuditEntry]:
        response = await self.ask(address, RequestCode.QUERY_AUDIT_LOG, None, msgspec.json.encode(question))
        return msgspec.json.decode(response.body, type=list[AuditEntry]) if response.body else []
