"""Administration of consumer groups: their configuration and members; how far they are is in ``progress_requests``."""

from __future__ import annotations

from functools import partial

import msgspec

from pyromq.broker.base.long_responses import Steps, elsewhere, encoded, nothing, pieces
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.system_names import refuse_change
from pyromq.broker.state.members import ConnectedMember
from pyromq.broker.state.tables import Tables
from pyromq.model.limits import problem_of_group
from pyromq.model.names import retry_topic, validate_group, validate_topic
from pyromq.model.system_names import PRESET_GROUPS
from pyromq.model.topic import GroupConfig
from pyromq.net.connection import Connection
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.admin import (
    DeleteGroupHeader,
    GetAllGroupConfigResponseHeader,
    GroupForbiddenHeader,
    GroupHeader,
    ProducerGroupHeader,
    QuerySubscriptionHeader,
)
from pyromq.wire.headers.shared import ConsumerGroupHeader
from pyromq.wire.json import java_json
from pyromq.wire.json.heartbeat import ClientConnection, ConsumerConnections, ProducerConnections, Subscription
from pyromq.wire.json.route import TopicList, encode_topics
from pyromq.wire.received import Received


class _GroupConfigs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    group_config_list: list[GroupConfig] = []


class _Forbidden(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    topic: str
    readable: bool


class _SubscriptionResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    group: str
    topic: str | None = None
    subscription_data: Subscription | None = None


class GroupHandler:
    """Requests 200, 201, 203, 204, 207, 225, 328, 343, 345, 352 and 353."""

    def __init__(self, tables: Tables, address: str) -> None:
        self._topics = tables.topics
        self._groups = tables.groups
        self._progress = tables.progress
        self._members = tables.members
        self._address = address

    # --- configuration ---

    def update(self, connection: Connection, request: Received[None]) -> Steps:
        return self._update(java_json.decode(request.body, GroupConfig))

    def update_all(self, connection: Connection, request: Received[None]) -> Steps:
        """All of them, or none when one is refused."""
        return self._update(*java_json.decode(request.body, _GroupConfigs).group_config_list)

    def _update(self, *configs: GroupConfig) -> Steps:
        for config in configs:
            validate_group(config.group_name)
            refuse_change(group=config.group_name)
            if problem := problem_of_group(config):
                raise RefusedError(ResponseCode.INVALID_PARAMETER, problem)
        yield from self._groups.update_in_steps(configs)
        for config in configs:
            if config.retry_queue_nums > 0:
                self._topics.create(retry_topic(config.group_name), queues=config.retry_queue_nums)
        return nothing

    def get(self, connection: Connection, request: Received[GroupHeader]) -> bytes:
        config = self._groups.table.get(request.header.group)
        if config is None:
            text = f"subscription group {request.header.group} does not exist"
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        return java_json.dumps(config)

    def get_all(self, connection: Connection, request: Received[None]) -> Steps:
        table = self._groups.table
        header = GetAllGroupConfigResponseHeader(total_group_num=len(table))
        body = yield from encoded(table.snapshot(), "subscription_group_table", pretty=True)
        return lambda: (header, body())

    def delete(self, connection: Connection, request: Received[DeleteGroupHeader]) -> None:
        group = request.header.group_name
        if group in PRESET_GROUPS:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"{group} is a system group and cannot be deleted")
        refuse_change(group=group)
        self._groups.delete(group)
        if request.header.clean_offset:
            self._progress.forget_group(group)

    def forbidden(self, connection: Connection, request: Received[GroupForbiddenHeader]) -> bytes:
        header = request.header
        if header.readable is not None:
            refuse_change(topic=header.topic, group=header.group)
            validate_topic(header.topic)
            self._groups.require(header.group)
            self._groups.allow_read(header.group, header.topic, header.readable)
        readable = self._groups.may_read(header.group, header.topic)
        return java_json.dumps(_Forbidden(group=header.group, topic=header.topic, readable=readable))

    # --- members ---

    def consumers(self, connection: Connection, request: Received[ConsumerGroupHeader]) -> Steps:
        group = self._members.consumer_group(request.header.consumer_group)
        if group is None:
            text = f"no consumer of group {request.header.consumer_group} is connected to this broker"
            raise RefusedError(ResponseCode.CONSUMER_NOT_ONLINE, text)
        body = ConsumerConnections(
            connection_set=tuple(map(_info, group.members.values())),
            subscription_table=dict(group.subscriptions),
            consume_type=group.consume_type,
            message_model=group.model,
            consume_from_where=group.from_where,
            disagreeing_client_ids=tuple(group.disagreeing) or None,
        )
        yield from elsewhere(len(body.connection_set) + len(body.subscription_table))
        return partial(java_json.dumps, body)

    def producers(self, connection: Connection, request: Received[ProducerGroupHeader]) -> Steps:
        found = self._members.producers(request.header.producer_group)
        if not found:
            text = f"no producer of group {request.header.producer_group} is connected to this broker"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
        body = ProducerConnections(connection_set=tuple(map(_info, found)))
        yield from elsewhere(len(found))
        return partial(java_json.dumps, body)

    def all_producers(self, connection: Connection, request: Received[None]) -> Steps:
        data: dict[str, list[dict[str, object]]] = {}
        every = [(group, member) for group, found in self._members.producer_groups().items() for member in found]
        for piece in pieces(every):
            for group, member in piece:
                data.setdefault(group, []).append(self._producer_info(member))
            yield None
        return partial(java_json.dumps, {"data": data})

    def _producer_info(self, member: ConnectedMember[Connection]) -> dict[str, object]:
        return {
            "clientId": member.client_id,
            "remoteIP": f"/{member.connection.remote_text}",  # as Java writes the address of a socket
            "language": member.language,
            "version": member.version,
            "lastUpdateTimestamp": self._members.seen_at_ms(member),
        }

    def subscription(self, connection: Connection, request: Received[QuerySubscriptionHeader]) -> bytes:
        header = request.header
        found = self._members.subscription(header.group, header.topic) if header.topic else None
        return java_json.dumps(_SubscriptionResponse(group=header.group, topic=header.topic, subscription_data=found))

    def topics_of(self, connection: Connection, request: Received[GroupHeader]) -> bytes:
        names = self._progress.topics_of(request.header.group)
        return encode_topics(TopicList(topic_list=names, broker_addr=self._address))


def _info(member: ConnectedMember[Connection]) -> ClientConnection:
    return ClientConnection(
        client_id=member.client_id,
        client_addr=member.connection.remote_text,
        language=member.language,
        version=member.version,
    )
