"""The table of rights: what each request needs, for every code that a broker or a name server answers.

A row lists clauses, all of which must be met; within a clause any of its actions will do. A server whose code has no
row here does not start. RocketMQ's rules where it has some; it answers some fifty codes without one.

    open         the request may name nothing (a producer that says goodbye): a verified sender is enough
    by_object    what is returned or changed is found by an id: the handler asks again about the topic it belongs to
    key          fields of hot requests that their needs follow from, so that a decision can be remembered
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pyromq.model.names import DEFAULT_TOPIC
from pyromq.security import needs
from pyromq.security.errors import MissingRightsError
from pyromq.security.needs import Clause, Names, everything, field, listed, needs_of
from pyromq.security.resources import Action, Need, ResourceType
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.received import Received

_PUB, _SUB, _GET, _LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST
_CREATE, _UPDATE, _DELETE = Action.CREATE, Action.UPDATE, Action.DELETE


class Right(NamedTuple):
    """Row of the table of rights: what one request code needs."""

    clauses: tuple[Clause, ...]
    is_open: bool = False
    by_object: bool = False
    key: Callable[[Any], str | tuple[str, ...]] | None = None

    def needs(self, request: Received[Any], own_cluster: str) -> Iterator[Need]:
        """Yield what a request needs. Raises MQError when the request cannot be read."""
        for clause in self.clauses:
            yield from needs_of(clause, request, own_cluster)


Rights = dict[int, Right]


def check_rights(rights: Rights, codes: Iterable[int], server: str) -> None:
    """Check that every code that is answered has a row. Raises MissingRightsError."""
    missing = sorted(int(code) for code in codes if code not in rights)
    if missing:
        text = f"the {server} answers requests that the table of rights has no row for: {', '.join(map(str, missing))}"
        raise MissingRightsError(f"{text}; add them to pyromq/security/rights.py")


def _topic(names: Names | str, *actions: Action) -> Clause:
    return Clause(ResourceType.TOPIC, actions, field(names) if isinstance(names, str) else names)


def _group(names: Names | str, *actions: Action) -> Clause:
    return Clause(ResourceType.GROUP, actions, field(names) if isinstance(names, str) else names)


def _cluster(*actions: Action, names: Names | None = None) -> Clause:
    return Clause(ResourceType.CLUSTER, actions, names)


def _row(*clauses: Clause) -> Right:
    return Right(clauses)


def _route_topic(request: Received[Any]) -> Iterable[str]:
    """The template of automatically created topics is no secret: who may send to a topic may need it to begin."""
    return () if request.header.topic == DEFAULT_TOPIC else (request.header.topic,)


_SEND: Final = Right((_topic("topic", _PUB),), key=attrgetter("topic"))
_REPLY: Final = _row(_topic("topic", _PUB))
_PULL: Final = Right((_topic("topic", _SUB), _group("consumer_group", _SUB)), key=attrgetter("topic", "consumer_group"))
_LOCK: Final = _row(_topic(needs.locked_topics, _SUB), _group(needs.locking_group, _SUB))
_OFFSETS: Final = _row(_topic("topic", _GET, _SUB))
_LOOK_AT_CLUSTER: Final = _row(_cluster(_GET))
_CHANGE_CLUSTER: Final = _row(_cluster(_UPDATE))
_LOOK_AT_ALL: Final = _row(_cluster(_GET, names=everything))
_CHANGE_ALL: Final = _row(_cluster(_UPDATE, names=everything))
_ALL_TOPICS: Final = _row(_topic(everything, _LIST, _GET))
_ALL_GROUPS: Final = _row(_group(everything, _LIST, _GET))

_USERS: Final[Rights] = {
    Code.AUTH_CREATE_USER: _CHANGE_CLUSTER,
    Code.AUTH_UPDATE_USER: _CHANGE_CLUSTER,
    Code.AUTH_DELETE_USER: _CHANGE_CLUSTER,
    Code.AUTH_GET_USER: _LOOK_AT_CLUSTER,
    Code.AUTH_LIST_USER: _LOOK_AT_CLUSTER,
    Code.AUTH_CREATE_ACL: _CHANGE_CLUSTER,
    Code.AUTH_UPDATE_ACL: _CHANGE_CLUSTER,
    Code.AUTH_DELETE_ACL: _CHANGE_CLUSTER,
    Code.AUTH_GET_ACL: _LOOK_AT_CLUSTER,
    Code.AUTH_LIST_ACL: _LOOK_AT_CLUSTER,
}

BROKER_RIGHTS: Final[Rights] = {
    # producers
    Code.SEND_MESSAGE: _SEND,
    Code.SEND_MESSAGE_V2: _SEND,
    Code.SEND_BATCH_MESSAGE: _SEND,
    Code.SEND_REPLY_MESSAGE: _REPLY,
    Code.SEND_REPLY_MESSAGE_V2: _REPLY,
    Code.END_TRANSACTION: Right((_topic("topic", _PUB),), is_open=True, by_object=True),
    Code.RECALL_MESSAGE: _row(_topic("topic", _PUB)),
    # consumers
    Code.PULL_MESSAGE: _PULL,
    Code.LITE_PULL_MESSAGE: _PULL,
    Code.POP_MESSAGE: _PULL,
    Code.ACK_MESSAGE: _PULL,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _PULL,
    Code.NOTIFICATION: _PULL,
    Code.FORWARD_TO_DEAD_LETTERS: _PULL,
    Code.BATCH_ACK_MESSAGE: _row(_topic(needs.acked_topics, _SUB), _group(needs.acking_groups, _SUB)),
    Code.POLLING_INFO: _row(_topic("topic", _SUB, _GET), _group("consumer_group", _SUB, _GET)),
    Code.CONSUMER_SEND_MSG_BACK: Right((_group("group", _SUB),), by_object=True),
    Code.HEART_BEAT: Right((_group(needs.consumed_groups, _SUB), _topic(needs.consumed_topics, _SUB)), is_open=True),
    Code.UNREGISTER_CLIENT: Right((_group("consumer_group", _SUB),), is_open=True),
    Code.CHECK_CLIENT_CONFIG: Right(
        (_topic(needs.checked_topic, _SUB), _group(needs.checked_group, _SUB)), is_open=True
    ),
    Code.GET_CONSUMER_LIST_BY_GROUP: _row(_group("consumer_group", _SUB, _GET)),
    Code.LOCK_BATCH_MQ: _LOCK,
    Code.UNLOCK_BATCH_MQ: _LOCK,
    Code.QUERY_ASSIGNMENT: _row(_topic(needs.assigned_topic, _SUB), _group(needs.assigned_group, _SUB)),
    Code.QUERY_CONSUMER_OFFSET: _row(_topic("topic", _SUB, _GET), _group("consumer_group", _SUB, _GET)),
    Code.UPDATE_CONSUMER_OFFSET: _row(_topic("topic", _SUB, _UPDATE), _group("consumer_group", _SUB, _UPDATE)),
    Code.UPDATE_CONSUMER_OFFSETS: _row(
        _topic(needs.committed_topics, _SUB, _UPDATE), _group(needs.committing_group, _SUB, _UPDATE)
    ),
    Code.QUERY_QUEUE_RANGES: _row(_topic(needs.ranged_topics, _GET, _SUB), _group(needs.ranged_group, _SUB, _GET)),
    Code.AWAIT_QUEUE_RANGES: Right((), is_open=True),  # of what 31050 admitted on the same connection, by these rules
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _OFFSETS,
    Code.GET_MAX_OFFSET: _OFFSETS,
    Code.GET_MIN_OFFSET: _OFFSETS,
    Code.GET_EARLIEST_MSG_STORETIME: _OFFSETS,
    # messages
    Code.QUERY_MESSAGE: _row(_topic("topic", _SUB, _GET)),
    Code.VIEW_MESSAGE_BY_ID: Right((_topic("topic", _GET, _SUB),), is_open=True, by_object=True),
    Code.QUERY_CONSUME_QUEUE: _row(_topic("topic", _GET), _group("consumer_group", _GET)),
    Code.CONSUME_MESSAGE_DIRECTLY: Right((_group("consumer_group", _SUB), _topic("topic", _SUB)), by_object=True),
    Code.RESUME_CHECK_HALF_MESSAGE: Right((_topic("topic", _UPDATE),), is_open=True, by_object=True),
    # topics
    Code.UPDATE_AND_CREATE_TOPIC: _row(_topic("topic", _CREATE)),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _row(_topic(needs.topics_to_create, _CREATE)),
    Code.DELETE_TOPIC_IN_BROKER: _row(_topic("topic", _DELETE)),
    Code.GET_TOPIC_CONFIG: _row(_topic("topic", _GET)),
    Code.GET_TOPIC_STATS_INFO: _row(_topic("topic", _GET)),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _row(_topic("topic", _GET)),
    Code.GET_ALL_TOPIC_CONFIG: _ALL_TOPICS,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _ALL_TOPICS,
    # groups
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _row(_group(needs.group_to_create, _CREATE, _UPDATE)),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _row(_group(needs.groups_to_create, _CREATE, _UPDATE)),
    Code.DELETE_SUBSCRIPTIONGROUP: _row(_group("group_name", _DELETE)),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _row(_group("group", _GET)),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _ALL_GROUPS,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: _row(_group("group", _UPDATE), _topic("topic", _UPDATE)),
    Code.GET_CONSUMER_CONNECTION_LIST: _row(_group("consumer_group", _GET)),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _row(_group("group", _GET), _topic("topic", _GET)),
    Code.QUERY_TOPICS_BY_CONSUMER: _row(_group("group", _GET)),
    Code.GET_CONSUME_STATS: _row(
        _group("consumer_group", _GET), _topic("topic", _GET), _topic(listed("topic_list", ";"), _GET)
    ),
    Code.QUERY_CONSUME_TIME_SPAN: _row(_topic("topic", _GET), _group("group", _GET)),
    Code.QUERY_CORRECTION_OFFSET: _row(
        _topic("topic", _GET), _group("compare_group", _GET), _group(listed("filter_groups", ","), _GET)
    ),
    Code.CLONE_GROUP_OFFSET: _row(_group("src_group", _GET), _group("dest_group", _UPDATE), _topic("topic", _UPDATE)),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _row(_group("group", _UPDATE), _topic("topic", _UPDATE)),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _row(_topic("topic", _GET), _group("group", _GET)),
    Code.GET_CONSUMER_RUNNING_INFO: _row(_group("consumer_group", _GET)),
    Code.SET_MESSAGE_REQUEST_MODE: _row(_topic(needs.mode_topic, _UPDATE), _group(needs.mode_group, _UPDATE)),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: _LOOK_AT_CLUSTER,
    # the broker itself
    Code.GET_PRODUCER_CONNECTION_LIST: _LOOK_AT_CLUSTER,
    Code.GET_ALL_PRODUCER_INFO: _LOOK_AT_CLUSTER,
    Code.GET_BROKER_CONSUME_STATS: _LOOK_AT_CLUSTER,
    Code.UPDATE_BROKER_CONFIG: _CHANGE_CLUSTER,
    Code.GET_BROKER_CONFIG: _LOOK_AT_CLUSTER,
    Code.GET_BROKER_RUNTIME_INFO: _LOOK_AT_CLUSTER,
    Code.GET_ALL_CONSUMER_OFFSET: _LOOK_AT_CLUSTER,
    Code.GET_ALL_DELAY_OFFSET: _LOOK_AT_CLUSTER,
    Code.GET_TIMER_CHECK_POINT: _LOOK_AT_CLUSTER,
    Code.GET_TIMER_METRICS: _LOOK_AT_CLUSTER,
    Code.VIEW_BROKER_STATS_DATA: _LOOK_AT_CLUSTER,
    Code.GET_BROKER_HA_STATUS: _LOOK_AT_CLUSTER,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _CHANGE_CLUSTER,
    Code.CLEAN_UNUSED_TOPIC: _CHANGE_CLUSTER,
    Code.DELETE_EXPIRED_COMMITLOG: _CHANGE_CLUSTER,
    Code.QUERY_AUDIT_LOG: _LOOK_AT_CLUSTER,
    Code.QUERY_STORE_FACTS: _LOOK_AT_CLUSTER,
    Code.QUERY_PREPARED_CHECKS: _LOOK_AT_CLUSTER,
    Code.QUERY_MEMBER: _LOOK_AT_CLUSTER,
    Code.QUERY_MEMBER_TABLES: _LOOK_AT_CLUSTER,  # as the requests for each of its tables
    Code.GRANT_MEMBER: _CHANGE_CLUSTER,
    Code.CONTROL_MEMBER: _CHANGE_CLUSTER,
    Code.REPORT_MEMBER: _CHANGE_CLUSTER,
    Code.GET_ACCESS_TABLES: _CHANGE_ALL,  # and more: see ``handover``
    Code.GET_REPLICA_CHALLENGE: _CHANGE_ALL,  # whoever meets it reads every message
    **_USERS,
}

_REGISTER: Final = _row(_cluster(_UPDATE, names=field("cluster_name")), _topic("broker_name", _UPDATE))
"""A broker's name is a topic too, in RocketMQ: who may update it may register the broker."""

