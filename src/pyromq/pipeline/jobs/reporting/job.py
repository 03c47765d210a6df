"""``report``: what happened to messages, from topics, retry and dead-letter topics and the trace topic.

    reading ──frames──▶ questions, lags ──▶ numbers ──▶ tables, JSON, page        spark_facts
    plain_reading ──lists──▶ plain ────────▶                                      the same without Spark

Messages are read without their bodies, once. Times of producers, brokers and consumers come from their own clocks:
where those differ, latencies do too, and below 0 they count as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final, Unpack

import msgspec

from pyromq.pipeline.core.keywords import settings_from
from pyromq.pipeline.core.options import nameservers_known_here
from pyromq.pipeline.jobs.common.queries import failures_in_words
from pyromq.pipeline.jobs.common.selection import Selection
from pyromq.pipeline.jobs.common.stopwatch import Stopwatch
from pyromq.pipeline.jobs.reporting.lags import lags_now
from pyromq.pipeline.jobs.reporting.numbers import Report
from pyromq.pipeline.jobs.reporting.options import ReportOptions, ReportSettings
from pyromq.pipeline.jobs.reporting.plain import PlainFacts
from pyromq.pipeline.jobs.reporting.reading import committed_offsets, existing
from pyromq.pipeline.jobs.reporting.spark_facts import SparkFacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STEPS: Final = 7


def report(spark: SparkSession | None, topics: Sequence[str], **options: Unpack[ReportOptions]) -> Report:
    """Groups that the trace reports need not be named; of other ``groups`` retries, dead letters and lag are known.

    With None for Spark this process reads the messages and keeps them in memory: quick for some ten thousand. Raises
    what the source raises, TooLargeForMemoryError, and TypeError for an option that does not exist.
    """
    settings = settings_from(ReportSettings, options, "report")
    watch, groups = Stopwatch(settings.clock), settings.groups

    def step(number: int, text: str) -> None:
        settings.tell(number, _STEPS, text)

    reading = _selection(topics, settings)
    reading.require_properties_as_map()
    step(0, "messages")
    with _facts(spark, reading, settings.trace_topic) as facts:
        found, span = facts.about_messages(step)
        stored_in = {each.topic for each in found["throughput"]}
        if facts.has_trace:
            consumers = facts.about_consumers(stored_in, span, step)
            found = {**found, **consumers, "latencies": (*found["latencies"], *consumers["latencies"])}
        traced = {each.group for each in found["latencies"]} - {""}
        step(5, "retries")
        silent_groups = sorted({*groups} - traced)
        found["attempts"] = (*found.get("attempts", ()), *facts.retried(silent_groups))
        standing = committed_offsets(reading, silent_groups, stored_in)
        found["lags"] = (*found.get("lags", ()), *lags_now(standing))
        step(6, "dead letters")
        found["dead"] = facts.dead_causes({*groups, *traced})
        step(_STEPS, "")
    return Report(
        made_ms=settings.clock.now_ms(),
        nameserver=nameservers_known_here(settings.nameserver),
        topics=tuple(topics),
        groups=tuple(sorted({*groups, *traced})),
        begin_ms=span.begin_ms,
        end_ms=span.end_ms,
        bucket_ms=span.bucket_ms,
        has_trace=facts.has_trace,
        took_s=watch.seconds,
        **found,
    )


def size_of_report(topics: Sequence[str], **options: Unpack[ReportOptions]) -> int:
    """How many messages a report would read, with those of the trace topic. Raises what the source raises."""
    from pyromq.pipeline.jobs.common.plain_rows import count_of

    settings = settings_from(ReportSettings, options, "report")
    reading = _selection(topics, settings)
    trace = msgspec.structs.replace(reading, topics=(settings.trace_topic,), end=None)
    return count_of(reading) + (count_of(trace) if existing(reading, (settings.trace_topic,)) else 0)


def _selection(topics: Sequence[str], settings: ReportSettings) -> Selection:
    return Selection(
        topics=tuple(topics),
        nameserver=settings.nameserver,
        begin=settings.begin,
        end=settings.end,
        options=settings.options or {},
    )


@contextmanager
def _facts(spark: SparkSession | None, reading: Selection, trace_topic: str) -> Iterator[SparkFacts | PlainFacts]:
    if spark is None:
        yield PlainFacts(reading, trace_topic)
        return
    with failures_in_words(), closing(SparkFacts(spark, reading, trace_topic)) as facts:
        yield facts
