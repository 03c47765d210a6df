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
from pyromq.pipeline.jobs.reporting.numbers import Lag, Point, Report, filled, lag_of
from pyromq.pipeline.jobs.reporting.options import ReportOptions, ReportSettings
from pyromq.pipeline.jobs.reporting.questions import GROUP, Span, per_bucket
from pyromq.pipeline.jobs.reporting.reading import (
    Committed,
    committed_offsets,
    dead_causes,
    messages_frame,
    retried,
    trace_frame,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def lags(
    messages: DataFrame,
    outcomes: DataFrame,
    pairs: Sequence[tuple[str, str]],
    committed: Sequence[Committed],
    span: Span,
) -> tuple[Lag, ...]:
    """Lag over time of groups in the topics they consume, up to the last message stored or handled, whichever is later.

    It is not known when a message was handled that a group has passed and the trace does not know of: traces may be
    lost, and messages that a group gave up are not behind either. Such messages do not count.
    """
    from pyspark.sql import functions as F  # noqa: N812

    done = outcomes.where("done_ms IS NOT NULL")
    both = F.array(
        F.struct(F.lit(True).alias("came"), F.col("stored_ms").alias("at")),
        F.struct(F.lit(False).alias("came"), F.greatest("done_ms", F.lit(span.begin_ms)).alias("at")),
    )
    events = done.select(*GROUP, F.explode(both).alias("event")).select(*GROUP, "event.*")
    waiting = messages.select("*", F.explode(_groups_of_topic(pairs)).alias("group")).where(_is_ahead(committed))
    waiting = waiting.join(done, ["group", "message_id"], "anti")
    events = events.unionByName(waiting.select(*GROUP, F.lit(True).alias("came"), F.col("stored_ms").alias("at")))
    counts = per_bucket(events, span, *GROUP, "came")
    whole = span._replace(end_ms=max([span.end_ms, *(at for buckets in counts.values() for at in buckets)]))

    def points(*of: object) -> tuple[Point, ...]:
        return filled(counts.get(of, {}), *whole)

    return tuple(lag_of(*pair, stored=points(*pair, True), handled=points(*pair, False)) for pair in pairs)


def lags_now(committed: Sequence[Committed]) -> tuple[Lag, ...]:
    """Lag of groups that wrote no trace: brokers know how far they are behind, and not since when."""
    behind: dict[tuple[str, str], int] = {}
    for each in committed:
        behind[each.group, each.topic] = behind.get((each.group, each.topic), 0) + each.behind
    return tuple(Lag(group=group, topic=topic, last=count, max=count) for (group, topic), count in behind.items())


def _groups_of_topic(pairs: Sequence[tuple[str, str]]) -> Column:
    """An array of those that consume the topic of a row; null for none."""
    from pyspark.sql import functions as F  # noqa: N812

    by_topic: dict[str, list[Column]] = {}
    for group, topic in pairs:
        by_topic.setdefault(topic, []).append(F.lit(group))
    entries = (part for topic, groups in by_topic.items() for part in (F.lit(topic), F.array(*groups)))
    return F.create_map(*entries)[F.col("topic")]


def _is_ahead(committed: Sequence[Committed]) -> Column:
    """Whether the group of a row has not passed its message; a group of which brokers know nothing has passed none."""
    from pyspark.sql import functions as F  # noqa: N812

    if not committed:
        return F.lit(True)
    offsets = [F.lit(part) for each in committed for part in (_place(each.group, each.topic, each.place), each.offset)]
    passed = F.create_map(*offsets)[F.concat_ws("\n", "group", "topic", "place")]
    return F.col("queue_offset") >= F.coalesce(passed, F.lit(0))


def _place(*parts: str) -> str:
    return "\n".join(parts)


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
