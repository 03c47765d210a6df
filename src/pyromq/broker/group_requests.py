"""Administration of consumer groups: their configuration, members, progress and resets."""

from __future__ import annotations

import msgspec

from pyromq.broker.groups import PRESET_GROUPS, Groups
from pyromq.broker.members import Member, Members
from pyromq.broker.progress import Progress
from pyromq.broker.refusals import RefusedError
from pyromq.broker.settings import BrokerSettings
from pyromq.broker.topics import Topics
from pyromq.model.names import retry_topic, validate_group
from pyromq.model.queue import QueueId
from pyromq.model.topic import GroupConfig
from pyromq.net.connection import Connection
from pyromq.store.message_store import MessageStore
from pyromq.wire import bodies, java_json
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.admin import (
    CloneGroupOffsetHeader,
    DeleteGroupHeader,
    GetConsumeStatsHeader,
    GroupForbiddenHeader,
    GroupHeader,
    ProducerGroupHeader,
    QuerySubscriptionHeader,
)
from pyromq.wire.headers.shared import ConsumerGroupHeader, ResetOffsetHeader, TopicGroupHeader
from pyromq.wire.heartbeat import Connection as ConnectionInfo
from pyromq.wire.heartbeat import ConsumerConnections, ProducerConnections, Subscription
from pyromq.wire.received import Received
from pyromq.wire.route import TopicList, encode_topics

_LATEST = -1


class _GroupConfigs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    group_config_list: list[GroupConfig] = []


