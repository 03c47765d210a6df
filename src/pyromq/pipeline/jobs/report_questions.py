"""What a report asks of its frames, each question one query of Spark: every query costs, however few its rows are.

messages   topic, place, queue_offset, message_id, keys, born_ms, stored_ms
handled    group, message_id, keys, attempt, began_ms, ended_ms, cost_ms, is_success: a row for each delivery
outcomes   a row for each message and group that the trace tells of (``outcomes_frame``)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyromq.pipeline.jobs.report_numbers import (
    Attempts,
    Duplicate,
    HandledTwice,
    Lag,
    Latency,
    Point,
    SlowKey,
    Throughput,
    bucket_width,
    filled,
    lag_of,
)
from pyromq.pipeline.jobs.report_reading import Committed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOP: Final = 10
_GROUP: Final = ("group", "topic")


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

    counts = _per_bucket(messages.select("topic", F.col("stored_ms").alias("at")), span, "topic")
    found = []
    for each in topics:
        per_second = {at: count * 1000 / span.bucket_ms for at, count in counts.get((each["topic"],), {}).items()}
        span_s = max(1, each["last_ms"] - each["first_ms"]) / 1000
        points = filled(per_second, *span)
        found.append(Throughput(**each, per_second=round(each["messages"] / span_s, 3), points=points))
    return tuple(found)


def duplicates(messages: DataFrame) -> tuple[Duplicate, ...]:
    from pyspark.sql import functions as F  # noqa: N812

    rows = _keyed(messages, "topic").groupBy("topic", "key").count().where("count > 1")
    ordered = rows.orderBy(F.desc("count"), "topic", "key").limit(TOP)
    return tuple(Duplicate(topic=row["topic"], key=row["key"], count=row["count"]) for row in ordered.collect())


# --- what the trace tells --------------------------------------------------------------------------------------------


def outcomes_frame(messages: DataFrame, handled: DataFrame) -> DataFrame:
    """``group, topic, message_id, stored_ms, queueing, end_to_end, done_ms, successes, costs``.

    A message id may be there twice in a topic, for producers send again when they do not hear: the first one counts.
    """
    from pyspark.sql import functions as F  # noqa: N812

    first = messages.groupBy("message_id").agg(F.min(F.struct("stored_ms", "born_ms", "topic")).alias("first"))
    done = F.when(F.col("is_success"), F.col("ended_ms"))
    joined = handled.join(first.select("message_id", "first.*"), "message_id")
    return joined.groupBy(*_GROUP, "message_id").agg(
        F.min("stored_ms").alias("stored_ms"),
        (F.min("began_ms") - F.min("stored_ms")).alias("queueing"),
        (F.min(done) - F.min("born_ms")).alias("end_to_end"),
        F.min(done).alias("done_ms"),
        F.count(done).alias("successes"),
        F.collect_list("cost_ms").alias("costs"),
    )


def consuming(outcomes: DataFrame) -> tuple[tuple[Latency, ...], tuple[HandledTwice, ...]]:
    """Queueing, handling and end to end; and how many messages were handled with success more than once."""
    from pyspark.sql import functions as F  # noqa: N812

    asked = (*_percentiles("queueing"), *_percentiles("end_to_end"), F.count_if(F.col("successes") > 1).alias("twice"))
    whole = outcomes.groupBy(*_GROUP).agg(*asked).orderBy(*_GROUP).collect()
    costs = outcomes.select(*_GROUP, F.explode("costs").alias("handling"))
    each = costs.groupBy(*_GROUP).agg(*_percentiles("handling")).orderBy(*_GROUP).collect()
    latencies = tuple(
        _latency(row, column, what, group=row["group"], topic=row["topic"])
        for rows, column, what in (
            (whole, "queueing", "queueing"),
            (each, "handling", "handling"),
            (whole, "end_to_end", "end to end"),
        )
        for row in rows
        if row[f"{column}_count"]
    )
    twice = (HandledTwice(group=row["group"], topic=row["topic"], messages=row["twice"]) for row in whole)
    return latencies, tuple(each for each in twice if each.messages)


def attempts(handled: DataFrame) -> tuple[Attempts, ...]:
    rows = handled.groupBy("group", "attempt").count().orderBy("group", "attempt").collect()
    return tuple(Attempts(group=row["group"], attempt=row["attempt"], count=row["count"]) for row in rows)


def slow_keys(handled: DataFrame) -> tuple[SlowKey, ...]:
    """Those that took a moment at least."""
    from pyspark.sql import functions as F  # noqa: N812

    keyed = _keyed(handled.where("cost_ms > 0"), "group", "cost_ms").groupBy("group", "key")
    rows = (
        keyed.agg(F.count("*").alias("count"), F.avg("cost_ms").alias("avg_ms"), F.max("cost_ms").alias("max_ms"))
        .orderBy(F.desc("max_ms"), F.desc("avg_ms"), "key")
        .limit(TOP)
    )
    return tuple(SlowKey(**row.asDict()) for row in rows.collect())


def lags(
    messages: DataFrame, outcomes: DataFrame, groups: Sequence[str], committed: Sequence[Committed], span: Span
) -> tuple[Lag, ...]:
    """Up to the last message stored or handled, whichever is later.

    Of a message that a group has passed and the trace does not know of, nobody can say when it was handled: traces may
    be lost, and messages that a group gave up are not behind either. Such messages do not count.
    """
    from pyspark.sql import functions as F  # noqa: N812

    done = outcomes.where("done_ms IS NOT NULL")
    both = F.array(
        F.struct(F.lit(True).alias("came"), F.col("stored_ms").alias("at")),
        F.struct(F.lit(False).alias("came"), F.greatest("done_ms", F.lit(span.begin_ms)).alias("at")),
    )
    events = done.select(*_GROUP, F.explode(both).alias("event")).select(*_GROUP, "event.*")
    waiting = messages.select("*", F.explode(F.array(*map(F.lit, groups))).alias("group")).where(_is_ahead(committed))
    waiting = waiting.join(done, ["group", "message_id"], "anti")
    events = events.unionByName(waiting.select(*_GROUP, F.lit(True).alias("came"), F.col("stored_ms").alias("at")))
    counts = _per_bucket(events, span, *_GROUP, "came")
    whole = span._replace(end_ms=max([span.end_ms, *(at for buckets in counts.values() for at in buckets)]))

    def points(*of: object) -> tuple[Point, ...]:
        return filled(counts.get(of, {}), *whole)

    pairs = sorted({(group, topic) for group, topic, _ in counts})
    return tuple(lag_of(*pair, stored=points(*pair, True), handled=points(*pair, False)) for pair in pairs)


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


def _per_bucket(frame: DataFrame, span: Span, *by: str) -> dict[tuple[Any, ...], dict[int, float]]:
    """Rows of each bucket, by the column ``at``."""
    from pyspark.sql import functions as F  # noqa: N812

    bucket = (F.col("at") - F.col("at") % span.bucket_ms).alias("bucket")
    found: dict[tuple[Any, ...], dict[int, float]] = {}
    for row in frame.groupBy(*by, bucket).count().collect():
        found.setdefault(tuple(row[name] for name in by), {})[row["bucket"]] = row["count"]
    return found
