"""``dedupe``: a topic without repetitions, by business key, exactly once, into Parquet or another topic.

A key is remembered for ``within`` after its first message was read; what comes with the same key in that time is left
out. The time is that of reading (Spark keeps it with each batch, so a batch that runs again decides the same): by
times of messages, those of a queue that is behind others would be too late and be dropped. Messages without key pass.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyromq.errors import ConfigError
from pyromq.pipeline.arrow.columns import COLUMNS
from pyromq.pipeline.jobs.common.bars import Tell, silent
from pyromq.pipeline.jobs.common.queries import drain, failures_in_words, rows_read
from pyromq.pipeline.jobs.common.selection import Selection, absolute
from pyromq.pipeline.jobs.running.sinks import to_message_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

GROUP: Final = "pyromq-dedupe"
_KEY, _READ = "__key", "__read_time"


class Deduped(msgspec.Struct, frozen=True, kw_only=True):
    """``dropped`` were repetitions."""

    to: str
    read: int
    written: int
    dropped: int
    took_s: float


def dedupe(
    spark: SparkSession,
    selection: Selection,
    *,
    key: str = "keys",
    within: str = "1 hour",
    path: str = "",
    to_topic: str = "",
    checkpoint: str = "",
    group: str = GROUP,
    rows_per_batch: int | None = 500_000,
    follow_s: float | None = None,
    tell: Tell = silent,
) -> Deduped:
    """``key`` is an expression of Spark SQL: ``keys``, or ``get_json_object(cast(body AS string), '$.order')``.

    Raises ConfigError, JobFailedError, what the source raises.
    """
    from pyspark.sql import functions as F  # noqa: N812

    started = time.monotonic()
    if bool(path) == bool(to_topic):
        raise ConfigError("say where to: a folder (path) or a topic (to_topic), one of them")
    if to_topic in selection.topics:
        raise ConfigError(f"topic {to_topic} is read: what is written to it would be read again, without an end")
    path = absolute(path)
    checkpoint = absolute(checkpoint) or _checkpoint_for(path)
    with failures_in_words():
        messages = selection.stream(spark, group, rows_max=rows_per_batch)
        # a message without key is its own: its place in the log is nobody else's
        own = F.concat(F.lit("\0"), F.col("offset_message_id"))
        keyed = messages.withColumn(_KEY, F.coalesce(F.nullif(F.expr(key).cast("string"), F.lit("")), own))
        timed = keyed.withColumn(_READ, F.current_timestamp()).withWatermark(_READ, within)
        once = timed.dropDuplicatesWithinWatermark([_KEY]).select(*COLUMNS)
        writer: DataStreamWriter = (
            once.writeStream.format("parquet").option("path", path)
            if path
            else to_message_columns(once)
            .writeStream.format("pyromq")
            .options(**{**selection.options, "topic": to_topic, "mode": "idempotent"})
            .options(**({"nameserver": selection.nameserver} if selection.nameserver else {}))
        )
        writer = writer.outputMode("append").option("checkpointLocation", checkpoint)
        writer = (
            writer.trigger(availableNow=True)
            if follow_s is None
            else writer.trigger(processingTime=f"{int(follow_s * 1000)} milliseconds")
        )
        query = writer.start()
    dropped = _Dropped()
    read = drain(query, tell, dropped.count, endless=follow_s is not None)
    return Deduped(
        to=path or to_topic,
        read=read,
        written=read - dropped.total,
        dropped=dropped.total,
        took_s=round(time.monotonic() - started, 3),
    )


class _Dropped:
    """What the operator says of each batch it left out; Spark tells of a batch more than once."""

    def __init__(self) -> None:
        self._by_batch: dict[int, int] = {}

    @property
    def total(self) -> int:
        return sum(self._by_batch.values())

    def count(self, progress: Any) -> int:
        operators = progress["stateOperators"] or []
        found = sum(int(each["customMetrics"].get("numDroppedDuplicateRows", 0)) for each in operators)
        batch = progress["batchId"]
        self._by_batch[batch] = max(found, self._by_batch.get(batch, 0))
        return rows_read(progress)


def _checkpoint_for(path: str) -> str:
    if not path:
        raise ConfigError("say where the checkpoint shall be: a topic has no folder for it")
    return path.rstrip("/") + "/_checkpoint"
