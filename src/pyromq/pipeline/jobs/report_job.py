"""``report``: what happened to messages, from topics, retry and dead-letter topics and the trace topic.

Messages are read without their bodies, once, and kept in Spark while the questions are asked. Times of producers,
brokers and consumers come from their own clocks: where those differ, latencies do too, and below 0 they count as 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyromq.client.settings import ClientSettings
from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic
from pyromq.pipeline.consume_returns import DLQ_ERROR
from pyromq.pipeline.jobs.bars import Tell, silent
from pyromq.pipeline.jobs.queries import failures_in_words
from pyromq.pipeline.jobs.report_numbers import (
    Attempts,
    DeadCause,
    Duplicate,
    HandledTwice,
    Lag,
    Latency,
    Report,
    SlowKey,
    Throughput,
    bucket_width,
    filled,
    lag_of,
)
from pyromq.pipeline.jobs.topics import Selection
from pyromq.pipeline.jobs.trace_frame import handled_frame
from pyromq.wire.trace import TRACE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyromq import Admin

_COLUMNS: Final = ("topic", "message_id", "keys", "born_time", "store_time")
_CAUSES: Final = (DLQ_ERROR, "error", "ERROR", "exception")  # ours, and what applications like to write
_TOP: Final = 20
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
        messages = _messages(reading.frame(spark, *_COLUMNS)).persist()
        try:
            trace = _trace(spark, reading, trace_topic)
            found = _Found(spark, messages, trace, tell)
            dead = _dead(spark, reading, groups)
            tell(_STEPS, _STEPS)
        finally:
            messages.unpersist()
    throughput, begin_ms, end_ms, width = found.throughput
    named = {*groups, *(each.group for each in found.latencies if each.group), *(each.group for each in found.attempts)}
    return Report(
        made_ms=now_ms(),
        nameserver=";".join(ClientSettings(nameservers=nameserver).nameservers),
        topics=tuple(topics),
        groups=tuple(sorted(named)),
        begin_ms=begin_ms,
        end_ms=end_ms,
        bucket_ms=width,
        has_trace=trace is not None,
        took_s=round(time.monotonic() - started, 3),
        throughput=throughput,
        latencies=found.latencies,
        attempts=found.attempts,
        slow_keys=found.slow_keys,
        duplicates=found.duplicates,
        handled_twice=found.handled_twice,
        dead=dead,
        lags=found.lags,
    )


# --- what is read ----------------------------------------------------------------------------------------------------


def _messages(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return frame.select(
        "topic", "message_id", "keys",
        F.unix_millis("born_time").alias("born_ms"), F.unix_millis("store_time").alias("stored_ms"),
    )  # fmt: skip


def _trace(spark: SparkSession, reading: Selection, topic: str) -> DataFrame | None:
    """None when there is no such topic, or nothing in it."""
    if not _exists(reading, topic):
        return None
    frame = Selection(topics=(topic,), nameserver=reading.nameserver, begin=reading.begin, options=reading.options)
    return handled_frame(frame.frame(spark, "body"))


def _dead(spark: SparkSession, reading: Selection, groups: Sequence[str]) -> tuple[DeadCause, ...]:
    from pyspark.sql import functions as F  # noqa: N812

    found: list[DeadCause] = []
    for group in groups:
        topic = dead_letter_topic(group)
        if not _exists(reading, topic):
            continue
        letters = Selection(
            topics=(topic,), nameserver=reading.nameserver, begin=reading.begin, end=reading.end,
            options=reading.options,
        ).frame(spark, "store_time", "delivery_attempt", "properties")  # fmt: skip
        told = [F.col("properties").getItem(name) for name in _CAUSES]
        given_up = F.concat(F.lit("given up after "), F.col("delivery_attempt").cast("string"), F.lit(" attempts"))
        origins = [F.col("properties").getItem(name) for name in (names.RETRY_TOPIC, names.DLQ_ORIGIN_TOPIC)]
        rows = letters.groupBy(
            F.coalesce(*origins, F.lit("?")).alias("topic"),
            F.substring(F.coalesce(*told, given_up), 1, 200).alias("cause"),
        ).agg(F.count("*").alias("count"), F.max(F.unix_millis("store_time")).alias("last_ms"))
        found += [DeadCause(group=group, **row.asDict()) for row in rows.collect()]
    return tuple(sorted(found, key=lambda each: (-each.count, each.group, each.cause)))


def _exists(reading: Selection, topic: str) -> bool:
    with _admin(reading) as admin:
        return topic in set(admin.topics())


@contextmanager
def _admin(reading: Selection) -> Iterator[Admin]:
    from pyromq import Admin
    from pyromq.pipeline.connections import client_settings
    from pyromq.pipeline.options import Use, parse_options

    settings = client_settings(parse_options(reading.source_options(), Use.BATCH))
    with Admin(client_settings=settings) as admin:
        yield admin


# --- questions -------------------------------------------------------------------------------------------------------


class _Found:
    """Asks everything at once; what the trace alone knows stays empty without one."""

    def __init__(self, spark: SparkSession, messages: DataFrame, trace: DataFrame | None, tell: Tell) -> None:
        tell(1, _STEPS, "throughput")
        self.throughput = _throughput(messages)
        _, begin, end, width = self.throughput
        tell(2, _STEPS, "latencies")
        self.latencies = _storing(messages)
        self.duplicates = _duplicates(messages)
        self.attempts: tuple[Attempts, ...] = ()
        self.slow_keys: tuple[SlowKey, ...] = ()
        self.handled_twice: tuple[HandledTwice, ...] = ()
        self.lags: tuple[Lag, ...] = ()
        if trace is None:
            return
        handled = trace.persist()
        joined = handled.join(_first_of_each(messages), "message_id").persist()
        try:
            tell(3, _STEPS, "queueing and handling")
            self.latencies += _consuming(joined)
            tell(4, _STEPS, "attempts")
            self.attempts = _attempts(handled)
            self.slow_keys = _slow_keys(handled)
            tell(5, _STEPS, "twice")
            self.handled_twice = _handled_twice(joined)
            tell(6, _STEPS, "lag")
            self.lags = _lags(messages, joined, begin, end, width)
        finally:
            joined.unpersist()
            handled.unpersist()


def _first_of_each(messages: DataFrame) -> DataFrame:
    """A message id may be there twice: producers send again when they do not hear."""
    from pyspark.sql import functions as F  # noqa: N812

    return messages.groupBy("message_id").agg(*(F.min(name).alias(name) for name in ("topic", "born_ms", "stored_ms")))


def _throughput(messages: DataFrame) -> tuple[tuple[Throughput, ...], int, int, int]:
    from pyspark.sql import functions as F  # noqa: N812

    ranges = messages.groupBy("topic").agg(
        F.count("*").alias("messages"), F.min("stored_ms").alias("first_ms"), F.max("stored_ms").alias("last_ms")
    )
    topics = [row.asDict() for row in ranges.orderBy("topic").collect()]
    if not topics:
        return (), 0, 0, 1_000
    begin, end = min(each["first_ms"] for each in topics), max(each["last_ms"] for each in topics)
    width = bucket_width(end - begin)
    counts = _per_bucket(messages, "stored_ms", width, "topic")
    found = []
    for each in topics:
        per_second = {at: count * 1000 / width for at, count in counts.get((each["topic"],), {}).items()}
        span_s = max(1, each["last_ms"] - each["first_ms"]) / 1000
        points = filled(per_second, begin, end, width)
        found.append(Throughput(**each, per_second=round(each["messages"] / span_s, 3), points=points))
    return tuple(found), begin, end, width


def _per_bucket(frame: DataFrame, column: str, width: int, *by: str) -> dict[tuple[str, ...], dict[int, int]]:
    from pyspark.sql import functions as F  # noqa: N812

    bucket = (F.col(column) - F.col(column) % width).alias("bucket")
    found: dict[tuple[str, ...], dict[int, int]] = {}
    for row in frame.groupBy(*by, bucket).count().collect():
        found.setdefault(tuple(row[name] for name in by), {})[row["bucket"]] = row["count"]
    return found


def _percentiles(frame: DataFrame, column: str, what: str, *by: str) -> list[Latency]:
    from pyspark.sql import functions as F  # noqa: N812

    value = F.greatest(F.col(column), F.lit(0))
    rows = frame.where(F.col(column).isNotNull()).groupBy(*by).agg(
        F.count("*").alias("count"),
        F.percentile_approx(value, [0.5, 0.9, 0.99], 10_000).alias("percentiles"),
        F.max(value).alias("max_ms"),
    )  # fmt: skip
    found = []
    for row in rows.orderBy(*by).collect():
        p50, p90, p99 = row["percentiles"]
        named = {"group": "", **{name: row[name] for name in by}}
        found.append(
            Latency(what=what, count=row["count"], p50_ms=p50, p90_ms=p90, p99_ms=p99, max_ms=row["max_ms"], **named)
        )
    return found


def _storing(messages: DataFrame) -> tuple[Latency, ...]:
    return tuple(_percentiles(messages.selectExpr("topic", "stored_ms - born_ms AS ms"), "ms", "storing", "topic"))


def _consuming(joined: DataFrame) -> tuple[Latency, ...]:
    from pyspark.sql import functions as F  # noqa: N812

    by = ("group", "topic")
    done = F.when(F.col("is_success"), F.col("ended_ms"))
    each = joined.groupBy(*by, "message_id").agg(
        (F.min("began_ms") - F.min("stored_ms")).alias("queueing"), (F.min(done) - F.min("born_ms")).alias("end_to_end")
    )
    each = each.persist()
    try:
        return (
            *_percentiles(each, "queueing", "queueing", *by),
            *_percentiles(joined, "cost_ms", "handling", *by),
            *_percentiles(each, "end_to_end", "end to end", *by),
        )
    finally:
        each.unpersist()


def _attempts(handled: DataFrame) -> tuple[Attempts, ...]:
    rows = handled.groupBy("group", "attempt").count().orderBy("group", "attempt").collect()
    return tuple(Attempts(group=row["group"], attempt=row["attempt"], count=row["count"]) for row in rows)


def _slow_keys(handled: DataFrame) -> tuple[SlowKey, ...]:
    from pyspark.sql import functions as F  # noqa: N812

    keyed = handled.where("keys IS NOT NULL AND keys <> '' AND cost_ms IS NOT NULL")
    rows = (
        keyed.select("group", "cost_ms", F.explode(F.split("keys", " ")).alias("key"))
        .groupBy("group", "key")
        .agg(F.count("*").alias("count"), F.avg("cost_ms").alias("avg_ms"), F.max("cost_ms").alias("max_ms"))
        .orderBy(F.desc("max_ms"), F.desc("avg_ms"), "key")
        .limit(_TOP)
    )
    return tuple(SlowKey(**row.asDict()) for row in rows.collect())


def _duplicates(messages: DataFrame) -> tuple[Duplicate, ...]:
    from pyspark.sql import functions as F  # noqa: N812

    keyed = messages.where("keys IS NOT NULL AND keys <> ''")
    rows = (
        keyed.select("topic", F.explode(F.split("keys", " ")).alias("key"))
        .groupBy("topic", "key")
        .count()
        .where("count > 1")
        .orderBy(F.desc("count"), "topic", "key")
        .limit(_TOP)
    )
    return tuple(Duplicate(topic=row["topic"], key=row["key"], count=row["count"]) for row in rows.collect())


def _handled_twice(joined: DataFrame) -> tuple[HandledTwice, ...]:
    each = joined.where("is_success").groupBy("group", "topic", "message_id").count().where("count > 1")
    rows = each.groupBy("group", "topic").count().orderBy("group", "topic").collect()
    return tuple(HandledTwice(group=row["group"], topic=row["topic"], messages=row["count"]) for row in rows)


def _lags(messages: DataFrame, joined: DataFrame, begin: int, end: int, width: int) -> tuple[Lag, ...]:
    """Up to the last message stored or handled, whichever is later."""
    from pyspark.sql import functions as F  # noqa: N812

    distinct = _first_of_each(messages)
    done = joined.where("is_success").groupBy("group", "topic", "message_id").agg(F.min("ended_ms").alias("done_ms"))
    done = done.select("group", "topic", F.greatest("done_ms", F.lit(begin)).alias("done_ms"))
    stored, handled = (
        _per_bucket(distinct, "stored_ms", width, "topic"),
        _per_bucket(done, "done_ms", width, "group", "topic"),
    )
    last = max([end, *(at for counts in handled.values() for at in counts)])
    return tuple(
        lag_of(group, topic, filled(stored.get((topic,), {}), begin, last, width), filled(counts, begin, last, width))
        for (group, topic), counts in sorted(handled.items())
    )
