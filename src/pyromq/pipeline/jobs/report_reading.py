"""What a report reads: messages without their bodies, the trace, dead letters, and how far groups are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from pyromq.client.errors import NotFoundError
from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic
from pyromq.pipeline.consume_returns import DLQ_ERROR
from pyromq.pipeline.jobs.report_numbers import DeadCause
from pyromq.pipeline.jobs.topics import Selection
from pyromq.pipeline.jobs.trace_frame import handled_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyromq import Admin

_COLUMNS: Final = ("topic", "broker", "queue_id", "queue_offset", "message_id", "keys", "born_time", "store_time")
_CAUSES: Final = (DLQ_ERROR, "error", "ERROR", "exception")  # ours, and what applications like to write


class Committed(msgspec.Struct, frozen=True):
    """Where a group stands in a queue of a topic; ``place`` is the queue as ``broker:3``."""

    group: str
    topic: str
    place: str
    offset: int


def messages_frame(spark: SparkSession, reading: Selection) -> DataFrame:
    """``topic, place, queue_offset, message_id, keys, born_ms, stored_ms``."""
    from pyspark.sql import functions as F  # noqa: N812

    return reading.frame(spark, *_COLUMNS).select(
        "topic", F.concat_ws(":", "broker", "queue_id").alias("place"), "queue_offset", "message_id", "keys",
        F.unix_millis("born_time").alias("born_ms"), F.unix_millis("store_time").alias("stored_ms"),
    )  # fmt: skip


def trace_frame(spark: SparkSession, reading: Selection, topic: str) -> DataFrame | None:
    """As ``handled_frame`` has it; None when there is no such topic."""
    if not exists(reading, topic):
        return None
    trace = msgspec.structs.replace(reading, topics=(topic,), end=None)  # it is written after what it tells of
    return handled_frame(trace.frame(spark, "body"))


def dead_causes(spark: SparkSession, reading: Selection, groups: Sequence[str]) -> tuple[DeadCause, ...]:
    """The most frequent first."""
    from pyspark.sql import functions as F  # noqa: N812

    found: list[DeadCause] = []
    for group in groups:
        topic = dead_letter_topic(group)
        if not exists(reading, topic):
            continue
        letters = msgspec.structs.replace(reading, topics=(topic,))
        frame = letters.frame(spark, "store_time", "delivery_attempt", "properties")
        told = [F.col("properties").getItem(name) for name in _CAUSES]
        given_up = F.concat(F.lit("given up after "), F.col("delivery_attempt").cast("string"), F.lit(" attempts"))
        origins = [F.col("properties").getItem(name) for name in (names.RETRY_TOPIC, names.DLQ_ORIGIN_TOPIC)]
        rows = frame.groupBy(
            F.coalesce(*origins, F.lit("?")).alias("topic"),
            F.substring(F.coalesce(*told, given_up), 1, 200).alias("cause"),
        ).agg(F.count("*").alias("count"), F.max(F.unix_millis("store_time")).alias("last_ms"))
        found += [DeadCause(group=group, **row.asDict()) for row in rows.collect()]
    return tuple(sorted(found, key=lambda each: (-each.count, each.group, each.cause)))


def committed_offsets(reading: Selection, pairs: Iterable[tuple[str, str]]) -> list[Committed]:
    """Of (group, topic) pairs, by what brokers know; groups that they do not know have none."""
    found = []
    with _admin(reading) as admin:
        for group, topic in pairs:
            try:
                queues = admin.lag(group, topic)
            except NotFoundError:
                continue
            found += [
                Committed(group, topic, f"{queue.broker}:{queue.number}", progress.consumer_offset)
                for queue, progress in queues.items()
            ]
    return found


def exists(reading: Selection, topic: str) -> bool:
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
