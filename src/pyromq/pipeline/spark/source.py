"""Spark's data source: ``spark.read.format("pyromq")`` and ``spark.readStream…`` over ``batch`` and ``stream``.

Options are checked on the driver; a reader travels to workers with nothing but them and the schema. Clients are opened
where they are used (``connections``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

from pyromq.errors import ConfigError
from pyromq.pipeline.arrow.columns import check_schema, spark_schema
from pyromq.pipeline.core.borders import in_one_sentence
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.errors import SchemaError
from pyromq.pipeline.core.offsets import OffsetTree, to_tree
from pyromq.pipeline.core.options import SourceOptions, Use, check_options, parse_options, with_nameservers_known_here
from pyromq.pipeline.reading.batch import plan_batch
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.reading.plan import Partition
from pyromq.pipeline.reading.pulls import read_ranges
from pyromq.pipeline.reading.stream import Stream, offsets_of
from pyromq.pipeline.spark.daemon import hush_closed_sockets

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
            check_options(given)
        return spark_schema(properties_as_map=self.options.get("properties", "map").strip().lower() != "raw")

    @in_one_sentence
    def reader(self, schema: StructType) -> DataSourceReader:
        if not self.options:
            raise ConfigError(NO_OPTIONS)
        options = _options(self.options, Use.BATCH)
        if options.store_folders:
            from pyromq.pipeline.store_files.source import StoreReader  # knows stores, which others need not load

            return StoreReader(options, arrow_schema(schema))
        return BatchReader(options, arrow_schema(schema))

    @in_one_sentence
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return StreamReader(_options(self.options, Use.STREAM), arrow_schema(schema))

    @in_one_sentence
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyromq.pipeline.sink.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    @in_one_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from pyromq.pipeline.sink.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Exactly what Spark will compare our batches with. Raises SchemaError."""
    if not schema.fields:
        raise SchemaError("the schema has no columns")
    found = to_arrow_schema(schema, timezone="UTC")
    check_schema(found)
    return found


def _without_table(given: Mapping[str, str]) -> dict[str, str]:
    """CREATE TABLE hands over the options twice, and what else it knows of the table."""
    if _PROVIDER not in given:
        return dict(given)
    return {name: text for name, text in given.items() if name not in _OF_TABLES and not name.startswith("option.")}


def _options(given: Mapping[str, str], use: Use) -> SourceOptions:
    return with_nameservers_known_here(parse_options(given, use))


class Part(InputPartition):
    """Ranges that one task reads."""

    def __init__(self, ranges: Partition) -> None:
        super().__init__(ranges)


class _Reading:
    """What both readers do on workers."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Spark makes up a partition without value when there is none at all."""
        ranges: Partition = (partition.value if partition is not None else None) or ()
        return read_ranges(connect(self._options), self._options, ranges, self._schema)


class BatchReader(_Reading, DataSourceReader):
    """Reader of one batch read."""

    @in_one_sentence
    def partitions(self) -> Sequence[InputPartition]:
        return [Part(ranges) for ranges in plan_batch(self._options, Cluster(self._options, asks_anew=True))]


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of one streaming query; ``_stream`` exists only where Spark asks for offsets."""

    _stream: Stream | None = None

    @property
    def stream(self) -> Stream:
        if self._stream is None:
            self._stream = Stream(self._options, Cluster(self._options))
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
        return to_tree(self.stream.initial())

    @in_one_sentence
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> OffsetTree:  # noqa: N802
        return to_tree(self.stream.latest(offsets_of(start), limited=not isinstance(limit, ReadAllAvailable)))

    @in_one_sentence
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.stream.freeze()

    @in_one_sentence
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self.stream.report()

    @in_one_sentence
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [Part(ranges) for ranges in self.stream.partitions(offsets_of(start), offsets_of(end))]
