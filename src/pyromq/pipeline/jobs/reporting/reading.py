"""Inputs of a report: messages without their bodies, the trace, what was sent back, and how far groups are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from pyromq.errors import NotFoundError
from pyromq.model import failure
from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic, retry_topic
from pyromq.pipeline.consuming.send_back import DLQ_ERROR
from pyromq.pipeline.jobs.common.selection import Selection
from pyromq.pipeline.jobs.reporting.numbers import AttemptCount, DeadCause
from pyromq.pipeline.jobs.reporting.trace_frame import handled_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pyromq import Admin

COLUMNS: Final = ("topic", "broker", "queue_id", "queue_offset", "message_id", "keys", "born_time", "store_time")
CAUSES_MAX: Final = 20
CAUSE_CHARACTERS: Final = 200
CAUSE_PROPERTIES: Final = (DLQ_ERROR, "error", "ERROR", "exception")  # ours, and what applications like to write


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group stands in a queue of a topic, and how many messages it has left; ``place`` is like ``broker:3``."""

    group: str
    topic: str
    place: str
    offset: int
    behind: int


def messages_frame(spark: SparkSession, reading: Selection) -> DataFrame:
    """``topic, place, queue_offset, message_id, keys, born_ms, stored_ms``."""
    from pyspark.sql import functions as F  # noqa: N812

    return reading.frame(spark, *COLUMNS).select(
        "topic", F.concat_ws(":", "broker", "queue_id").alias("place"), "queue_offset", "message_id", "keys",
        F.unix_millis("born_time").alias("born_ms"), F.unix_millis("store_time").alias("stored_ms"),
    )  # fmt: skip


def trace_frame(spark: SparkSession, reading: Selection, topic: str) -> DataFrame | None:
    """Read a trace topic in the form of ``handled_frame``; None when there is no such topic."""
    if not existing(reading, (topic,)):
        return None
    trace = msgspec.structs.replace(reading, topics=(topic,), end=None)  # it is written after what it reports
    return handled_frame(trace.frame(spark, "body"))


def retried(spark: SparkSession, reading: Selection, groups: Iterable[str]) -> tuple[AttemptCount, ...]:
    """From the second attempt on, by the retry topics of groups: for those that wrote no trace."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = _sent_back(spark, reading, {retry_topic(group): group for group in groups})
    if frame is None:
        return ()
    again = frame.where("delivery_attempt > 0").groupBy("group", (F.col("delivery_attempt") + 1).alias("attempt"))
    rows = again.count().orderBy("group", "attempt").collect()
    return tuple(AttemptCount(group=row["group"], attempt=row["attempt"], count=row["count"]) for row in rows)


def dead_causes(spark: SparkSession, reading: Selection, groups: Iterable[str]) -> tuple[DeadCause, ...]:
    """By error, the most frequent first; many of them end with one for all the others."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = _sent_back(spark, reading, {dead_letter_topic(group): group for group in groups})
    if frame is None:
        return ()
    letters = frame.withColumns(_reported_columns())
    by_cause = F.when(F.col("stack") == "", F.col("cause")).otherwise(F.lit(""))
    numbers = F.count("*").alias("count"), F.min("seen_first").alias("first_ms"), F.max("seen_last").alias("last_ms")
    newest = F.max_by("cause", "seen_last").alias("cause")
    by_error = letters.groupBy("group", "topic", "error_class", "stack", by_cause.alias("key")).agg(*numbers, newest)
    ordered = by_error.drop("key").orderBy(F.desc("count"), "group", "cause")
    found = [DeadCause(**row.asDict()) for row in ordered.limit(CAUSES_MAX).collect()]
    if len(found) < CAUSES_MAX:
        return tuple(found)
    (whole,) = letters.agg(*numbers).collect()
    others = whole["count"] - sum(each.count for each in found)
    times = {"first_ms": whole["first_ms"], "last_ms": whole["last_ms"]}
    rest = DeadCause(group="", topic="", cause="all other causes", count=others, **times)
    return (*found, rest) if others else tuple(found)


