"""Bodies that brokers exchange with clients and tools: group members, locks, progress, statistics.

One struct per body, under RocketMQ's field names; ``encode`` and ``decode`` serve them all. A queue is written
``{"brokerName":"broker-a","queueId":0,"topic":"TopicTest"}``, also where it is the key of a map. Java also takes such
a key as JSON text in quotes, and so do we. ``heartbeat`` and ``registration`` hold the larger ones.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from pyromq.model.queue import QueueId
from pyromq.model.topic import DataVersion
from pyromq.wire.json import java_json
from pyromq.wire.json.heartbeat import Subscription
from pyromq.wire.json.java_json import Long

Body = TypeVar("Body", bound=msgspec.Struct)


class KeyValues(msgspec.Struct, frozen=True):
    """A table of text (RocketMQ: KVTable)."""

    table: dict[str, str] = {}


# --- groups --------------------------------------------------------------------------------------------------------


class GroupMemberIds(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Members that consume in a group (RocketMQ: GetConsumerListByGroupResponseBody)."""

    consumer_id_list: list[str] = []


class GroupNames(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """300: the groups that consume a topic, or did."""

    group_list: list[str] = []


class LockRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Queues that a client wants for itself, or gives back (RocketMQ: LockBatchRequestBody, UnlockBatch…)."""

    consumer_group: str
    client_id: str
    mq_set: tuple[QueueId, ...] = ()
    only_this_broker: bool = False


class LockResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The queues that were granted."""

    granted: tuple[QueueId, ...] = msgspec.field(name="lockOKMQSet", default=())


class AssignmentRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Asks the broker to share out a topic's queues (RocketMQ: QueryAssignmentRequestBody)."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = "AVG"
    message_model: str = "CLUSTERING"


class QueueAssignment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    message_queue: QueueId
    mode: str = "PULL"


class AssignmentResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    message_queue_assignments: tuple[QueueAssignment, ...] = ()


class RequestMode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a group fetches a topic (RocketMQ: SetMessageRequestModeRequestBody)."""

    topic: str
    consumer_group: str
    mode: str = "PULL"
    pop_share_queue_num: int = 0


# --- statistics ----------------------------------------------------------------------------------------------------


class PoppedProgress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is in flight of a queue that a group pops: PyroMQ's brokers say it, RocketMQ's do not."""

    in_flight: Long = 0
    """Messages that are with consumers."""
    ready: Long = 0
    """Messages that are to be delivered again."""
    settled: Long = 0
    """Messages that were acknowledged behind an older one that is not."""
    attempts: Long = 0
    """How often the oldest unsettled message was delivered."""
    invisible_until: Long = 0
    """Until when nobody else gets it; 0 when it is with nobody."""


class QueueProgress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a group is in a queue (RocketMQ: OffsetWrapper); the time is that of the last message consumed, or 0."""

    broker_offset: Long = 0
    consumer_offset: Long = 0
    pull_offset: Long = 0
    last_timestamp: Long = 0
    popped: PoppedProgress | msgspec.UnsetType = msgspec.UNSET

    @property
    def in_flight(self) -> int | None:
        """Messages that are with consumers of a group that pops; None of one that pulls."""
        return self.popped.in_flight if isinstance(self.popped, PoppedProgress) else None


class ConsumeStatsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    offset_table: dict[QueueId, QueueProgress] = {}
    consume_tps: float = 0.0


class QueueTimes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When messages of a queue were stored (RocketMQ: QueueTimeSpan): the oldest, the newest, the last consumed; −1
    where there is none. ``delay_time`` is how long the next one has waited."""

    message_queue: QueueId
    min_time_stamp: Long = -1
    max_time_stamp: Long = -1
    consume_time_stamp: Long = -1
    delay_time: Long = 0
    min_time_stamp_str: str | None = ""
    max_time_stamp_str: str | None = ""
    consume_time_stamp_str: str | None = ""


class TimeSpans(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Time spans of a group's queues (RocketMQ: QueryConsumeTimeSpanBody)."""

    consume_time_span_set: list[QueueTimes] = []


class TopicOffset(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a queue holds (RocketMQ: TopicOffset)."""

    min_offset: Long = 0
    max_offset: Long = 0
    last_update_timestamp: Long = 0


class TopicStats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Offsets of a topic's queues (RocketMQ: TopicStatsTable)."""

    offset_table: dict[QueueId, TopicOffset] = {}
    topic_put_tps: float = 0.0


class BrokerConsumeStats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every group of a broker in every topic it consumes (RocketMQ: ConsumeStatsList); one map per group."""

    broker_addr: str = ""
    consume_stats_list: list[dict[str, list[ConsumeStatsBody]]] = []
    total_diff: Long = 0
    total_inflight_diff: Long = 0


class StatsItem(msgspec.Struct, frozen=True, kw_only=True):
    """What a counter did in a window (RocketMQ: BrokerStatsItem); ``avgpt`` is the average per call."""

    sum: Long = 0
    tps: float = 0.0
    avgpt: float = 0.0


class StatsData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One counter in its three windows (RocketMQ: BrokerStatsData)."""

    stats_minute: StatsItem = StatsItem()
    stats_hour: StatsItem = StatsItem()
    stats_day: StatsItem = StatsItem()


class QueueEntryView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry of a consume queue, and whether the group's filter takes it (RocketMQ: ConsumeQueueData)."""

    physic_offset: Long
    physic_size: int
    tags_code: Long
    eval: bool = False


class QueueView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A stretch of a consume queue (RocketMQ: QueryConsumeQueueResponseBody); ``filter_data`` is JSON, or a reason."""

    subscription_data: Subscription | None = None
    filter_data: str | None = None
    queue_data: list[QueueEntryView] = []
    max_queue_index: Long = 0
    min_queue_index: Long = 0


# --- replicas ------------------------------------------------------------------------------------------------------


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a replica follows its master (RocketMQ: HAClientRuntimeInfo); all 0 at a master."""

    master_addr: str | None = None
    transferred_byte_in_second: Long = 0
    max_offset: Long = 0
    last_read_timestamp: Long = 0
    last_write_timestamp: Long = 0
    master_flush_offset: Long = 0


class ReplicaConnectionState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One connection of a replica, as its master sees it (RocketMQ: HAConnectionRuntimeInfo)."""

    addr: str = ""
    slave_ack_offset: Long = 0
    diff: Long = 0
    in_sync: bool = False
    transferred_byte_in_second: Long = 0
    transfer_from_where: Long = 0


class ReplicationState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A master and its replicas, or a replica (RocketMQ: HARuntimeInfo)."""

    master: bool = True
    master_commit_log_max_offset: Long = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: tuple[ReplicaConnectionState, ...] = ()
    ha_client_runtime_info: ReplicaState = ReplicaState()


# --- offsets -------------------------------------------------------------------------------------------------------


class AllOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far every group is (RocketMQ: ConsumerOffsetSerializeWrapper); keys of the tables are ``topic@group``."""

    data_version: DataVersion = DataVersion()
    offset_table: dict[str, dict[int, Long]] = {}
    group_topic_map: dict[str, list[str]] = {}
    pull_offset_table: dict[str, dict[int, Long]] = {}


class CorrectionOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """By queue number, the smallest offset that other groups stand at (RocketMQ: QueryCorrectionOffsetBody)."""

    correction_offsets: dict[int, Long] = {}


class ResetOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a group shall go on (RocketMQ: ResetOffsetBody)."""

    offset_table: dict[QueueId, Long] = {}


class ClientOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A client's response to the question how far it is (RocketMQ: GetConsumerStatusBody as a client sends it)."""

    message_queue_table: dict[QueueId, Long] = {}


class GroupOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Offsets of every client of a group, by client id."""

    consumer_table: dict[str, dict[QueueId, Long]] = {}


_QUEUE_KEYED: Final = ("offsetTable", "messageQueueTable")


def encode(body: msgspec.Struct) -> bytes:
    """Any of the bodies above, as Java writes it."""
    return java_json.dumps(body)


def decode(data: bytes, type_: type[Body]) -> Body:
    """Any of the bodies above; raises RemoteProtocolError."""
    value = java_json.parse(java_json.with_text_keys(data))
    if isinstance(value, dict):
        value = {name: _queue_keyed(name, table) for name, table in value.items()}
    return java_json.convert(value, type_, nulls=java_json.has_nulls(data))


def decode_broker_consume_stats(data: bytes) -> BrokerConsumeStats:
    """Queues are keys inside of the list. Raises RemoteProtocolError."""
    value = java_json.parse(java_json.with_text_keys(data))
    tables = value.get("consumeStatsList") if isinstance(value, dict) else None
    groups = [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []
    lists = [stats for table in groups for stats in table.values() if isinstance(stats, list)]
    for one in (each for stats in lists for each in stats if isinstance(each, dict)):
        one["offsetTable"] = _with_object_keys(one.get("offsetTable"))
    return java_json.convert(value, BrokerConsumeStats, nulls=java_json.has_nulls(data))


def encode_reset_list(offsets: ResetOffsets) -> bytes:
    """The form for C++ clients, which know no object keys: a list, each queue with its offset beside it."""
    queues = [
        {"brokerName": queue.broker, "offset": offset, "queueId": queue.number, "topic": queue.topic}
        for queue, offset in offsets.offset_table.items()
    ]
    return java_json.dumps({"offsetTable": queues})


def _queue_keyed(name: Any, table: Any) -> Any:
    if name == "consumerTable" and isinstance(table, dict):
        return {client: _with_object_keys(offsets) for client, offsets in table.items()}
    return _with_object_keys(table) if name in _QUEUE_KEYED else table


def _with_object_keys(table: Any) -> Any:
    if isinstance(table, list):  # the form for C++ clients
        return {_listed_key(entry): _listed_offset(entry) for entry in table}
    return {_object_key(key): value for key, value in table.items()} if isinstance(table, dict) else table


def _object_key(key: Any) -> Any:
    if not (isinstance(key, str) and key.startswith("{")):
        return key
    fields = java_json.parse(key)
    return java_json.ObjectKey(fields)


def _listed_key(entry: Any) -> Any:
    if not isinstance(entry, dict):
        raise java_json.UnexpectedJsonError("a list of queues holds something else")
    return java_json.ObjectKey({name: value for name, value in entry.items() if name != "offset"})


def _listed_offset(entry: Any) -> Any:
    return entry.get("offset", 0)
