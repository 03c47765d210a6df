"""Subscription policy: what happens when members of a consumer group subscribe to different things.

Queues are divided among all members, so each message reaches one of them, wanted or not; what that one does not want is
lost to the others. ``warn`` logs it and marks the odd ones; ``refuse`` keeps them out of the group, with the difference
as the reason. A group has its own in the attribute ``subscription.policy``; the others have the broker's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

ATTRIBUTE: Final = "subscription.policy"


class SubscriptionPolicy(StrEnum):
    WARN = "warn"
    REFUSE = "refuse"


def policy_of(attributes: Mapping[str, str], default: SubscriptionPolicy) -> SubscriptionPolicy:
    """That of a group; a value that is unknown counts as none."""
    try:
        return SubscriptionPolicy(attributes[ATTRIBUTE])
    except (KeyError, ValueError):
        return default