def _reported_columns() -> dict[str, Column]:
    """``error_class, stack, cause, seen_first, seen_last``: what a dead letter reports of its last error."""
    from pyspark.sql import functions as F  # noqa: N812

    def told(name: str) -> Column:
        return F.col("properties").getItem(name)

    is_story = told(failure.COUNT).isNotNull()
    error = F.when(is_story, F.concat_ws(": ", told(failure.CLASS), told(failure.TEXT)))
    given_up = F.concat(F.lit("given up after "), F.col("delivery_attempt").cast("string"), F.lit(" attempts"))
    cause = F.coalesce(*(told(name) for name in CAUSE_PROPERTIES), error, given_up)
    stored = F.unix_millis("store_time")
    last = F.coalesce(told(failure.TIME).try_cast("bigint"), stored)
    is_same = told(failure.FIRST_STACK) == told(failure.STACK)
    return {
        "error_class": F.when(is_story, F.coalesce(told(failure.CLASS), F.lit(""))).otherwise(F.lit("")),
        "stack": F.when(is_story, F.coalesce(told(failure.STACK), F.lit(""))).otherwise(F.lit("")),
        "cause": F.substring(cause, 1, CAUSE_CHARACTERS),
        "seen_first": F.coalesce(F.when(is_same, told(failure.FIRST_TIME).try_cast("bigint")), last),
        "seen_last": last,
    }


def _sent_back(spark: SparkSession, reading: Selection, groups: Mapping[str, str]) -> DataFrame | None:
    """``group, topic, store_time, delivery_attempt, properties`` from retry or dead-letter topics and their groups.

    ``topic`` is where a message was sent first: what comes from other topics than those of the report is not there.
    None where no such topic exists.
    """
    from pyspark.sql import functions as F  # noqa: N812

    known = sorted(existing(reading, groups))
    if not known:
        return None
    chosen = msgspec.structs.replace(reading, topics=tuple(known))
    frame = chosen.frame(spark, "topic", "store_time", "delivery_attempt", "properties")
    named = F.create_map(*(F.lit(part) for topic in known for part in (topic, groups[topic])))
    origins = [F.col("properties").getItem(name) for name in (names.RETRY_TOPIC, names.DLQ_ORIGIN_TOPIC)]
    first = F.coalesce(*origins, F.lit("?"))
    plain = F.when(first.startswith("%"), first).otherwise(F.substring_index(first, "%", -1))  # without a namespace
    return frame.withColumns({"group": named[F.col("topic")], "topic": plain}).where(
        F.col("topic").isin("?", *reading.topics)
    )


def committed_offsets(reading: Selection, groups: Iterable[str], topics: Collection[str]) -> list[Committed]:
    """Offsets that groups committed in those of the topics that they consume, by what brokers know."""
    found = []
    with _admin(reading) as admin:
        for group in groups:
            try:
                queues = admin.groups.lag(group)
            except NotFoundError:
                continue
            found += [
                Committed(
                    group=group,
                    topic=queue.topic,
                    place=f"{queue.broker}:{queue.number}",
                    offset=progress.consumer_offset,
                    behind=max(0, progress.broker_offset - progress.consumer_offset),
                )
                for queue, progress in queues.items()
                if queue.topic in topics
            ]
    return found


def existing(reading: Selection, topics: Collection[str]) -> set[str]:
    with _admin(reading) as admin:
        return set(topics) & set(admin.topics.names())


@contextmanager
def _admin(reading: Selection) -> Iterator[Admin]:
    from pyromq import Admin
    from pyromq.pipeline.core.connections import client_settings
    from pyromq.pipeline.core.options import Use, parse_options

    settings = client_settings(parse_options(reading.source_options(), Use.BATCH))
    with Admin(client_settings=settings) as admin:
        yield admin
