"""Values of a report, frozen: the same for tables, JSON and the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from pyromq.pipeline.jobs.common.html import ShownSummary

BUCKETS_MAX: Final = 120
_WIDTHS_MS: Final = (
    *(100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000),
    *(3_600_000, 3 * 3_600_000, 6 * 3_600_000, 12 * 3_600_000, 86_400_000),
)


class Point(msgspec.Struct, frozen=True):
    """``time_ms`` is where its bucket begins."""

    time_ms: int
    value: float


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Messages stored in a topic; ``points`` are messages a second."""

    topic: str
    messages: int
    first_ms: int
    last_ms: int
    per_second: float
    points: tuple[Point, ...] = ()


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """``what``: storing (born to stored), queueing (stored to first handed to a listener), handling (in the
    listener), end to end (born to first handled with success). Storing has no group.
    """

    what: str
    topic: str
    group: str
    count: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


class AttemptCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages a group got for the n-th time; 1 is the first, which only the trace reports."""

    group: str
    attempt: int
    count: int


class SlowKey(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    key: str
    count: int
    avg_ms: float
    max_ms: float


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """A key that several messages of a topic carry."""

    topic: str
    key: str
    count: int


class HandledTwice(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that a group handled with success more than once."""

    group: str
    topic: str
    messages: int


class DeadCause(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of one error: of one class and stack hash where consumers reported them, else of one cause.

    ``cause`` is that of the newest of them. The last of many has no group and topic: it counts the dead letters of all
    those that are not named.
    """

    group: str
    topic: str
    cause: str
    count: int
    last_ms: int
    first_ms: int = 0
    error_class: str = ""
    stack: str = ""


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a topic stored and not yet handled by a group, over time; of those that the report has read.

    The times come from the trace, what is left at the end from the group's offsets. Of a group without trace only that
    is known: it has no ``points``, and ``last`` and ``max`` are the same.
    """

    group: str
    topic: str
    last: int
    max: int
    points: tuple[Point, ...] = ()


class Report(ShownSummary, frozen=True, kw_only=True):
    """Everything; empty parts say that nothing of the kind was found (without a trace topic much is not known)."""

    made_ms: int
    nameserver: str
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    begin_ms: int
    end_ms: int
    bucket_ms: int
    has_trace: bool
    took_s: float
    throughput: tuple[Throughput, ...] = ()
    latencies: tuple[Latency, ...] = ()
    attempts: tuple[AttemptCount, ...] = ()
    slow_keys: tuple[SlowKey, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()  # the most frequent of ``duplicate_keys``
    duplicate_keys: int = 0
    handled_twice: tuple[HandledTwice, ...] = ()
    dead: tuple[DeadCause, ...] = ()
    lags: tuple[Lag, ...] = ()


def bucket_width(span_ms: int) -> int:
    """A width that people count in, with which a span has few buckets."""
    return next((width for width in _WIDTHS_MS if span_ms <= width * BUCKETS_MAX), -(-span_ms // BUCKETS_MAX))


def filled(counts: Mapping[int, float], begin: int, end: int, width: int) -> tuple[Point, ...]:
    """A point for every bucket of [begin, end], 0 where nothing was counted."""
    first = begin - begin % width
    return tuple(Point(at, counts.get(at, 0)) for at in range(first, end + 1, width))


def lag_of(group: str, topic: str, stored: Iterable[Point], handled: Iterable[Point]) -> Lag:
    """From what came and what was done in the same buckets."""
    behind, points = 0.0, []
    for came, done in zip(stored, handled, strict=True):
        behind = max(0.0, behind + came.value - done.value)
        points.append(Point(came.time_ms, behind))
    values = [int(point.value) for point in points]
    return Lag(
        group=group, topic=topic, last=values[-1] if values else 0, max=max(values, default=0), points=tuple(points)
    )
