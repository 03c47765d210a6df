"""A report with a value for everything, some of it hostile."""

from __future__ import annotations

from pyromq.pipeline.jobs.reporting.numbers import (
    AttemptCount,
    DeadCause,
    Duplicate,
    HandledTwice,
    Latency,
    Point,
    Report,
    SlowKey,
    Throughput,
    lag_of,
)

EVIL = '<script>alert("x")</script>'


def a_report() -> Report:
    points = tuple(Point(1_000 * number, number % 3) for number in range(60))
    latency = {"topic": "orders", "group": EVIL, "count": 5, "p50_ms": 1, "p90_ms": 20, "p99_ms": 300, "max_ms": 70_000}
    return Report(
        made_ms=1_000,
        nameserver="127.0.0.1:9876",
        topics=("orders",),
        groups=("billing",),
        begin_ms=0,
        end_ms=60_000,
        bucket_ms=1_000,
        has_trace=True,
        took_s=1.5,
        throughput=(Throughput(topic="orders", messages=1_234, first_ms=0, last_ms=9, per_second=2, points=points),),
        latencies=(Latency(what="end to end", **latency),),  # type: ignore[arg-type]
        attempts=(AttemptCount(group="billing", attempt=2, count=17),),
        slow_keys=(SlowKey(group="billing", key=EVIL, count=1, avg_ms=1, max_ms=2),),
        duplicates=(Duplicate(topic="orders", key="order-1", count=3),),
        handled_twice=(HandledTwice(group="billing", topic="orders", messages=4),),
        dead=(DeadCause(group="billing", topic="orders", cause=EVIL, count=9, last_ms=1),),
        lags=(lag_of("billing", "orders", points, points),),
    )
