"""Clients as members of groups: heartbeats, leaving, the members of a group, queue locks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.state.subscriptions import compiled, is_by_tags, refuse_sql_unless
from pyromq.broker.state.tables import Tables
from pyromq.model.names import retry_topic, validate_group, validate_topic
from pyromq.net.connection import Connection
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.consumer import HeartbeatResponseHeader, UnregisterClientHeader
from pyromq.wire.headers.shared import ConsumerGroupHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.heartbeat import CheckClient, ConsumerData, MessageModel, decode_heartbeat
from pyromq.wire.received import Received

_NAME_CHARACTERS_MAX: Final = 1_000


class ClientHandler:
    """Requests 34, 35, 38, 41, 42 and 46."""

    def __init__(self, tables: Tables, settings: BrokerSettings) -> None:
        self._members = tables.members
        self._topics = tables.topics
        self._groups = tables.groups
        self._locks = tables.locks
        self._filters = tables.filters
        self._settings = settings

    def heartbeat(self, connection: Connection, request: Received[None]) -> HeartbeatResponseHeader:
        """A client tells which groups it belongs to; groups and their retry topics appear with it."""
        heartbeat = decode_heartbeat(request.body)
        if not heartbeat.client_id:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "a heartbeat needs a clientID")
        served = [consumer for consumer in heartbeat.consumer_data_set if self._prepare(consumer)]
        heartbeat = msgspec.structs.replace(heartbeat, consumer_data_set=tuple(served))
        language = "OTHER" if request.language is None else request.language.name  # JAVA is 0
        is_known = self._members.knows(connection, heartbeat)
        changed = self._members.heard_from(connection, heartbeat, language, request.version)
        for consumer in served:
            live = self._members.consumer_group(consumer.group_name)
            self._filters.register(consumer.group_name, live.subscriptions.values() if live else ())
        self.notify(changed)
        return HeartbeatResponseHeader(is_support_heart_beat_v2=True, is_sub_change=not is_known)

    def _prepare(self, consumer: ConsumerData) -> bool:
        """See to the group and its retry topic; False when the group does not exist and may not be created."""
        config = self._groups.find(consumer.group_name)
        if config is not None and config.retry_queue_nums > 0:
            name = retry_topic(consumer.group_name)
            self._topics.create(name, queues=config.retry_queue_nums, unit=consumer.unit_mode)
        return config is not None

    def unregister(self, connection: Connection, request: Received[UnregisterClientHeader]) -> None:
        header = request.header
        changed = self._members.unregister(header.client_id, connection, header.producer_group, header.consumer_group)
        self.notify(changed)

    def disconnected(self, connection: Connection) -> None:
        self.notify(self._members.disconnected(connection))

    def notify(self, groups: Iterable[str]) -> None:
        """Tell the members of these groups to share out their queues anew."""
        for name in groups:
            group, config = self._members.consumer_group(name), self._groups.table.get(name)
            if group is None or group.model is MessageModel.BROADCASTING:
                continue
            if config is not None and not config.notify_consumer_ids_changed_enable:
                continue
            header = ConsumerGroupHeader(consumer_group=name)
            for connection in list(group.members):
                if connection.is_open:
                    connection.request_oneway(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)

    def members_of(self, connection: Connection, request: Received[ConsumerGroupHeader]) -> bytes:
        group = self._members.consumer_group(request.header.consumer_group)
        if group is None:
            text = f"no consumer of group {request.header.consumer_group} is connected to this broker"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
        return bodies.encode(bodies.GroupMemberIds(consumer_id_list=group.client_ids))

    def lock(self, connection: Connection, request: Received[None]) -> bytes:
        wanted = bodies.decode(request.body, bodies.LockRequest)
        _check_names(wanted)
        granted = self._locks.lock(wanted.consumer_group, wanted.client_id, wanted.mq_set)
        return bodies.encode(bodies.LockResponse(granted=tuple(granted)))

    def unlock(self, connection: Connection, request: Received[None]) -> None:
        wanted = bodies.decode(request.body, bodies.LockRequest)
        self._locks.unlock(wanted.consumer_group, wanted.client_id, wanted.mq_set)

    def check_client(self, connection: Connection, request: Received[None]) -> None:
        """May this subscription be served?"""
        if request.body:
            asked = java_json.decode(request.body, CheckClient)
            if not is_by_tags(asked.subscription_data):
                refuse_sql_unless(self._settings.property_filter)
                compiled(asked.subscription_data)


def _check_names(wanted: bodies.LockRequest) -> None:
    """They are kept as long as the locks: raises InvalidNameError, RefusedError."""
    validate_group(wanted.consumer_group)
    for queue in wanted.mq_set:
        validate_topic(queue.topic)
        if len(queue.broker) > _NAME_CHARACTERS_MAX:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, "the broker name of a queue to lock is too long")
    if (length := len(wanted.client_id)) > _NAME_CHARACTERS_MAX:
        text = f"the clientID has {length} characters; locks allow at most {_NAME_CHARACTERS_MAX}"
        raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
