"""Retry policy: how long a failed message of a group waits, if the group has its own ladder (groupRetryPolicy).

    {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000, 10000]}}            the last one goes on
    {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 2}}

Without one the delay levels count: the third for the first retry, the fourth for the second, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pyromq.model.subscription_policy import SubscriptionPolicy, policy_of
from pyromq.model.topic import GroupConfig

_HONOURS_LIMIT = 121  # protocol version 3.4.9


class _Customized(msgspec.Struct, frozen=True):
    next: list[int]


class _Exponential(msgspec.Struct, frozen=True):
    initial: int = 5_000
    max: int = 7_200_000
    multiplier: int = 2


def attempts_allowed(group: GroupConfig, wanted: int | None, version: int, policy: SubscriptionPolicy) -> int:
    """How often a message may fail: as its consumer wants it, if that is new enough to be asked, or its group.

    Where members must agree, the group's own limit counts for all.
    """
    if policy_of(group.attributes, policy) is SubscriptionPolicy.REFUSE:
        return group.retry_max_times
    return wanted if wanted is not None and version >= _HONOURS_LIMIT else group.retry_max_times


def retry_delay_ms(policy: Mapping[str, Any], attempts: int) -> int | None:
    """Delay before the next attempt, after so many; None when the group has no usable ladder of its own."""
    try:
        if policy.get("type") == "EXPONENTIAL" and policy.get("exponentialRetryPolicy"):
            growing = msgspec.convert(policy["exponentialRetryPolicy"], _Exponential)
            grown: int = growing.initial * growing.multiplier ** min(attempts, 32)
            return max(1, min(growing.max, grown))
        if policy.get("customizedRetryPolicy"):
            steps = msgspec.convert(policy["customizedRetryPolicy"], _Customized).next
            return max(1, steps[min(attempts, len(steps) - 1)]) if steps else None
    except msgspec.ValidationError:
        return None
    return None