class _Forbidden(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    topic: str
    readable: bool


class _SubscriptionAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    group: str
    topic: str | None = None
    subscription_data: Subscription | None = None


class GroupHandler:
    """Requests 200, 201, 203, 204, 207, 208, 222, 225, 314, 328, 343, 345, 352 and 353."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        progress: Progress,
        members: Members[Connection],
        settings: BrokerSettings,
    ) -> None:
        self._store, self._topics, self._groups, self._progress = store, topics, groups, progress
        self._members, self._settings = members, settings

    # --- configuration ---

    def update(self, connection: Connection, request: Received[None]) -> None:
        self._update(java_json.decode(request.body, GroupConfig))

    def update_all(self, connection: Connection, request: Received[None]) -> None:
        for config in java_json.decode(request.body, _GroupConfigs).group_config_list:
            self._update(config)

    def _update(self, config: GroupConfig) -> None:
        validate_group(config.group_name)
        self._groups.update(config)
        if config.retry_queue_nums > 0:
            self._topics.create(retry_topic(config.group_name), queues=config.retry_queue_nums)

    def get(self, connection: Connection, request: Received[GroupHeader]) -> bytes:
        config = self._groups.table.get(request.header.group)
        if config is None:
            text = f"subscription group {request.header.group} does not exist"
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        return java_json.dumps(config)

    def get_all(self, connection: Connection, request: Received[None]) -> bytes:
        return self._groups.table.text()

    def delete(self, connection: Connection, request: Received[DeleteGroupHeader]) -> None:
        group = request.header.group_name
        if group in PRESET_GROUPS:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"{group} is a group of the system")
        self._groups.delete(group)
        if request.header.clean_offset:
            self._progress.forget_group(group)

    def forbidden(self, connection: Connection, request: Received[GroupForbiddenHeader]) -> bytes:
        header = request.header
        if header.readable is not None:
            self._groups.require(header.group)
            self._groups.allow_read(header.group, header.topic, header.readable)
        readable = self._groups.may_read(header.group, header.topic)
        return java_json.dumps(_Forbidden(group=header.group, topic=header.topic, readable=readable))

    # --- members ---

    def consumers(self, connection: Connection, request: Received[ConsumerGroupHeader]) -> bytes:
        group = self._members.consumer_group(request.header.consumer_group)
        if group is None:
            text = f"no consumer of group {request.header.consumer_group} is connected to this broker"
            raise RefusedError(ResponseCode.CONSUMER_NOT_ONLINE, text)
        return java_json.dumps(
            ConsumerConnections(
                connection_set=tuple(map(_info, group.members.values())),
                subscription_table=dict(group.subscriptions),
                consume_type=group.consume_type,
                message_model=group.model,
                consume_from_where=group.from_where,
            )
        )

    def producers(self, connection: Connection, request: Received[ProducerGroupHeader]) -> bytes:
        found = self._members.producers(request.header.producer_group)
        if not found:
            text = f"no producer of group {request.header.producer_group} is connected to this broker"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
        return java_json.dumps(ProducerConnections(connection_set=tuple(map(_info, found))))

    def all_producers(self, connection: Connection, request: Received[None]) -> bytes:
        data = {
            group: [
                {
                    "clientId": member.client_id,
                    "remoteIP": member.connection.remote.host,
                    "language": member.language,
                    "version": member.version,
                    "lastUpdateTimestamp": member.seen_ms,
                }
                for member in found
            ]
            for group, found in self._members.producer_groups().items()
        }
        return java_json.dumps({"data": data})

    def subscription(self, connection: Connection, request: Received[QuerySubscriptionHeader]) -> bytes:
        header = request.header
        found = self._members.subscription(header.group, header.topic) if header.topic else None
        return java_json.dumps(_SubscriptionAnswer(group=header.group, topic=header.topic, subscription_data=found))

    def topics_of(self, connection: Connection, request: Received[GroupHeader]) -> bytes:
        return encode_topics(TopicList(topic_list=self._progress.topics_of(request.header.group)))

    # --- progress ---

    def consume_stats(self, connection: Connection, request: Received[GetConsumeStatsHeader]) -> bytes:
        header = request.header
        names = [header.topic] if header.topic else [name for name in (header.topic_list or "").split(";") if name]
        if not names:
            names = self._progress.topics_of(header.consumer_group)
            live = self._members.consumer_group(header.consumer_group)
            names += sorted(set(live.subscriptions) - set(names)) if live else []
        table: dict[QueueId, bodies.QueueProgress] = {}
        for name in names:
            table |= self._queue_progress(header.consumer_group, name)
        return bodies.encode(bodies.ConsumeStats(offset_table=table))

    def _queue_progress(self, group: str, topic: str) -> dict[QueueId, bodies.QueueProgress]:
        config = self._topics.get(topic)
        found = {}
        for number in range(config.read_queue_nums if config else 0):
            known = self._store.reader.range_of(topic, number)
            offset = self._progress.committed(group, topic, number) or 0
            last_ms = self._store.reader.stored_ms(topic, number, offset - 1) if offset else None
            found[QueueId(topic, self._settings.name, number)] = bodies.QueueProgress(
                broker_offset=known.end if known else 0,
                consumer_offset=offset,
                pull_offset=max(0, self._progress.pulled(group, topic, number)),
                last_timestamp=last_ms or 0,
            )
        return found

    def clone(self, connection: Connection, request: Received[CloneGroupOffsetHeader]) -> None:
        self._groups.require(request.header.src_group)
        self._groups.require(request.header.dest_group)
        self._progress.clone(request.header.src_group, request.header.dest_group, request.header.topic)

    def reset(self, connection: Connection, request: Received[ResetOffsetHeader]) -> bytes:
        """Move a group in a topic: pulls that come next are told where to go on, and live clients at once."""
        header = request.header
        config = self._topics.require(header.topic)
        self._groups.require(header.group)
        wanted = range(config.read_queue_nums)
        if header.queue_id is not None and header.queue_id >= 0:
            wanted = range(header.queue_id, header.queue_id + 1)
        offsets = {}
        for number in wanted:
            offset = self._reset_offset(header, number)
            self._progress.reset(header.group, header.topic, number, offset)
            offsets[QueueId(header.topic, self._settings.name, number)] = offset
        return bodies.encode(bodies.ResetOffsets(offset_table=offsets))

    def _reset_offset(self, header: ResetOffsetHeader, number: int) -> int:
        known = self._store.reader.range_of(header.topic, number)
        first, end = known if known else (0, 0)
        if header.offset is not None and header.offset >= 0:
            if not first <= header.offset <= end:
                text = f"offset {header.offset} of queue {number} of {header.topic} is outside [{first}, {end}]"
                raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
            return header.offset
        if header.timestamp == _LATEST:
            return end
        by_time = self._store.reader.offset_by_time(header.topic, number, header.timestamp)
        current = self._progress.committed(header.group, header.topic, number)
        return by_time if header.is_force or current is None else min(by_time, current)

    def time_span(self, connection: Connection, request: Received[TopicGroupHeader]) -> bytes:
        """When the oldest, the newest and the last consumed message of each queue were stored."""
        header, reader = request.header, self._store.reader
        config, spans = self._topics.require(header.topic), []
        for number in range(config.read_queue_nums):
            known = reader.range_of(header.topic, number)
            first, end = known if known else (0, 0)
            offset = self._progress.committed(header.group, header.topic, number)
            consumed = reader.stored_ms(header.topic, number, offset - 1) if offset else None
            pending = reader.stored_ms(header.topic, number, offset or 0) if (offset or 0) < end else None
            spans.append(
                {
                    "messageQueue": QueueId(header.topic, self._settings.name, number),
                    "minTimeStamp": (reader.stored_ms(header.topic, number, first) or 0) if end > first else 0,
                    "maxTimeStamp": (reader.stored_ms(header.topic, number, end - 1) or 0) if end > first else 0,
                    "consumeTimeStamp": consumed or 0,
                    "delayTime": max(0, self._store.last_stored_ms - pending) if pending else 0,
                }
            )
        return java_json.dumps({"consumeTimeSpanSet": spans})

    # --- questions that clients answer ---

    def client_of(self, group: str, client_id: str) -> Connection:
        """The connection of a member, or a refusal; questions are passed on to it."""
        live = self._members.consumer_group(group)
        for member in live.members.values() if live else ():
            if member.client_id == client_id:
                return member.connection
        text = f"client {client_id} of group {group} is not connected to this broker"
        raise RefusedError(ResponseCode.SYSTEM_ERROR, text)


PASSED_ON = frozenset((RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY))


def _info(member: Member[Connection]) -> ConnectionInfo:
    return ConnectionInfo(
        client_id=member.client_id,
        client_addr=member.connection.remote_text,
        language=member.language,
        version=member.version,
    )
