"""Subscriptions: tag expressions, their form in heartbeats, the exact filter behind the broker's.

``TagA || TagB`` asks for either tag, ``*`` or nothing for all messages. A broker compares hashes of tags, and different
tags may have the same hash: the consumer compares the text again. SQL is the broker's business alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyromq.client.consumer.rules.message_protocol import PulledT
from pyromq.errors import InvalidExpressionError
from pyromq.model.names import retry_topic
from pyromq.wire.java_hash import java_hash
from pyromq.wire.json.heartbeat import SQL_EXPRESSION, TAG_EXPRESSION, Subscription

ALL: Final = "*"
_SEPARATOR: Final = "||"
_JAVA_BLANKS: Final = "".join(map(chr, range(33)))  # what Java's trim removes


def parse_tags(expression: str | None) -> frozenset[str]:
    """The tags of an expression; an empty set stands for all messages. Raises InvalidExpressionError."""
    if not expression or expression.strip(_JAVA_BLANKS) == ALL:
        return frozenset()
    tags = frozenset(tag for part in expression.split(_SEPARATOR) if (tag := part.strip(_JAVA_BLANKS)))
    if not tags:
        raise InvalidExpressionError(f"tag expression {expression[:80]!r} names no tag; '*' stands for all messages")
    return tags


def subscribe_tags(topic: str, expression: str | None, version: int) -> Subscription:
    """A subscription by tags, as heartbeats carry it; ``version`` is the time in milliseconds."""
    tags = parse_tags(expression)
    return Subscription(
        topic=topic,
        sub_string=expression if tags and expression else ALL,
        sub_version=version,
        expression_type=TAG_EXPRESSION,
        tags_set=tags,
        code_set=frozenset(map(java_hash, tags)),
    )


def subscribe_sql(topic: str, expression: str, version: int) -> Subscription:
    """A subscription by SQL92 over properties; only the broker knows whether it is valid (46 CHECK_CLIENT_CONFIG)."""
    if not expression.strip():
        raise InvalidExpressionError("an SQL expression must not be empty")
    return Subscription(topic=topic, sub_string=expression, sub_version=version, expression_type=SQL_EXPRESSION)


def subscribe_retries(group: str, version: int) -> Subscription:
    """What every clustering group subscribes besides: the messages that it failed with."""
    return subscribe_tags(retry_topic(group), ALL, version)


def wanted_messages(subscription: Subscription, messages: Sequence[PulledT]) -> Sequence[PulledT]:
    """Those that the subscription really asks for; the same sequence when it asks for all."""
    tags = subscription.tags_set
    if not tags or subscription.class_filter_mode:
        return messages
    return [message for message in messages if message.tags in tags]
