"""Spark's data source: ``spark.read.format("pyromq")`` and ``spark.readStream…`` over ``batch`` and ``stream``.

Options are checked on the driver; a reader travels to workers with nothing but them and the schema. Clients are opened
where they are used (``connections``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pyromq.errors import ConfigError, MQError
from pyromq.pipeline.arrow.columns import spark_schema
from pyromq.pipeline.core.borders import in_one_sentence
from pyromq.pipeline.core.errors import OptionError, SchemaError
from pyromq.pipeline.core.offsets import OffsetMemory, OffsetTree
from pyromq.pipeline.core.option_texts import LaneChoice
from pyromq.pipeline.core.options import (
    LANE_MARK,
    SourceOptions,
    Use,
    check_options,
    parse_options,
    with_nameservers_known_here,
)
from pyromq.pipeline.payload.lookup import with_schema
from pyromq.pipeline.payload.typed_rows import TypedRows, rows_of, typed_schema
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.reading.stream import Stream
from pyromq.pipeline.spark.batch_reader import BatchReader, Part, Reading
from pyromq.pipeline.spark.daemon import hush_closed_sockets
from pyromq.pipeline.spark.pushed import FilteringReader, is_asked_for

hush_closed_sockets()
NAME = "pyromq"
_PROVIDER = "provider"
_OF_TABLES = frozenset(
    (_PROVIDER, "location", "owner", "comment", "collation", "external", "is_managed_location", "catalog-table")
)
NO_OPTIONS = (
    "there are no options, not even a topic. Spark keeps no options of CREATE TABLE: give them with every query, "
    "SELECT … FROM table WITH (nameserver = 'host:9876', topic = 'orders'), or make a view, "
    "CREATE TEMPORARY VIEW … USING pyromq OPTIONS (…)"
)
NO_LANE = (
    "jvm is not there: Spark needs its jar from the start (pyromq.pipeline.session() gives it, for others there is "
    "pyromq.pipeline.lane_jar()), which takes a Java compiler; it shows no client certificates, asks no URL for "
    "name servers. With auto Python reads where the JVM lane cannot"
)


class PyromqDataSource(DataSource):
    """Topics as tables, from brokers or from store files."""

    @classmethod
    def name(cls) -> str:
        return NAME

    @in_one_sentence
    def schema(self) -> str:
        """Schema of the rows. Raises OptionError: Spark calls it in ``load()``, where mistakes are shown before
        anything is read.
        """
        given = _without_table(self.options)
        if given or _PROVIDER not in self.options:  # a table may be created without options: it keeps none
            options = _in_its_lane(check_options(given), given)
            if options.is_typed:
                return typed_schema(with_schema(options))
        return spark_schema(properties_as_map=self.options.get("properties", "map").strip().lower() != "raw")

    @in_one_sentence
    def reader(self, schema: StructType) -> DataSourceReader:
        if not self.options:
            raise ConfigError(NO_OPTIONS)
        if LANE_MARK in self.options:
            from pyromq.pipeline.spark.jvm.writes import write_planner

            if (planner := write_planner(self.options, schema)) is not None:
                return planner
        options = with_schema(_options(self.options, Use.BATCH))
        stored, typed = columns_of_read(options, schema)
        if options.store_folders:
            from pyromq.pipeline.store_files.source import StoreReader  # knows stores, which others need not load

            return StoreReader(options, stored, typed)
        takes_conditions = options.push_filters and is_asked_for()
        if LANE_MARK in self.options:
            from pyromq.pipeline.spark.jvm import readers

            return (readers.FilteringPlanningReader if takes_conditions else readers.PlanningReader)(options, stored)
        return (FilteringReader if takes_conditions else BatchReader)(options, stored, typed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A mistake is raised by the reader: where Spark makes one, an error of its own would hide ours."""
        try:
            options = with_schema(_options(self.options, Use.STREAM))
            stored, typed = columns_of_read(options, schema)
            if LANE_MARK in self.options:
                from pyromq.pipeline.spark.jvm.readers import PlanningStreamReader

                return PlanningStreamReader(options, stored)
            return StreamReader(options, stored, typed)
        except MQError as error:
            return StreamReader(SourceOptions(), pa.schema([]), refusal=error)

    @in_one_sentence
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyromq.pipeline.sink.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    @in_one_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from pyromq.pipeline.sink.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)


def columns_of_read(options: SourceOptions, schema: StructType) -> tuple[pa.Schema, TypedRows | None]:
    """Columns that are read from brokers, and how those of the query come of them if bodies are decoded.

    Bodies are decoded where rows are read, by Python: a lane that reads without it hands such queries to this one.
    Raises SchemaError, OptionError.
    """
    if not schema.fields:
        raise SchemaError("the schema has no columns")
    asked = to_arrow_schema(schema, timezone="UTC")  # exactly what Spark will compare our batches with
    typed = rows_of(options, asked)
    return (asked, None) if typed is None else (typed.stored, typed)


def _without_table(given: Mapping[str, str]) -> dict[str, str]:
    """CREATE TABLE hands over the options twice, and what else it knows of the table."""
    if _PROVIDER not in given:
        return dict(given)
    return {name: text for name, text in given.items() if name not in _OF_TABLES and not name.startswith("option.")}


def _options(given: Mapping[str, str], use: Use) -> SourceOptions:
    return with_nameservers_known_here(_in_its_lane(parse_options(given, use), given))


def _in_its_lane(options: SourceOptions, given: Mapping[str, str]) -> SourceOptions:
    """Return the options. Raises OptionError where the JVM lane is asked for, and Spark has called us without it."""
    if options.lane is LaneChoice.JVM and LANE_MARK not in given:
        raise OptionError("lane", NO_LANE)
    return options


class StreamReader(Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of one streaming query; ``_stream`` exists where Spark asks for offsets, unless it is refused."""

    _stream: Stream | None = None
    _memory: OffsetMemory

    def __init__(
        self,
        options: SourceOptions,
        schema: pa.Schema,
        typed: TypedRows | None = None,
        *,
        refusal: MQError | None = None,
    ) -> None:
        super().__init__(options, schema, typed)
        self._refusal = refusal

    @property
    def stream(self) -> Stream:
        if self._refusal is not None:
            raise self._refusal
        if self._stream is None:
            self._stream = Stream(self._options, Cluster(self._options, watches=True))
            self._memory = OffsetMemory()
        return self._stream

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Any limit but "all" makes ``latestOffset`` heed the options; Spark knows no limit that is several at once."""
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        return ReadMinRows(options.min_offsets) if options.min_offsets is not None else ReadAllAvailable()

    @in_one_sentence
    def initialOffset(self) -> OffsetTree:  # noqa: N802
        start = self.stream.initial()
        return self._memory.tree_of(start)

    @in_one_sentence
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> OffsetTree:  # noqa: N802
        stream, is_limited = self.stream, not isinstance(limit, ReadAllAvailable)
        return self._memory.tree_of(stream.latest(self._memory.offsets_of(start), limited=is_limited))

    @in_one_sentence
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.stream.freeze()

    @in_one_sentence
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self.stream.report()

    @in_one_sentence
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        stream, read = self.stream, self._memory.offsets_of
        return [Part(ranges) for ranges in stream.partitions(read(start), read(end))]