NAMESERVER_RIGHTS: Final[Rights] = {
    # brokers
    Code.REGISTER_BROKER: _REGISTER,
    Code.UNREGISTER_BROKER: _REGISTER,
    Code.BROKER_HEARTBEAT: _REGISTER,
    Code.QUERY_DATA_VERSION: _row(_cluster(_GET, _UPDATE, names=field("cluster_name"))),
    Code.GET_BROKER_MEMBER_GROUP: _row(_cluster(_GET, _UPDATE, names=field("cluster_name"))),
    Code.REGISTER_TOPIC_IN_NAMESRV: _row(_cluster(_UPDATE, names=everything), _topic("topic", _CREATE)),
    # clients and tools
    Code.GET_ROUTEINFO_BY_TOPIC: Right((_topic(_route_topic, _PUB, _SUB, _GET),), is_open=True),
    Code.GET_BROKER_CLUSTER_INFO: _row(_cluster(_GET, _LIST, names=everything)),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _ALL_TOPICS,
    Code.GET_TOPICS_BY_CLUSTER: _ALL_TOPICS,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: _ALL_TOPICS,
    Code.GET_UNIT_TOPIC_LIST: _ALL_TOPICS,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: _ALL_TOPICS,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _ALL_TOPICS,
    # administration
    Code.PUT_KV_CONFIG: _CHANGE_ALL,
    Code.GET_KV_CONFIG: _LOOK_AT_ALL,
    Code.DELETE_KV_CONFIG: _CHANGE_ALL,
    Code.GET_KVLIST_BY_NAMESPACE: _LOOK_AT_ALL,
    Code.WIPE_WRITE_PERM_OF_BROKER: _CHANGE_ALL,
    Code.ADD_WRITE_PERM_OF_BROKER: _CHANGE_ALL,
    Code.DELETE_TOPIC_IN_NAMESRV: _row(_topic("topic", _DELETE)),
    Code.UPDATE_NAMESRV_CONFIG: _CHANGE_ALL,
    Code.GET_NAMESRV_CONFIG: _LOOK_AT_ALL,
    Code.QUERY_AUDIT_LOG: _LOOK_AT_ALL,
    **_USERS,
}
