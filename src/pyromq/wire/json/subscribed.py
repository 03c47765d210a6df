"""What members of a group subscribe to, in a form to compare: a group whose members differ loses messages.

A group's own retry topic is left out, for a push consumer subscribes to it and a lite-pull consumer does not, and tags
are sorted: ``b || a`` asks for the same as ``a||b``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyromq.model.names import RETRY_PREFIX
from pyromq.wire.json.heartbeat import TAG_EXPRESSION, Subscription

EVERYTHING: Final = "*"
_TOPICS_MAX: Final = 10  # in one text
_EXPRESSION_CHARACTERS_MAX: Final = 200

Wish = frozenset[tuple[str, str]]
"""Topics and expressions that a member subscribes to; compared by hash, for a group has thousands of equal ones."""


def wish_of(subscriptions: Iterable[Subscription]) -> Wish:
    """The topics and expressions of one member, without its retry topic."""
    return frozenset(
        (each.topic, expression_of(each)) for each in subscriptions if not each.topic.startswith(RETRY_PREFIX)
    )


def expression_of(subscription: Subscription) -> str:
    """The expression with its tags in order; ``*`` where everything is wanted."""
    if subscription.expression_type != TAG_EXPRESSION:
        return subscription.sub_string.strip()
    tags = {tag for part in subscription.sub_string.split("||") if (tag := part.strip())}
    return " || ".join(sorted(tags)) or EVERYTHING


def shown(wish: Iterable[tuple[str, str]]) -> str:
    """Topics with their expressions, in words."""
    texts = [f"{topic} ({_shortened(expression)})" for topic, expression in sorted(wish)]
    more = f" and {len(texts) - _TOPICS_MAX} more" if len(texts) > _TOPICS_MAX else ""
    return (", ".join(texts[:_TOPICS_MAX]) + more) or "nothing else"


def difference(one: Wish, others: Wish) -> tuple[str, str]:
    """What only this member subscribes to, and what only the others do, in words."""
    return shown(one - others), shown(others - one)


def _shortened(expression: str) -> str:
    if len(expression) <= _EXPRESSION_CHARACTERS_MAX:
        return expression
    return expression[:_EXPRESSION_CHARACTERS_MAX] + "…"
