"""Pop plans: a request that was checked, with all that taking messages needs; made once, also for one that waits.

queues of a plan    retry topics of a store that Apache RocketMQ wrote, then the topic's, each time from another one
priority topics     the topic's from the last to the first: the queue is the priority; then retry topics. The group's
                    attribute ``priority.factor`` (0 to 100) is the share of pops that do so, 100 by default
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.refusals import RefusedError, queue_out_of_range
from pyromq.broker.base.system_names import refuse_change
from pyromq.broker.popping.calls import ANY_QUEUE, COUNT_MAX, PopRequest
from pyromq.broker.popping.receipts import TopicKind
from pyromq.broker.state.subscriptions import (
    PullFilter,
    compiled,
    from_expression,
    is_by_tags,
    record_filter,
    refuse_sql_unless,
    tag_filter,
)
from pyromq.broker.state.tables import Tables
from pyromq.model.names import RETRY_PREFIX, pop_retry_topic, pop_retry_topic_v2
from pyromq.model.system_names import MESSAGE_TYPE
from pyromq.model.topic import Perm, TopicConfig
from pyromq.store.in_flight.queue import QueueName
from pyromq.wire.codes import ResponseCode

INVISIBLE_MS_MAX: Final = 12 * 3_600_000
POLL_MS_MAX: Final = 600_000
_READ: Final = int(Perm.READ)
_FACTOR: Final = "priority.factor"
_WHOLE: Final = 100
_STRIDE: Final = 61  # no common divisor with 100: any 100 walks in a row meet every remainder once
_ALL: Final = PullFilter()
_KEPT_MAX: Final = 100_000  # queues of all kinds of pops that are kept, some 25 MB


class Source(NamedTuple):
    """A queue that a pop looks at; its group is in ``name``."""

    topic: str
    queue_id: int
    kind: int
    name: QueueName


class Bucket(NamedTuple):
    """Pops that would find the same: where one of them finds nothing, none does."""

    topic: str
    group: str
    queue_id: int
    expression: str | None
    expression_type: str | None
    order: bool


class PopPlan(msgspec.Struct, frozen=True):
    request: PopRequest
    bucket: Bucket
    wanted: PullFilter


class _Places(NamedTuple):
    """Queues that pops of a bucket look at."""

    own: tuple[Source, ...]
    retries: tuple[Source, ...]
    by_priority: bool


class Plans:
    """Checks requests; knows which queues they look at. What follows from topics and groups is kept while they stay."""

    def __init__(self, environment: Environment, tables: Tables) -> None:
        self._settings = environment.settings
        self._topics = tables.topics
        self._groups = tables.groups
        self._turn = 0  # where the next walk begins
        self._seen: tuple[object, object] = (None, None)  # versions of topics and groups that the next two follow from
        self._admitted: dict[Bucket, PullFilter] = {}
        self._places: dict[Bucket, _Places] = {}
        self._kept = 0  # in both

    def _forget_what_changed(self) -> None:
        topics, groups = self._topics.table.version, self._groups.table.version
        if self._seen[0] is not topics or self._seen[1] is not groups or self._kept > _KEPT_MAX:
            self._seen, self._kept = (topics, groups), 0
            self._admitted.clear()
            self._places.clear()

    def plan(self, request: PopRequest) -> PopPlan:
        """Check a pop and decide what it wants. Raises RefusedError."""
        self._forget_what_changed()
        bucket = Bucket(
            request.topic,
            request.group,
            request.queue_id,
            request.expression,
            request.expression_type,
            request.order,
        )
        known = self._admitted.get(bucket)
        if known is None or not self._settings.permission & _READ:
            return PopPlan(request, bucket, self._admit(request, bucket))
        _check_numbers(request)
        return PopPlan(request, bucket, known)

    def _admit(self, request: PopRequest, bucket: Bucket) -> PullFilter:
        """What a pop wants. Raises RefusedError for one that may not be."""
        if not self._settings.permission & _READ:
            raise _refused(ResponseCode.NO_PERMISSION, f"broker {self._settings.name} does not allow reads at present")
        _check_numbers(request)
        refuse_change(topic=request.topic, group=request.group)
        topic = self._topics.require(request.topic)
        if not topic.perm & _READ:
            raise _refused(ResponseCode.NO_PERMISSION, f"topic {request.topic} is not readable")
        if request.topic.startswith(RETRY_PREFIX):
            text = f"{request.topic} is not popped by itself: pop the topic, its retries come along"
            raise _refused(ResponseCode.NO_PERMISSION, text)
        if request.queue_id != ANY_QUEUE and not 0 <= request.queue_id < topic.read_queue_nums:
            raise queue_out_of_range(request.queue_id, request.topic, topic.read_queue_nums)
        group = self._groups.require(request.group)
        if not group.consume_enable:
            raise _refused(ResponseCode.NO_PERMISSION, f"group {request.group} is not allowed to consume")
        if not self._groups.may_read(request.group, request.topic):
            text = f"group {request.group} is not allowed to read topic {request.topic}"
            raise _refused(ResponseCode.NO_PERMISSION, text)
        wanted = self._wanted(request)
        if wanted.accept_record is None:  # expressions are allowed by a setting
            self._admitted[bucket] = wanted
            self._kept += 1
        return wanted

    def _wanted(self, request: PopRequest) -> PullFilter:
        if request.expression in (None, "", "*") and request.expression_type in (None, "", "TAG"):
            return _ALL
        subscription = from_expression(request.topic, request.expression, request.expression_type, 0)
        if is_by_tags(subscription):
            return PullFilter(tag_filter(subscription))
        sql = compiled(subscription)
        refuse_sql_unless(self._settings.property_filter)
        return PullFilter(accept_record=record_filter(sql))

    def sources(self, plan: PopPlan) -> Sequence[Source]:
        """The queues to look at, in order; none when the topic is gone."""
        self._forget_what_changed()
        places = self._places.get(plan.bucket)
        if places is None:
            places = self._places[plan.bucket] = self._find_places(plan.request)
            self._kept += 1 + len(places.own) + len(places.retries)
        own, retries, by_priority = places
        self._turn += 1
        if by_priority and self._has_turn(plan.request.group):
            return own[::-1] + retries
        at = self._turn % len(own) if len(own) > 1 else 0
        turned = own[at:] + own[:at] if at else own
        return retries + turned if retries else turned

    def _find_places(self, request: PopRequest) -> _Places:
        topic = self._topics.get(request.topic)
        if topic is None:
            return _Places((), (), False)
        numbers = range(topic.read_queue_nums) if request.queue_id == ANY_QUEUE else (request.queue_id,)
        own = _sources(request.group, request.topic, TopicKind.NORMAL, numbers)
        if request.order:
            return _Places(own, (), False)
        return _Places(own, self._retries(request), is_by_priority(topic))

    def _has_turn(self, group: str) -> bool:
        """Whether this walk is among the share that the group wants by priority."""
        config = self._groups.find(group)
        text = config.attributes.get(_FACTOR, "") if config is not None else ""
        factor = int(text) if text.isdecimal() else _WHOLE
        return factor >= _WHOLE or self._turn * _STRIDE % _WHOLE < factor

    def _retries(self, request: PopRequest) -> tuple[Source, ...]:
        names = (
            (TopicKind.RETRY, pop_retry_topic(request.group, request.topic)),
            (TopicKind.RETRY_V2, pop_retry_topic_v2(request.group, request.topic)),
        )
        found: tuple[Source, ...] = ()
        for kind, name in names:
            topic = self._topics.get(name)
            if topic is not None:
                found += _sources(request.group, name, kind, range(topic.read_queue_nums))
        return found


def _sources(group: str, topic: str, kind: TopicKind, numbers: Sequence[int]) -> tuple[Source, ...]:
    return tuple([Source(topic, number, kind, QueueName(group, topic, number)) for number in numbers])


def is_by_priority(topic: TopicConfig) -> bool:
    """Whether its queues are priorities."""
    return topic.attributes.get(MESSAGE_TYPE, "").upper() == "PRIORITY"


def _check_numbers(request: PopRequest) -> None:
    if not 1 <= request.count <= COUNT_MAX:
        raise _refused(ResponseCode.INVALID_PARAMETER, f"a pop asks for 1 to {COUNT_MAX} messages, not {request.count}")
    if not 1 <= request.invisible_ms <= INVISIBLE_MS_MAX:
        text = f"an invisible time of {request.invisible_ms} ms is not between 1 ms and {INVISIBLE_MS_MAX} ms (12 h)"
        raise _refused(ResponseCode.INVALID_PARAMETER, text)


def _refused(code: ResponseCode, text: str) -> RefusedError:
    return RefusedError(code, text)
