"""Fault rules: which request something happens to, and what. Decided here, done in ``traffic``.

A rule of a test says how many matching requests it lets pass, and how many it hits. A random rule hits requests with a
probability. What it decides about the n-th send to a topic follows from the seed, the kind of request, the topic, the
group and n, and from nothing else: heartbeats in between, or another order of threads, change nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from pyromq.testing.traffic.requests import RequestFacts
from pyromq.wire.codes import ResponseCode


class FaultKind(StrEnum):
    LOSE_RESPONSE = "lose response"  # the request is done; its sender never hears of it
    REFUSE = "refuse"
    SLOW = "slow"
    TWICE = "twice"
    CUT = "cut"  # the connection ends before the request is done
    CUT_WHEN_DONE = "cut when done"  # it is done, then the connection ends, without a response
    CRASH = "crash"  # the broker dies before the request is flushed, and starts again


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    code: ResponseCode = ResponseCode.SYSTEM_BUSY  # of a refusal
    remark: str = ""
    delay_ms: int = 0  # of what is slow


@dataclass(frozen=True, slots=True)
class Matching:
    """Empty names and None match everything."""

    codes: frozenset[int] | None = None
    topic: str = ""
    group: str = ""

    def __call__(self, facts: RequestFacts) -> bool:
        return (
            (self.codes is None or facts.code in self.codes)
            and (not self.topic or facts.topic == self.topic)
            and (not self.group or facts.group == self.group)
        )


@dataclass(slots=True)
class Rule:
    """Lets ``skip`` matching requests pass and hits the next ``times``; None: all of them."""

    fault: Fault
    matches: Matching
    skip: int = 0
    times: int | None = 1
    hits: int = field(default=0, init=False)

    def take(self, facts: RequestFacts) -> Fault | None:
        if self.is_over or not self.matches(facts):
            return None
        if self.skip:
            self.skip -= 1
            return None
        self.hits += 1
        return self.fault

    @property
    def is_over(self) -> bool:
        return self.times is not None and self.hits >= self.times


@dataclass(slots=True)
class RandomRule:
    """Hits a share ``rate`` of the requests that match, each with one of ``faults``."""

    seed: int
    rate: float
    faults: Sequence[Fault]
    matches: Matching
    _seen: Counter[RequestFacts] = field(default_factory=Counter, init=False)

    def take(self, facts: RequestFacts) -> Fault | None:
        if not self.matches(facts):
            return None
        self._seen[facts] += 1
        rng = Random(f"{self.seed}/{facts.name}/{facts.topic}/{facts.group}/{self._seen[facts]}")
        return rng.choice(self.faults) if rng.random() < self.rate else None

    @property
    def is_over(self) -> bool:
        return False
