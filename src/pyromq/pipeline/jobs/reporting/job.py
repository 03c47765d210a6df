"""``report``: what happened to messages, from topics, retry and dead-letter topics and the trace topic.

    reading ──frames──▶ questions, lags ──▶ numbers ──▶ tables, JSON, page

Messages are read without their bodies, once, and kept in Spark while the questions are asked. Times of producers,
brokers and consumers come from their own clocks: where those differ, latencies do too, and below 0 they count as 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from pyromq.pipeline.core.keywords import settings_from
from pyromq.pipeline.core.options import nameservers_known_here
from pyromq.pipeline.jobs.common.bars import Tell
from pyromq.pipeline.jobs.common.queries import failures_in_words
from pyromq.pipeline.jobs.common.selection import Selection
from pyromq.pipeline.jobs.common.stopwatch import Stopwatch
from pyromq.pipeline.jobs.reporting import questions
from pyromq.pipeline.jobs.reporting.lags import lags, lags_now
from pyromq.pipeline.jobs.reporting.numbers import Report
from pyromq.pipeline.jobs.reporting.options import ReportOptions, ReportSettings
from pyromq.pipeline.jobs.reporting.reading import (
    committed_offsets,
    dead_causes,
    messages_frame,
    retried,
    trace_frame,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STEPS: Final = 7


def report(spark: SparkSession, topics: Sequence[str], **options: Unpack[ReportOptions]) -> Report:
    """Groups that the trace reports need not be named; of other ``groups`` retries, dead letters and lag are known.

    Raises what the source raises, and TypeError for an option that does not exist.
    """
    settings = settings_from(ReportSettings, options, "report")
    watch, tell, groups = Stopwatch(settings.clock), settings.tell, settings.groups
    reading = Selection(
        topics=tuple(topics),
        nameserver=settings.nameserver,
        begin=settings.begin,
        end=settings.end,
        options=settings.options or {},
    )
    reading.require_properties_as_map()
    with failures_in_words():
        tell(0, _STEPS, "messages")
        messages = messages_frame(spark, reading).persist()
        trace = trace_frame(spark, reading, settings.trace_topic)
        try:
            found, span = _about_messages(messages, tell)
            stored_in = {each.topic for each in found["throughput"]}
            if trace is not None:
                consumers = _about_consumers(messages, trace, reading, stored_in, span, tell)
                found = {**found, **consumers, "latencies": (*found["latencies"], *consumers["latencies"])}
        finally:
            messages.unpersist()
        traced = {each.group for each in found["latencies"]} - {""}
        tell(5, _STEPS, "retries")
        silent_groups = sorted({*groups} - traced)
        found["attempts"] = (*found.get("attempts", ()), *retried(spark, reading, silent_groups))
        standing = committed_offsets(reading, silent_groups, stored_in)
        found["lags"] = (*found.get("lags", ()), *lags_now(standing))
        tell(6, _STEPS, "dead letters")
        found["dead"] = dead_causes(spark, reading, {*groups, *traced})
        tell(_STEPS, _STEPS)
    return Report(
        made_ms=settings.clock.now_ms(),
        nameserver=nameservers_known_here(settings.nameserver),
        topics=tuple(topics),
        groups=tuple(sorted({*groups, *traced})),
        begin_ms=span.begin_ms,
        end_ms=span.end_ms,
        bucket_ms=span.bucket_ms,
        has_trace=trace is not None,
        took_s=watch.seconds,
        **found,
    )


def _about_messages(messages: DataFrame, tell: Tell) -> tuple[dict[str, Any], questions.Span]:
    topics, latencies, span = questions.storing(messages)
    tell(1, _STEPS, "throughput")
    throughput = questions.throughput(messages, topics, span)
    tell(2, _STEPS, "duplicates")
    duplicates, duplicate_keys = questions.duplicates(messages)
    return {
        "throughput": throughput, "latencies": latencies, "duplicates": duplicates, "duplicate_keys": duplicate_keys,
    }, span  # fmt: skip


def _about_consumers(
    messages: DataFrame, trace: DataFrame, reading: Selection, topics: Collection[str], span: questions.Span, tell: Tell
) -> dict[str, Any]:
    deliveries = questions.deliveries_frame(messages, trace).persist()
    outcomes = questions.outcomes_frame(deliveries).persist()
    try:
        tell(3, _STEPS, "latencies")
        latencies, twice = questions.consuming(deliveries, outcomes)
        attempts, slow_keys = questions.attempts(deliveries), questions.slow_keys(deliveries)
        tell(4, _STEPS, "lag")
        committed = committed_offsets(reading, sorted({each.group for each in latencies}), topics)
        pairs = {(each.group, each.topic) for each in latencies} | {(each.group, each.topic) for each in committed}
        behind = lags(messages, outcomes, sorted(pairs), committed, span) if pairs else ()
    finally:
        outcomes.unpersist()
        deliveries.unpersist()
    return {
        "latencies": latencies, "handled_twice": twice, "attempts": attempts, "slow_keys": slow_keys, "lags": behind,
    }  # fmt: skip
