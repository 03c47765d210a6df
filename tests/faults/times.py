"""How long clients had to wait: the longest pause between two things of one kind, around a fault.

    acknowledged ··········|<-------- pause -------->|··········      one line for each kind of sender
    consumed     ············|<--------- pause --------->|·······     one line for each consumer

A failover is over for producers when every kind of send is acknowledged again, for consumers when each of them gets
messages that it did not have before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from time import monotonic
from typing import Final


class Timeline:
    """When things of each name happened."""

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._moments_s: dict[str, list[float]] = {}

    def note(self, name: str) -> None:
        self._moments_s.setdefault(name, []).append(self._now_s())

    def longest_pause_s(self, names: Iterable[str], begin_s: float, end_s: float) -> float:
        """The worst of these names: between two moments of which the later one lies in [begin, end]."""
        return max((_longest_pause(self._moments_s.get(name, []), begin_s, end_s) for name in names), default=0.0)


def _longest_pause(moments: list[float], begin_s: float, end_s: float) -> float:
    first, last = bisect_left(moments, begin_s), bisect_left(moments, end_s)
    before = moments[first - 1] if first else begin_s
    within = [before, *moments[first:last], end_s]
    return max(later - earlier for earlier, later in pairwise(within))


@dataclass(frozen=True, slots=True)
class Goal:
    """What a failover may take, of the middle round and of the worst, without a failed send; its text is for tables."""

    p50_s: float
    max_s: float
    loses_responses: bool = True  # of ordered sends that are under way

    def __str__(self) -> str:
        return f"{self.p50_s:g} / {self.max_s:g}"


UNPLANNED: Final = Goal(6.0, 10.0)
PLANNED: Final = Goal(1.0, 1.0, loses_responses=False)


@dataclass
class Pauses:
    """Of several rounds: how long producers and consumers waited, and the errors of sends."""

    producers_s: list[float] = field(default_factory=list)
    consumers_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # of sends
    unknown: int = 0  # ordered sends that lost their response, which nobody repeats
    slowest_send_s: float = 0.0

    def add(self, other: Pauses) -> None:
        self.producers_s += other.producers_s
        self.consumers_s += other.consumers_s
        self.errors += other.errors
        self.unknown += other.unknown
        self.slowest_send_s = max(self.slowest_send_s, other.slowest_send_s)


def meets(pauses: Pauses, goal: Goal) -> bool:
    """Whether both kinds of clients were as fast as that, and no send failed."""
    both = (pauses.producers_s, pauses.consumers_s)
    is_fast = all(median(each or [0.0]) <= goal.p50_s and max(each, default=0.0) <= goal.max_s for each in both)
    return is_fast and not pauses.errors and (goal.loses_responses or not pauses.unknown)
