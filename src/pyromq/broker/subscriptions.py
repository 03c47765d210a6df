"""What a pull wants to see: the subscription of its group, or the expression that it brings along."""

from __future__ import annotations

from functools import lru_cache

from pyromq.broker.refusals import RefusedError
from pyromq.store.queue_reader import TagFilter
from pyromq.wire.codes import ResponseCode
from pyromq.wire.heartbeat import TAG_EXPRESSION, Subscription
from pyromq.wire.java_hash import java_hash

EVERYTHING = "*"


@lru_cache(maxsize=4096)
def tag_codes(expression: str) -> frozenset[int]:
    """Hashes of the tags in ``TagA || TagB``; empty for everything."""
    if not expression or expression == EVERYTHING:
        return frozenset()
    return frozenset(java_hash(tag) for tag in map(str.strip, expression.split("||")) if tag)


def tag_filter(subscription: Subscription) -> TagFilter | None:
    """A test of queue entries; None when everything passes. Texts are compared by the client once more."""
    if subscription.class_filter_mode or subscription.sub_string == EVERYTHING:
        return None
    codes = subscription.code_set or tag_codes(subscription.sub_string)
    return codes.__contains__ if codes else None


def from_expression(topic: str, expression: str | None, kind: str | None, version: int) -> Subscription:
    """The subscription that a pull request brings along."""
    refuse_unless_tags(kind)
    text = (expression or EVERYTHING).strip() or EVERYTHING
    return Subscription(topic=topic, sub_string=text, sub_version=version, code_set=tag_codes(text))


def refuse_unless_tags(kind: str | None) -> None:
    if kind and kind != TAG_EXPRESSION:
        text = f"this broker filters by tags only, expressions of type {kind} are not supported yet"
        raise RefusedError(ResponseCode.SYSTEM_ERROR, text)
