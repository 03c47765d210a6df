"""Subscriptions as tests of messages: that of a pull's group, or the expression that the pull brings along.

Tags are tested on queue entries, by hash; the client compares their texts once more. SQL92 is tested on the properties
of stored records.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.state.filters import Filters
from pyromq.filters import InvalidFilterError, SqlFilter, compile_filter
from pyromq.model.property_names import RETRY_TOPIC
from pyromq.store.queue_scan import TagFilter, WeighedFilter
from pyromq.wire.codes import ResponseCode
from pyromq.wire.fast.record_parts import stored_properties
from pyromq.wire.java_hash import java_hash
from pyromq.wire.json.heartbeat import SQL_EXPRESSION, TAG_EXPRESSION, Subscription
from pyromq.wire.properties import find_property

EVERYTHING = "*"
_RETRY_TOPIC: Final = RETRY_TOPIC.encode()
EXPRESSION_CHARACTERS_MAX: Final = 65_536  # of a pull: all others wait while it is read
_CODES_OF_MAX: Final = 512  # characters of an expression whose tags are remembered
_TERMS_UNKNOWN: Final = 64  # of a filter that depends on the message


class PullFilter(NamedTuple):
    """Which messages pass: a test of queue entries, then one of records; None lets all pass."""

    accept_tag: TagFilter | None = None
    accept_record: WeighedFilter | None = None


def tag_codes(expression: str) -> frozenset[int]:
    """Hashes of the tags in ``TagA || TagB``; empty for everything."""
    return _remembered_codes(expression) if len(expression) <= _CODES_OF_MAX else _tag_codes(expression)


def _tag_codes(expression: str) -> frozenset[int]:
    if not expression or expression == EVERYTHING:
        return frozenset()
    return frozenset(java_hash(tag) for tag in map(str.strip, expression.split("||")) if tag)


_remembered_codes: Final = lru_cache(maxsize=4096)(_tag_codes)


def tag_filter(subscription: Subscription) -> TagFilter | None:
    """A test of queue entries; None when everything passes, or is tested otherwise."""
    if subscription.class_filter_mode or subscription.sub_string == EVERYTHING or not is_by_tags(subscription):
        return None
    codes = subscription.code_set or tag_codes(subscription.sub_string)
    return codes.__contains__ if codes else None


def record_filter(sql: SqlFilter) -> WeighedFilter:
    """A test of stored records by their properties."""
    matches = sql.matches

    def accept(record: memoryview) -> bool:
        try:
            return matches(stored_properties(record))
        except IndexError:  # damaged since it was verified: it is not for a filter to make it vanish
            return True

    return WeighedFilter(accept, sql.terms)


def retry_filter(filters: Filters, group: str) -> WeighedFilter:
    """The test of a group's retry topic: each message by the expression for the topic that it comes from, if any."""

    def accept(record: memoryview) -> bool:
        try:
            properties = stored_properties(record)
        except IndexError:
            return True
        topic = find_property(properties, _RETRY_TOPIC)
        sql = filters.filter(topic.decode(errors="replace"), group) if topic else None
        return sql is None or sql.matches(properties)

    return WeighedFilter(accept, _TERMS_UNKNOWN)


def is_by_tags(subscription: Subscription) -> bool:
    return subscription.expression_type == TAG_EXPRESSION


def from_expression(topic: str, expression: str | None, kind: str | None, version: int) -> Subscription:
    """The subscription that a pull request brings along; raises RefusedError when it is beyond every measure."""
    if expression is not None and len(expression) > EXPRESSION_CHARACTERS_MAX:
        text = f"the subscription has {len(expression)} characters, at most {EXPRESSION_CHARACTERS_MAX} are allowed"
        raise RefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, text)
    kind = kind or TAG_EXPRESSION
    if kind != TAG_EXPRESSION:
        return Subscription(topic=topic, sub_string=expression or "", sub_version=version, expression_type=kind)
    text = (expression or EVERYTHING).strip() or EVERYTHING
    return Subscription(topic=topic, sub_string=text, sub_version=version, code_set=tag_codes(text))


def compiled(subscription: Subscription) -> SqlFilter:
    """The filter of a subscription that is not by tags; raises RefusedError when there can be none."""
    topic, kind = subscription.topic, subscription.expression_type
    if kind != SQL_EXPRESSION:
        text = f"expression type {kind[:80]} is unknown; the known ones are {TAG_EXPRESSION} and {SQL_EXPRESSION}"
        raise RefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, text)
    try:
        return compile_filter(subscription.sub_string)
    except InvalidFilterError as error:
        text = f"the SQL92 expression for topic {topic} cannot be used: {error}"
        raise RefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, text) from error


def filter_of(filters: Filters, group: str, subscription: Subscription, version: int) -> SqlFilter:
    """The registered filter of a group; raises RefusedError when there is none, or not the one asked for."""
    topic = subscription.topic
    data, sql = filters.data(topic, group), filters.filter(topic, group)
    if data is None or sql is None:
        try:
            compiled(subscription)
            why = "its heartbeat has not arrived"
        except RefusedError as error:
            why = error.remark
        text = f"group {group} has no filter for topic {topic}: {why}"
        raise RefusedError(ResponseCode.FILTER_DATA_NOT_EXIST, text)
    if data.client_version < version:
        text = f"the newest filter of group {group} for topic {topic} has not arrived yet"
        raise RefusedError(ResponseCode.FILTER_DATA_NOT_LATEST, text)
    return sql


def refuse_sql_unless(enabled: bool) -> None:
    if not enabled:
        text = "this broker does not filter by SQL92: enablePropertyFilter is off"
        raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
