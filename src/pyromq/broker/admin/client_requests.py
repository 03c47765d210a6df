"""Clients as members of groups: heartbeats, leaving, the members of a group, queue locks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pyromq.broker.admin.member_notices import MemberNotices
from pyromq.broker.base.access import OPEN, Access
from pyromq.broker.base.refusals import RefusedError, refusal_of
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.system_names import refuse_change
from pyromq.broker.state.client_ids import PRODUCERS
from pyromq.broker.state.subscriptions import compiled, is_by_tags, refuse_sql_unless
from pyromq.broker.state.tables import Tables
from pyromq.clock import Clock
from pyromq.errors import MQError, quoted
from pyromq.model.limits import CLIENT_ID_CHARACTERS_MAX
from pyromq.model.names import DERIVED_TOPIC_CHARACTERS_MAX, retry_topic, validate_group, validate_topic
from pyromq.model.subscription_policy import SubscriptionPolicy, policy_of
from pyromq.model.topic import GroupConfig
from pyromq.net.connection import Connection
from pyromq.wire.codes import ResponseCode
from pyromq.wire.headers.consumer import HeartbeatResponseHeader, UnregisterClientHeader
from pyromq.wire.headers.shared import ConsumerGroupHeader
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.heartbeat import CheckClient, ConsumerData, Heartbeat, decode_heartbeat
from pyromq.wire.received import Received

LOCKED_QUEUES_MAX: Final = 8_192  # in one request
GROUPS_PER_CLIENT_MAX: Final = 1_000  # in one heartbeat, which is taken in at once


class ClientHandler:
    """Requests 34, 35, 38, 41, 42 and 46."""

    def __init__(self, tables: Tables, settings: BrokerSettings, clock: Clock, access: Access = OPEN) -> None:
        self._access = access
        self._members = tables.members
        self._topics = tables.topics
        self._groups = tables.groups
        self._locks = tables.locks
        self._filters = tables.filters
        self._settings = settings
        self.notices = MemberNotices(tables.members, tables.groups, clock)

    def heartbeat(self, connection: Connection, request: Received[None]) -> HeartbeatResponseHeader:
        """A client says which groups it belongs to; groups and their retry topics appear with it.

        One group that cannot be served does not take the others with it: they are, and the response reports it.
        """
        heartbeat = decode_heartbeat(request.body)
        self._check(heartbeat)
        groups = [consumer.group_name for consumer in heartbeat.consumer_data_set]
        producers = [PRODUCERS] if heartbeat.producer_data_set else []
        user = self._refuse_foreign(connection, request, heartbeat.client_id, groups + producers)
        refused: RefusedError | None = None
        served, changed = [], set[str]()
        for consumer in heartbeat.consumer_data_set:
            try:
                if config := self._prepare(consumer):
                    if not heartbeat.without_sub:
                        self._refuse_odd(connection, consumer, config)
                    served.append(consumer)
            except MQError as error:
                refused = refused or RefusedError(*refusal_of(error))
                changed |= self._members.leave(connection, consumer.group_name)
        heartbeat = msgspec.structs.replace(heartbeat, consumer_data_set=tuple(served))
        language = "OTHER" if request.language is None else request.language.name  # JAVA is 0
        is_known = self._members.knows(connection, heartbeat)
        changed |= self._members.heard_from(connection, heartbeat, language, request.version, user)
        for consumer in served:
            live = self._members.consumer_group(consumer.group_name)
            self._filters.register(consumer.group_name, live.subscriptions.values() if live else ())
        self.notices.tell(changed)
        if refused is not None:
            raise refused
        odd = self._members.odd_groups(connection, (consumer.group_name for consumer in served))
        return HeartbeatResponseHeader(
            is_support_heart_beat_v2=True,
            is_sub_change=not is_known,
            takes_stories=True,
            odd_subscriptions=msgspec.json.encode(odd).decode() if odd else None,
        )

    def _check(self, heartbeat: Heartbeat) -> None:
        """What is kept of it is bounded; raises RefusedError."""
        if not heartbeat.client_id:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "a heartbeat needs a clientID")
        _check_client_id(heartbeat.client_id)
        count = len(heartbeat.consumer_data_set) + len(heartbeat.producer_data_set)
        if count > GROUPS_PER_CLIENT_MAX:
            text = f"the heartbeat names {count} groups, at most {GROUPS_PER_CLIENT_MAX} are allowed"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"{text}: use several clients")
        for producer in heartbeat.producer_data_set:
            if len(producer.group_name) > DERIVED_TOPIC_CHARACTERS_MAX:
                raise RefusedError(ResponseCode.INVALID_PARAMETER, "the name of a producer group is too long")
        if self._members.producer_group_count + len(heartbeat.producer_data_set) > self._settings.groups_max:
            text = f"too many producer groups are connected: at most {self._settings.groups_max} (setting groups_max)"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)

    def _refuse_foreign(
        self, connection: Connection, request: Received[None], client_id: str, groups: Iterable[str]
    ) -> str | None:
        """The user that sent the request. Raises AccessDeniedError where another one has the client id."""
        user = self._access.user_of(connection, request)
        if user is not None and any(self._members.is_foreign(group, client_id, user) for group in groups):
            advice = "give this client another instance name, or wait until the other one is gone"
            text = f"client id {quoted(client_id)} belongs to a client of another user: {advice}"
            raise self._access.denied(connection, request, text)
        return user

    def _refuse_odd(self, connection: Connection, consumer: ConsumerData, config: GroupConfig) -> None:
        """Where the policy of the group says so: raises RefusedError for who subscribes to something else."""
        if policy_of(config.attributes, self._settings.subscription_policy) is SubscriptionPolicy.WARN:
            return
        if difference := self._members.odd_wish(connection, consumer):
            text = f"the client cannot join group {consumer.group_name}: {difference}"
            advice = "give all members the same subscription, or this one a group of its own"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"{text}; {advice}")

    def _prepare(self, consumer: ConsumerData) -> GroupConfig | None:
        """See to the group and its retry topic; None when the group does not exist and may not be created."""
        refuse_change(group=consumer.group_name)
        for subscription in consumer.subscription_data_set:
            if len(subscription.topic) > DERIVED_TOPIC_CHARACTERS_MAX:
                text = f"group {consumer.group_name} subscribes to a topic whose name is too long"
                raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
        config = self._groups.find(consumer.group_name)
        if config is not None and config.retry_queue_nums > 0:
            name = retry_topic(consumer.group_name)
            self._topics.create(name, queues=config.retry_queue_nums, unit=consumer.unit_mode)
        return config

    def unregister(self, connection: Connection, request: Received[UnregisterClientHeader]) -> None:
        header = request.header
        changed = self._members.unregister(header.client_id, connection, header.producer_group, header.consumer_group)
        self.notices.tell(changed)

    def disconnected(self, connection: Connection) -> None:
        self.notices.tell(self._members.disconnected(connection))

    def members_of(self, connection: Connection, request: Received[ConsumerGroupHeader]) -> bytes:
        group = self._members.consumer_group(request.header.consumer_group)
        if group is None:
            text = f"no consumer of group {request.header.consumer_group} is connected to this broker"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
        if group.client_ids_text is None:  # thousands of members ask for the same list
            group.client_ids_text = bodies.encode(bodies.GroupMemberIds(consumer_id_list=group.client_ids))
        return group.client_ids_text

    def lock(self, connection: Connection, request: Received[None]) -> bytes:
        wanted = bodies.decode(request.body, bodies.LockRequest)
        _check_names(wanted)
        self._refuse_foreign(connection, request, wanted.client_id, [wanted.consumer_group])
        granted = self._locks.lock(wanted.consumer_group, wanted.client_id, wanted.mq_set)
        return bodies.encode(bodies.LockResponse(granted=tuple(granted)))

    def unlock(self, connection: Connection, request: Received[None]) -> None:
        wanted = bodies.decode(request.body, bodies.LockRequest)
        _check_names(wanted)
        self._refuse_foreign(connection, request, wanted.client_id, [wanted.consumer_group])
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
    refuse_change(group=wanted.consumer_group)
    if len(wanted.mq_set) > LOCKED_QUEUES_MAX:
        text = f"{len(wanted.mq_set)} queues in one request, at most {LOCKED_QUEUES_MAX} are allowed: ask in parts"
        raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
    for topic in {queue.topic for queue in wanted.mq_set}:
        validate_topic(topic)
        refuse_change(topic=topic)
    if any(len(broker) > CLIENT_ID_CHARACTERS_MAX for broker in {queue.broker for queue in wanted.mq_set}):
        raise RefusedError(ResponseCode.INVALID_PARAMETER, "the broker name of a queue to lock is too long")
    _check_client_id(wanted.client_id)


def _check_client_id(client_id: str) -> None:
    if (length := len(client_id)) > CLIENT_ID_CHARACTERS_MAX:
        text = f"the clientID has {length} characters, at most {CLIENT_ID_CHARACTERS_MAX} are allowed"
        raise RefusedError(ResponseCode.INVALID_PARAMETER, text)
