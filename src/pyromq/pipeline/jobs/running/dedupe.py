"""``dedupe``: a topic without repetitions, by business key, exactly once, into Parquet or another topic.

A key is remembered for ``within`` after its first message was read; what comes with the same key in that time is left
out. The time is that of reading (Spark keeps it with each batch, so a batch that runs again decides the same): by
times of messages, those of a queue that is behind others would be too late and be dropped. Messages without key pass.
The order of rows behind the shuffle differs from run to run, so a row for a topic is known to the sink by its key and
by the time of reading instead (``unique_key``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Unpack

from pyromq.errors import ConfigError
from pyromq.pipeline.arrow.columns import COLUMNS
from pyromq.pipeline.core.keywords import settings_from
from pyromq.pipeline.jobs.common.html import ShownSummary
from pyromq.pipeline.jobs.common.queries import drain, failures_in_words, rows_read, trigger_of
from pyromq.pipeline.jobs.common.selection import Selection, absolute
from pyromq.pipeline.jobs.common.stopwatch import Stopwatch
from pyromq.pipeline.jobs.running.options import DedupeOptions, DedupeSettings
from pyromq.pipeline.jobs.running.sinks import UNIQUE_KEY, to_message_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_KEY: Final = "__key"
_READ: Final = "__read_time"


class Deduped(ShownSummary, frozen=True, kw_only=True):
    """Summary of a dedupe; ``dropped`` were repetitions."""

    to: str
    read: int
    written: int
    dropped: int
    took_s: float


def dedupe(spark: SparkSession, selection: Selection, **options: Unpack[DedupeOptions]) -> Deduped:
    """``key`` is an expression of Spark SQL: ``keys``, or ``get_json_object(cast(body AS string), '$.order')``.

    Raises ConfigError, JobFailedError, what the source raises, and TypeError for an option that does not exist.
    """
    settings = settings_from(DedupeSettings, options, "dedupe")
    watch = Stopwatch(settings.clock)
    path, to_topic = absolute(settings.path), settings.to_topic
    if bool(path) == bool(to_topic):
        raise ConfigError("name one target: a folder (path) or a topic (to_topic)")
    if to_topic in selection.topics:
        raise ConfigError(
            f"topic {to_topic} is read by this job, so what it writes there would be read again, endlessly"
        )
    checkpoint = absolute(settings.checkpoint) or _checkpoint_for(path)
    with failures_in_words():
        once = _drop_repetitions(selection.stream(spark, settings.group, rows_max=settings.rows_per_batch), settings)
        writer: DataStreamWriter = (
            once.writeStream.format("parquet").option("path", path)
            if path
            else to_message_columns(once)
            .writeStream.format("pyromq")
            .options(**{**selection.options, "topic": to_topic, "mode": "idempotent"})
            .options(**({"nameserver": selection.nameserver} if selection.nameserver else {}))
        )
        writer = writer.outputMode("append").option("checkpointLocation", checkpoint)
        query = writer.trigger(**trigger_of(settings.follow_s)).start()
    dropped = _Dropped()
    read = drain(query, settings.tell, dropped.count, endless=settings.follow_s is not None)
    return Deduped(
        to=path or to_topic,
        read=read,
        written=read - dropped.total,
        dropped=dropped.total,
        took_s=watch.seconds,
    )


def _drop_repetitions(messages: DataFrame, settings: DedupeSettings) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    # a message without key gets one that no other has: its place in the log
    own = F.concat(F.lit("\0"), F.col("offset_message_id"))
    key = F.nullif(F.expr(settings.key).cast("string"), F.lit(""))
    keyed = messages.withColumn(_KEY, F.coalesce(key, own))
    timed = keyed.withColumn(_READ, F.current_timestamp()).withWatermark(_READ, settings.within)
    once = timed.dropDuplicatesWithinWatermark([_KEY])
    if not settings.to_topic:
        return once.select(*COLUMNS)
    # the same key may come again when it is forgotten: that is another row, of another batch
    unique = F.concat_ws("\0", F.unix_micros(_READ).cast("string"), F.col(_KEY))
    return once.select(*COLUMNS, unique.alias(UNIQUE_KEY))


class _Dropped:
    """What the operator says of each batch it left out; Spark reports a batch more than once."""

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
        raise ConfigError("name a folder for the checkpoint: a topic has none")
    return path.rstrip("/") + "/_checkpoint"
