"""Pop plans: a request that was checked, with all that taking messages needs; made once, also for one that waits.

queues of a plan    retry topics of a store that Apache RocketMQ wrote, then the topic's, each time from another one
priority topics     the topic's from the last to the first: the queue is the priority; then retry topics. The group's
                    attribute ``priority.factor`` (0 to 100) is the share of pops that do so, 100 by default
"""

from __future__ import annotations

from collections.abc import Iterator
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
from pyromq.wire.codes import ResponseCode

INVISIBLE_MS_MAX: Final = 12 * 3_600_000
POLL_MS_MAX: Final = 600_000
_READ: Final = int(Perm.READ)
_FACTOR: Final = "priority.factor"
_WHOLE: Final = 100
_STRIDE: Final = 61  # no common divisor with 100: any 100 walks in a row meet every remainder once
_ALL: Final = PullFilter()


class Source(NamedTuple):
    """A queue that a pop looks at."""

    topic: str
    queue_id: int
    kind: int


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
    attempts_max: int


class Plans:
    """Checks requests; knows which queues they look at."""

    def __init__(self, environment: Environment, tables: Tables) -> None:
        self._settings = environment.settings
        self._topics = tables.topics
        self._groups = tables.groups
        self._turn = 0  # where the next walk begins

    def plan(self, request: PopRequest) -> PopPlan:
        """Check a pop and decide which queues it looks at. Raises RefusedError."""
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
        bucket = Bucket(
            request.topic,
            request.group,
            request.queue_id,
            request.expression,
            request.expression_type,
            request.order,
        )
        return PopPlan(request, bucket, self._wanted(request), max(0, group.retry_max_times) + 1)

    def _wanted(self, request: PopRequest) -> PullFilter:
        if request.expression in (None, "", "*") and request.expression_type in (None, "", "TAG"):
            return _ALL
        subscription = from_expression(request.topic, request.expression, request.expression_type, 0)
        if is_by_tags(subscription):
            return PullFilter(tag_filter(subscription))
        sql = compiled(subscription)
        refuse_sql_unless(self._settings.property_filter)
        return PullFilter(accept_record=record_filter(sql))

    def sources(self, request: PopRequest) -> Iterator[Source]:
        """The queues to look at, in order; none when the topic is gone."""
        topic = self._topics.get(request.topic)
        if topic is None:
            return
        self._turn += 1
        by_priority = not request.order and is_by_priority(topic) and self._has_turn(request.group)
        if not request.order and not by_priority:
            yield from self._retries(request)
        if request.queue_id != ANY_QUEUE:
            yield Source(request.topic, request.queue_id, TopicKind.NORMAL)
        else:
            count, turn = topic.read_queue_nums, self._turn
            numbers = reversed(range(count)) if by_priority else ((turn + step) % count for step in range(count))
            for number in numbers:
                yield Source(request.topic, number, TopicKind.NORMAL)
        if by_priority:
            yield from self._retries(request)

    def _has_turn(self, group: str) -> bool:
        """Whether this walk is among the share that the group wants by priority."""
        config = self._groups.find(group)
        text = config.attributes.get(_FACTOR, "") if config is not None else ""
        factor = int(text) if text.isdecimal() else _WHOLE
        return factor >= _WHOLE or self._turn * _STRIDE % _WHOLE < factor

    def _retries(self, request: PopRequest) -> Iterator[Source]:
        names = (
            (TopicKind.RETRY, pop_retry_topic(request.group, request.topic)),
            (TopicKind.RETRY_V2, pop_retry_topic_v2(request.group, request.topic)),
        )
        for kind, name in names:
            topic = self._topics.get(name)
            if topic is not None:
                yield from (Source(name, number, kind) for number in range(topic.read_queue_nums))


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
