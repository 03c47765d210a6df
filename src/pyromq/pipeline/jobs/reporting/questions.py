"""Queries of a report over its frames, each question one of Spark's: every query costs, however few its rows are.

messages    topic, place, queue_offset, message_id, keys, born_ms, stored_ms
deliveries  a row for each time that one of these messages was handed to a group (``deliveries_frame``)
outcomes    a row for each message and group that the trace reports (``outcomes_frame``)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyromq.pipeline.jobs.reporting.numbers import (
    AttemptCount,
    Duplicate,
    HandledTwice,
    Latency,
    SlowKey,
    Throughput,
    bucket_width,
    filled,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOP: Final = 10
GROUP: Final = ("group", "topic")


class Span(NamedTuple):
    """The time that messages were stored in, and the width of its buckets."""

    begin_ms: int = 0
    end_ms: int = 0
    bucket_ms: int = 1_000


# --- messages --------------------------------------------------------------------------------------------------------


def storing(messages: DataFrame) -> tuple[list[Any], tuple[Latency, ...], Span]:
    """Each topic with count, first and last; how long storing took; the span of them all."""
    from pyspark.sql import functions as F  # noqa: N812

    counted = messages.withColumn("ms", F.col("stored_ms") - F.col("born_ms")).groupBy("topic").agg(
        F.count("*").alias("messages"), F.min("stored_ms").alias("first_ms"), F.max("stored_ms").alias("last_ms"),
        *_percentiles("ms"),
    )  # fmt: skip
    rows = counted.orderBy("topic").collect()
    latencies = tuple(_latency(row, "ms", "storing", group="", topic=row["topic"]) for row in rows)
    if not rows:
        return [], (), Span()
    begin, end = min(row["first_ms"] for row in rows), max(row["last_ms"] for row in rows)
    topics = [{name: row[name] for name in ("topic", "messages", "first_ms", "last_ms")} for row in rows]
    return topics, latencies, Span(begin, end, bucket_width(end - begin))


def throughput(messages: DataFrame, topics: Sequence[Any], span: Span) -> tuple[Throughput, ...]:
    from pyspark.sql import functions as F  # noqa: N812

    counts = per_bucket(messages.select("topic", F.col("stored_ms").alias("at")), span, "topic")
    found = []
    for each in topics:
        per_second = {at: count * 1000 / span.bucket_ms for at, count in counts.get((each["topic"],), {}).items()}
        span_s = max(1_000, each["last_ms"] - each["first_ms"]) / 1000  # in less time there is no rate
        points = filled(per_second, *span)
        found.append(Throughput(**each, per_second=round(each["messages"] / span_s, 3), points=points))
    return tuple(found)


def duplicates(messages: DataFrame) -> tuple[tuple[Duplicate, ...], int]:
    """The most frequent, and how many there are."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = _keyed(messages, "topic").groupBy("topic", "key").count().where("count > 1")
    ordered = rows.orderBy(F.desc("count"), "topic", "key").limit(TOP)
    found = tuple(Duplicate(topic=row["topic"], key=row["key"], count=row["count"]) for row in ordered.collect())
    return found, rows.count() if len(found) == TOP else len(found)


# --- what the trace tells --------------------------------------------------------------------------------------------


def deliveries_frame(messages: DataFrame, handled: DataFrame) -> DataFrame:
    """``handled_frame`` has the columns; and ``topic, stored_ms, born_ms`` of the message.

    The trace topic is about all topics: what these messages do not have is left out. A message id may be there twice in
    a topic, for producers send again when they do not hear: the first one counts.
    """
    from pyspark.sql import functions as F  # noqa: N812

    first = messages.groupBy("message_id").agg(F.min(F.struct("stored_ms", "born_ms", "topic")).alias("first"))
    return handled.join(first.select("message_id", "first.*"), "message_id")


def outcomes_frame(deliveries: DataFrame) -> DataFrame:
    """``group, topic, message_id, stored_ms, queueing, end_to_end, done_ms, successes``."""
    from pyspark.sql import functions as F  # noqa: N812

    done = F.when(F.col("is_success"), F.col("ended_ms"))
    return deliveries.groupBy(*GROUP, "message_id").agg(
        F.min("stored_ms").alias("stored_ms"),
        (F.min("began_ms") - F.min("stored_ms")).alias("queueing"),
        (F.min(done) - F.min("born_ms")).alias("end_to_end"),
        F.min(done).alias("done_ms"),
        F.count(done).alias("successes"),
    )


