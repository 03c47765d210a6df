"""Readers as Spark has them: partitions planned on the driver, read on workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyromq.pipeline.core.borders import in_one_sentence
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.payload.typed_rows import TypedRows
from pyromq.pipeline.reading.batch import plan_batch
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.reading.filters import Condition
from pyromq.pipeline.reading.plan import Partition
from pyromq.pipeline.reading.pulls import read_ranges


class Part(InputPartition):
    """Ranges that one task reads."""

    def __init__(self, ranges: Partition) -> None:
        super().__init__(ranges)


class Reading:
    """What both readers do on workers: read what is stored, and make typed rows of it if the query asks for them."""

    def __init__(self, options: SourceOptions, schema: pa.Schema, typed: TypedRows | None = None) -> None:
        self._options = options
        self._schema = schema
        self._typed = typed

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        rows = self.stored_rows(partition)
        return rows if self._typed is None else self._typed.rows(rows)

    def stored_rows(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read the ranges of a partition. Spark makes up a partition without value when there is none at all."""
        ranges: Partition = (partition.value if partition is not None else None) or ()
        return read_ranges(connect(self._options), self._options, ranges, self._schema)


class BatchReader(Reading, DataSourceReader):
    """Reader of one batch read."""

    @in_one_sentence
    def partitions(self) -> Sequence[InputPartition]:
        cluster = Cluster(self._options, asks_anew=True)
        return [Part(ranges) for ranges in plan_batch(self._options, cluster, self.conditions())]

    def conditions(self) -> Sequence[Condition]:
        """Those that every row meets that is read."""
        return ()
