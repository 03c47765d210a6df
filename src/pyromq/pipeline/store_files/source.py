"""Batch reader of store folders, without a broker: ours and Apache RocketMQ's have the same commit log.

    spark.read.format("pyromq").option("storePath", "/var/lib/pyromq/broker-a").load()

Tasks read stretches of commit log files and decode whole records as they lie. What lies in the log is what you get,
also what no consumer sees: delayed messages and prepared messages of transactions, under the topics they wait in.
Nothing is written, no lock is taken; a store that is in use may be read, up to what its files hold. Damaged records are
passed over, with a line in the log of the task. The folder must be at the same path for driver and tasks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyromq.client.consumer.rules.subscription import parse_tags
from pyromq.errors import StoreNotFoundError
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.places import AtTime
from pyromq.pipeline.core.workers import settle
from pyromq.pipeline.payload.typed_rows import TypedRows
from pyromq.pipeline.store_files.log import LogStretch, log_files, plan_parts
from pyromq.pipeline.store_files.rows import Chosen, decode_stretch


class StoreReader(DataSourceReader):
    """Plans stretches on the driver, reads them in tasks."""

    def __init__(self, options: SourceOptions, schema: pa.Schema, typed: TypedRows | None = None) -> None:
        self._options = options
        self._schema = schema
        self._typed = typed

    def partitions(self) -> Sequence[InputPartition]:
        options, found = self._options, []
        for folder in options.store_folders:
            files = log_files(Path(folder.path))
            if not files:
                raise StoreNotFoundError(f"{folder.path} has an empty commit log")
            found += [(folder.broker, file) for file in files]
        parts = plan_parts(
            found, os.cpu_count() or 1, count_min=options.min_partitions, count_max=options.max_partitions
        )
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows = self._stored_rows(partition)
        return rows if self._typed is None else self._typed.rows(rows)

    def _stored_rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        stretches: Sequence[LogStretch] = partition.value
        options = self._options
        chosen = chosen_of(options)
        settle()
        for stretch in stretches:
            for batch in decode_stretch(stretch, self._schema, chosen, verify=options.store_verify):
                for start in range(0, batch.num_rows, options.batch_rows):
                    yield batch.slice(start, options.batch_rows)


def chosen_of(options: SourceOptions) -> Chosen:
    """Which records the options ask for."""
    begin, end = options.starting, options.ending
    return Chosen(
        frozenset(options.topics),
        parse_tags(options.tags),
        begin.time_ms if isinstance(begin, AtTime) else None,
        end.time_ms if isinstance(end, AtTime) else None,
    )
