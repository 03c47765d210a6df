"""``report``: what happened to messages, from topics, retry and dead-letter topics and the trace topic.

    report_reading ──frames──▶ report_questions ──▶ report_numbers ──▶ tables, JSON, report_page

Messages are read without their bodies, once, and kept in Spark while the questions are asked. Times of producers,
brokers and consumers come from their own clocks: where those differ, latencies do too, and below 0 they count as 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyromq.client.settings import ClientSettings
from pyromq.pipeline.jobs import report_questions as questions
from pyromq.pipeline.jobs.bars import Tell, silent
from pyromq.pipeline.jobs.queries import failures_in_words
from pyromq.pipeline.jobs.report_numbers import Report
from pyromq.pipeline.jobs.report_reading import committed_offsets, dead_causes, messages_frame, trace_frame
from pyromq.pipeline.jobs.topics import Selection
from pyromq.wire.trace import TRACE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STEPS: Final = 7


def report(
    spark: SparkSession,
    topics: Sequence[str],
    *,
    nameserver: str = "",
    groups: Sequence[str] = (),
    begin: int | None = None,
    end: int | None = None,
    trace_topic: str = TRACE_TOPIC,
    options: Mapping[str, str] | None = None,
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    tell: Tell = silent,
) -> Report:
    """``groups`` are those whose dead letters count; groups that the trace tells of are reported without being named.

    Raises what the source raises.
    """
    started = time.monotonic()
    reading = Selection(topics=tuple(topics), nameserver=nameserver, begin=begin, end=end, options=options or {})
    with failures_in_words():
        tell(0, _STEPS, "messages")
        messages = messages_frame(spark, reading).persist()
        trace = trace_frame(spark, reading, trace_topic)
        try:
            found, span = _about_messages(messages, tell)
            if trace is not None:
                told = _about_consumers(messages, trace, reading, span, tell)
                found = {**found, **told, "latencies": (*found["latencies"], *told["latencies"])}
        finally:
            messages.unpersist()
        tell(6, _STEPS, "dead letters")
        found["dead"] = dead_causes(spark, reading, groups)
        tell(_STEPS, _STEPS)
    seen = {each.group for part in ("latencies", "attempts") for each in found.get(part, ())} - {""}
    return Report(
        made_ms=now_ms(),
        nameserver=";".join(ClientSettings(nameservers=nameserver).nameservers),
        topics=tuple(topics),
        groups=tuple(sorted({*groups, *seen})),
        begin_ms=span.begin_ms,
        end_ms=span.end_ms,
        bucket_ms=span.bucket_ms,
        has_trace=trace is not None,
        took_s=round(time.monotonic() - started, 3),
        **found,
    )


def _about_messages(messages: DataFrame, tell: Tell) -> tuple[dict[str, Any], questions.Span]:
    topics, latencies, span = questions.storing(messages)
    tell(1, _STEPS, "throughput")
    throughput = questions.throughput(messages, topics, span)
    tell(2, _STEPS, "duplicates")
    return {"throughput": throughput, "latencies": latencies, "duplicates": questions.duplicates(messages)}, span


def _about_consumers(
    messages: DataFrame, trace: DataFrame, reading: Selection, span: questions.Span, tell: Tell
) -> dict[str, Any]:
    handled = trace.persist()
    outcomes = questions.outcomes_frame(messages, handled).persist()
    try:
        tell(3, _STEPS, "latencies")
        latencies, twice = questions.consuming(outcomes)
        tell(4, _STEPS, "attempts")
        attempts, slow_keys = questions.attempts(handled), questions.slow_keys(handled)
        tell(5, _STEPS, "lag")
        pairs = sorted({(each.group, each.topic) for each in latencies})
        groups = sorted({group for group, _ in pairs})
        lags = questions.lags(messages, outcomes, groups, committed_offsets(reading, pairs), span) if groups else ()
    finally:
        outcomes.unpersist()
        handled.unpersist()
    return {
        "latencies": latencies, "handled_twice": twice, "attempts": attempts, "slow_keys": slow_keys,
        "lags": lags,
    }  # fmt: skip