def consuming(deliveries: DataFrame, outcomes: DataFrame) -> tuple[tuple[Latency, ...], tuple[HandledTwice, ...]]:
    """Queueing, handling and end to end; and how many messages were handled with success more than once."""
    from pyspark.sql import functions as F  # noqa: N812

    asked = (*_percentiles("queueing"), *_percentiles("end_to_end"), F.count_if(F.col("successes") > 1).alias("twice"))
    whole = outcomes.groupBy(*GROUP).agg(*asked).orderBy(*GROUP).collect()
    each = deliveries.groupBy(*GROUP).agg(*_percentiles("cost_ms")).orderBy(*GROUP).collect()
    latencies = tuple(
        _latency(row, column, what, group=row["group"], topic=row["topic"])
        for rows, column, what in (
            (whole, "queueing", "queueing"),
            (each, "cost_ms", "handling"),
            (whole, "end_to_end", "end to end"),
        )
        for row in rows
        if row[f"{column}_count"]
    )
    twice = (HandledTwice(group=row["group"], topic=row["topic"], messages=row["twice"]) for row in whole)
    return latencies, tuple(each for each in twice if each.messages)


def attempts(deliveries: DataFrame) -> tuple[AttemptCount, ...]:
    rows = deliveries.groupBy("group", "attempt").count().orderBy("group", "attempt").collect()
    return tuple(AttemptCount(group=row["group"], attempt=row["attempt"], count=row["count"]) for row in rows)


def slow_keys(deliveries: DataFrame) -> tuple[SlowKey, ...]:
    """Those that took a moment at least."""
    from pyspark.sql import functions as F  # noqa: N812

    keyed = _keyed(deliveries.where("cost_ms > 0"), "group", "cost_ms").groupBy("group", "key")
    rows = (
        keyed.agg(F.count("*").alias("count"), F.avg("cost_ms").alias("avg_ms"), F.max("cost_ms").alias("max_ms"))
        .orderBy(F.desc("max_ms"), F.desc("avg_ms"), "key")
        .limit(TOP)
    )
    return tuple(SlowKey(**row.asDict()) for row in rows.collect())


# --- shared ----------------------------------------------------------------------------------------------------------


def _keyed(frame: DataFrame, *columns: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return frame.where("keys <> ''").select(*columns, F.explode(F.split("keys", " ")).alias("key"))


def _percentiles(column: str) -> tuple[Column, Column, Column]:
    """Clocks of different machines differ: what seems to have taken less than no time took none."""
    from pyspark.sql import functions as F  # noqa: N812

    value = F.when(F.col(column).isNotNull(), F.greatest(F.col(column), F.lit(0)))
    return (
        F.count(value).alias(f"{column}_count"),
        F.percentile_approx(value, [0.5, 0.9, 0.99], 10_000).alias(f"{column}_percentiles"),
        F.max(value).alias(f"{column}_max"),
    )


def _latency(row: Any, column: str, what: str, *, group: str, topic: str) -> Latency:
    p50, p90, p99 = row[f"{column}_percentiles"]
    count, most = row[f"{column}_count"], row[f"{column}_max"]
    return Latency(what=what, topic=topic, group=group, count=count, p50_ms=p50, p90_ms=p90, p99_ms=p99, max_ms=most)


def per_bucket(frame: DataFrame, span: Span, *by: str) -> dict[tuple[Any, ...], dict[int, float]]:
    """Rows of each bucket, by the column ``at``."""
    from pyspark.sql import functions as F  # noqa: N812

    bucket = (F.col("at") - F.col("at") % span.bucket_ms).alias("bucket")
    found: dict[tuple[Any, ...], dict[int, float]] = {}
    for row in frame.groupBy(*by, bucket).count().collect():
        found.setdefault(tuple(row[name] for name in by), {})[row["bucket"]] = row["count"]
    return found
