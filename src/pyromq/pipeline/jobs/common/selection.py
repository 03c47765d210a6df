"""Selection of messages: topics between two positions, filtered by brokers and by Spark, as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyromq.errors import ConfigError
from pyromq.pipeline.arrow.columns import spark_type
from pyromq.pipeline.core.offsets import to_tree
from pyromq.pipeline.core.options import Use, parse_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader


ORDER: Final = ("store_time", "broker", "queue_id", "queue_offset")
ROWS_AT_ONCE: Final = 20_000


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of some topics.

    ``begin`` and ``end`` are times in milliseconds, or offsets ``{"orders": {"broker-a": {"0": 123}}}``; None: all
    there is. ``tags`` and ``sql`` are filters that brokers know, ``where`` is a condition of Spark SQL over the
    columns. ``options`` are further ones of the source: credentials, sizes.
    """

    topics: tuple[str, ...]
    nameserver: str = ""
    begin: int | Mapping[str, object] | None = None
    end: int | Mapping[str, object] | None = None
    tags: str = ""
    sql: str = ""
    where: str = ""
    options: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        if isinstance(self.topics, str) or not self.topics:
            raise ConfigError("say which topics to read: topics=('orders',)")

    def source_options(self) -> dict[str, str]:
        """Options of the source, but for the places: those differ between batches and streams."""
        found = {"topic": ",".join(self.topics), "nameserver": self.nameserver, "tags": self.tags, "sql": self.sql}
        return {name: text for name, text in found.items() if text} | dict(self.options)

    def batch_options(self) -> dict[str, str]:
        """Options of the source for a batch between the places."""
        places = (("starting", self.begin), ("ending", self.end))
        return self.source_options() | dict(_place(name, place) for name, place in places if place is not None)

    def frame(self, spark: SparkSession, *columns: str) -> DataFrame:
        """Read the selection as a batch; only these columns are read, all when none are named. Raises what the source
        raises.
        """
        reader: DataFrameReader = spark.read.format("pyromq").options(**self.batch_options())
        if columns:
            reader = reader.schema(schema_of(*columns))
        frame = reader.load()
        return frame.where(self.where) if self.where else frame

    def frozen(self) -> Selection:
        """Return the selection without what is stored from now on, so that it can be read twice. Raises what the source
        raises.
        """
        from pyromq.pipeline.reading.cluster import Cluster

        options = parse_options(self.source_options(), Use.BATCH)
        if self.end is not None or options.store_folders:
            return self
        ends = {queue: held.end for queue, held in Cluster(options).held().items()}
        return msgspec.structs.replace(self, end=to_tree(ends))

    def require_properties_as_map(self) -> None:
        """For jobs that send or count by properties. Raises ConfigError."""
        if any(name.lower() == "properties" and text.lower() != "map" for name, text in self.options.items()):
            raise ConfigError("this job needs the properties of messages as a map: leave the option properties out")

    def stream(self, spark: SparkSession, group: str, *, rows_max: int | None = None) -> DataFrame:
        """Read the selection as a stream that begins at ``begin``, or else with the oldest message, and never ends by
        itself.
        """
        frame = self.stream_reader(spark, "pyromq", group, rows_max=rows_max).load()
        return frame.where(self.where) if self.where else frame

    def stream_reader(
        self, spark: SparkSession, name: str, group: str, *, rows_max: int | None = None
    ) -> DataStreamReader:
        if self.end is not None:
            raise ConfigError("a stream has no end: leave end out")
        reader: DataStreamReader = spark.readStream.format(name).options(**self.source_options()).option("group", group)
        place = _place("starting", self.begin) if self.begin is not None else ("startingOffsets", "earliest")
        reader = reader.option(*place)
        return reader if rows_max is None else reader.option("maxOffsetsPerTrigger", str(rows_max))


def reads_folders(selection: Selection) -> bool:
    """Whether messages come from store folders. Raises ConfigError."""
    return bool(parse_options(selection.source_options(), Use.BATCH).store_folders)


def in_order(frame: DataFrame, count: int) -> Iterator[Any]:
    """Rows in the order they were stored, a part at a time in the driver; ``count`` is about how many there are.

    The frame has the columns ``ORDER``.
    """
    parts = max(1, -(-count // ROWS_AT_ONCE))
    ordered = frame.repartitionByRange(parts, *ORDER).sortWithinPartitions(*ORDER)
    rows: Iterator[Any] = ordered.toLocalIterator()
    return rows


def absolute(path: str) -> str:
    """Make a path without scheme absolute: the JVM may have been started in another folder than ours."""
    return path if "://" in path or not path else str(Path(path).absolute())


def schema_of(*columns: str) -> str:
    return ", ".join(f"{name} {spark_type(name)}" for name in columns)


def _place(which: str, place: int | Mapping[str, object]) -> tuple[str, str]:
    if isinstance(place, int):
        return f"{which}Timestamp", str(place)
    return f"{which}Offsets", json.dumps(place)
