"""What a request asks for: names found in its header or body, turned into needs.

    orders             Topic:orders
    %RETRY%billing     Group:billing       the retry topic of a group is its own; who may consume may write to it
    %DLQ%billing       Topic:%DLQ%billing  as in RocketMQ
    SCHEDULE_TOPIC_…   Topic:… and the right to look at the cluster: what the broker runs on itself holds messages of
                       every topic

A clause says where names stand and what must be allowed on each. A list names all of its resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from pyromq.model.names import RETRY_PREFIX
from pyromq.model.system_names import DISCARD_TOPIC, is_run_by_broker
from pyromq.security.errors import AccessDeniedError
from pyromq.security.resources import ALL_NAMES, Action, Need, ResourceType, cluster, group, topic
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.batch_ack import decode_batch_ack
from pyromq.wire.json.heartbeat import CheckClient, decode_heartbeat
from pyromq.wire.json.queue_ranges import decode_commits, decode_ranges_request
from pyromq.wire.received import Received

BODY_BYTES_MAX: Final = 1 << 20
"""Of a body that names resources, as handlers have it: reading more would keep all others waiting."""


Names = Callable[[Received[Any]], Iterable[str]]
"""The names of one kind that a request gives."""


class Clause(NamedTuple):
    """``names`` None: the cluster that the server belongs to, or all clusters."""

    type: ResourceType
    actions: tuple[Action, ...]
    names: Names | None = None


def needs_of(clause: Clause, request: Received[Any], own_cluster: str) -> Iterator[Need]:
    """Yield the rights that a clause of the table asks of a request. Raises MQError when the request cannot be read."""
    if clause.names is None:
        yield Need(cluster(own_cluster), clause.actions)
        return
    for name in clause.names(request):
        match clause.type:
            case ResourceType.TOPIC:
                yield from topic_needs(name, clause.actions, own_cluster)
            case ResourceType.GROUP:
                yield Need(group(name), clause.actions)
            case ResourceType.CLUSTER:
                yield Need(cluster(name), clause.actions)


def topic_needs(name: str, actions: tuple[Action, ...], own_cluster: str) -> Iterator[Need]:
    """What must be allowed for these actions on a topic, whatever kind of topic its name says it is."""
    if name.startswith(RETRY_PREFIX):
        wanted = dict.fromkeys(Action.SUB if each is Action.PUB else each for each in actions)
        yield Need(group(name), tuple(wanted))
        return
    yield Need(topic(name), actions)
    if is_run_by_broker(name) or name == DISCARD_TOPIC:
        yield Need(cluster(own_cluster), (Action.GET,))


# --- where names stand ---------------------------------------------------------------------------------------------


def field(*names: str) -> Names:
    """Fields of the header; those without a value name nothing."""

    def read(request: Received[Any]) -> Iterable[str]:
        return [value for name in names if (value := getattr(request.header, name)) is not None]

    return read


def listed(name: str, separator: str) -> Names:
    """A field that holds several names."""

    def read(request: Received[Any]) -> Iterable[str]:
        text: str = getattr(request.header, name) or ""
        return [part for part in text.split(separator) if part]

    return read


def everything(_: Received[Any]) -> Iterable[str]:
    return (ALL_NAMES,)


class _TopicName(msgspec.Struct, frozen=True, rename="camel"):
    topic_name: str


class _TopicNames(msgspec.Struct, frozen=True, rename="camel"):
    topic_config_list: tuple[_TopicName, ...] = ()


class _GroupName(msgspec.Struct, frozen=True, rename="camel"):
    group_name: str


class _GroupNames(msgspec.Struct, frozen=True, rename="camel"):
    group_config_list: tuple[_GroupName, ...] = ()


def topics_to_create(request: Received[Any]) -> Iterable[str]:
    return [each.topic_name for each in java_json.decode(_body(request), _TopicNames).topic_config_list]


def group_to_create(request: Received[Any]) -> Iterable[str]:
    return (java_json.decode(_body(request), _GroupName).group_name,)


def groups_to_create(request: Received[Any]) -> Iterable[str]:
    return [each.group_name for each in java_json.decode(_body(request), _GroupNames).group_config_list]


def consumed_groups(request: Received[Any]) -> Iterable[str]:
    return [each.group_name for each in decode_heartbeat(_body(request)).consumer_data_set]


def consumed_topics(request: Received[Any]) -> Iterable[str]:
    """Topics that a heartbeat subscribes to; the retry topic of a group follows from the group."""
    found = decode_heartbeat(_body(request)).consumer_data_set
    return dict.fromkeys(each.topic for consumer in found for each in consumer.subscription_data_set)


def locked_topics(request: Received[Any]) -> Iterable[str]:
    return dict.fromkeys(each.topic for each in bodies.decode(_body(request), bodies.LockRequest).mq_set)


def ranged_topics(request: Received[Any]) -> Iterable[str]:
    return dict.fromkeys(decode_ranges_request(_body(request)).topics)


def ranged_group(request: Received[Any]) -> Iterable[str]:
    """None when no group is asked about."""
    named = decode_ranges_request(_body(request)).group
    return (named,) if named else ()


def committed_topics(request: Received[Any]) -> Iterable[str]:
    return list(decode_commits(_body(request)).topics)


def committing_group(request: Received[Any]) -> Iterable[str]:
    return (decode_commits(_body(request)).group,)


def locking_group(request: Received[Any]) -> Iterable[str]:
    return (bodies.decode(_body(request), bodies.LockRequest).consumer_group,)


def checked_topic(request: Received[Any]) -> Iterable[str]:
    return (java_json.decode(request.body, CheckClient).subscription_data.topic,) if _body(request) else ()


def checked_group(request: Received[Any]) -> Iterable[str]:
    return (java_json.decode(request.body, CheckClient).group,) if _body(request) else ()


def assigned_topic(request: Received[Any]) -> Iterable[str]:
    return (bodies.decode(_body(request), bodies.AssignmentRequest).topic,)


def assigned_group(request: Received[Any]) -> Iterable[str]:
    return (bodies.decode(_body(request), bodies.AssignmentRequest).consumer_group,)


def acked_topics(request: Received[Any]) -> Iterable[str]:
    return {ack.topic for ack in decode_batch_ack(_body(request))}


def acking_groups(request: Received[Any]) -> Iterable[str]:
    return {ack.group for ack in decode_batch_ack(_body(request))}


def mode_topic(request: Received[Any]) -> Iterable[str]:
    return (bodies.decode(_body(request), bodies.RequestMode).topic,)


def mode_group(request: Received[Any]) -> Iterable[str]:
    return (bodies.decode(_body(request), bodies.RequestMode).consumer_group,)


def _body(request: Received[Any]) -> bytes:
    if len(request.body) > BODY_BYTES_MAX:
        raise AccessDeniedError(f"the body of request {request.code} has {len(request.body)} bytes, at most 1 MiB")
    return request.body
