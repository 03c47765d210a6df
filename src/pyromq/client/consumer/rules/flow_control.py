"""Flow control: when a consumer pulls no further. Rules over what it holds already, each with its own counter.

Checked in this order before every pull; the first that applies counts.

    paused                                 1 000 ms
    more than 1 000 messages of a queue       50 ms      or max(1, messages of the topic // assigned queues)
    more than 100 MiB of a queue              50 ms      or max(1 MiB, bytes of the topic // assigned queues)
    concurrent: span over 2 000               50 ms      one message is stuck while others go on
    orderly: the queue is not locked       3 000 ms
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Protocol

MIB: Final = 1 << 20
LINE_EVERY: Final = 1_000


class Hold(Enum):
    """Why there is no pull at the moment."""

    PAUSED = "paused"
    MESSAGES = "too many messages buffered"
    BYTES = "too many bytes buffered"
    SPAN = "offsets too far apart"
    NOT_LOCKED = "queue not locked"


@dataclass(frozen=True, slots=True)
class GoOn:
    """Nothing speaks against a pull."""


@dataclass(frozen=True, slots=True)
class HoldOff:
    """Pull no more for now; ask again after ``wait_ms``."""

    wait_ms: int
    reason: Hold


FlowDecision = GoOn | HoldOff

_GO_ON: Final = GoOn()


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """What a consumer may hold per queue; the limits per topic replace them when they are set."""

    messages_max: int = 1_000
    bytes_max: int = 100 * MIB
    span_max: int = 2_000
    topic_messages_max: int | None = None
    topic_bytes_max: int | None = None
    full_wait_ms: int = 50
    paused_wait_ms: int = 1_000
    lock_wait_ms: int = 3_000

    def shared_by(self, queue_count: int) -> FlowLimits:
        """The limits of each queue when the consumer has that many."""
        shared = self
        if self.topic_messages_max is not None and queue_count:
            shared = replace(shared, messages_max=max(1, self.topic_messages_max // queue_count))
        if self.topic_bytes_max is not None and queue_count:
            shared = replace(shared, bytes_max=max(MIB, self.topic_bytes_max // queue_count))
        return shared


class BufferLoad(Protocol):
    """What a buffer says about itself."""

    def __len__(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def span(self) -> int: ...


def flow_decision(
    limits: FlowLimits, held: BufferLoad, *, paused: bool = False, orderly: bool = False, locked: bool = True
) -> FlowDecision:
    """Whether to pull; ``locked`` counts for orderly consumers in clustering only."""
    if paused:
        return HoldOff(limits.paused_wait_ms, Hold.PAUSED)
    if len(held) > limits.messages_max:
        return HoldOff(limits.full_wait_ms, Hold.MESSAGES)
    if held.size_bytes > limits.bytes_max:
        return HoldOff(limits.full_wait_ms, Hold.BYTES)
    if orderly:
        return _GO_ON if locked else HoldOff(limits.lock_wait_ms, Hold.NOT_LOCKED)
    if held.span > limits.span_max:
        return HoldOff(limits.full_wait_ms, Hold.SPAN)
    return _GO_ON


class FlowControl:
    """The limits in force and how often each rule held a pull back; the loop owns it, one per consumer."""

    def __init__(self, limits: FlowLimits, *, orderly: bool = False) -> None:
        self._configured = limits
        self._orderly = orderly
        self._counts: Counter[Hold] = Counter()
        self.limits = limits.shared_by(0)
        self.paused = False

    def share_among(self, queue_count: int) -> None:
        """After a rebalance: limits per topic are divided anew."""
        self.limits = self._configured.shared_by(queue_count)

    def check(self, held: BufferLoad, *, locked: bool = True) -> FlowDecision:
        decision = flow_decision(self.limits, held, paused=self.paused, orderly=self._orderly, locked=locked)
        if isinstance(decision, HoldOff):
            self._counts[decision.reason] += 1
        return decision

    def is_worth_a_line(self, reason: Hold) -> bool:
        """The first time, and every thousandth, as in RocketMQ; a pause is the application's own wish."""
        return reason is not Hold.PAUSED and self._counts[reason] % LINE_EVERY == 1

    @property
    def counts(self) -> Mapping[Hold, int]:
        """How often each rule applied so far; rules that never did stand with 0."""
        return {reason: self._counts[reason] for reason in Hold}
