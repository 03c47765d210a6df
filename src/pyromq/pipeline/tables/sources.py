"""Where the rows of a table come from: queues of a topic, a store folder, files of Parquet.

What a table holds is settled when it is opened: queues end where they ended then, folders have the files they had. So a
query that reads a table twice sees the same rows, and an answer can be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from pyromq.errors import NO_BROKER, ConfigError, ConnectFailedError, StoreNotFoundError, TopicNotFoundError
from pyromq.model.namespaces import unwrap
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.errors import SourceUnreachableError
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange, total
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.places import AtOffsets, RelativeOffset
from pyromq.pipeline.reading.batch import plan_batch
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.pipeline.reading.filters import store_times_ms
from pyromq.pipeline.reading.pulls import read_ranges
from pyromq.pipeline.tables.bounds import SCHEMA, columns_in, conditions_of, may_hold
from pyromq.pipeline.tables.errors import PackageMissingError
from pyromq.pipeline.tables.scanning import RowSource
from pyromq.pipeline.tables.typed_columns import TypedColumns

_STRETCH_BYTES: Final = 64 << 20
_ROWS_AT_ONCE: Final = 5_000
_FILES_AHEAD, _BATCHES_AHEAD = 1, 2  # what Arrow may read before it is asked for
_ARCHIVED: Final = pa.schema([("topic", pa.string()), ("date", pa.date32()), ("hour", pa.int32())])
"""What the names of an archive's folders say."""
_ARCHIVE_ORDER: Final = [*SCHEMA.names, "date", "hour"]


class ReadCount:
    """How many messages a query has read, of how many; several threads count."""

    def __init__(self, tell: Callable[[int, int | None], None]) -> None:
        self._tell = tell
        self._lock = Lock()
        self._done = 0
        self._total: int | None = 0

    def expect(self, count: int | None) -> None:
        """So many more will be read; None where nobody knows."""
        with self._lock:
            self._total = None if count is None or self._total is None else self._total + count

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            done, among = self._done, self._total
        self._tell(done, among)


class TopicRows:
    """Messages of a topic, from the first that its queues hold to the last that they held when it was opened.

    ``typed`` are the columns that its schema adds.
    """

    def __init__(self, options: SourceOptions, count: ReadCount, typed: TypedColumns | None = None) -> None:
        """Note where the queues end. Raises as ``held_now`` does."""
        self._typed = typed
        self.schema = SCHEMA if typed is None else typed.schema
        held = held_now(options)
        if options.ending is RelativeOffset.LATEST:
            options = replace(options, ending=AtOffsets(tuple((queue, there.end) for queue, there in held.items())))
        self._options = options
        self._count = count

    def ranges(self, condition: Any) -> list[OffsetRange]:
        """The offsets that have to be read for a condition."""
        options = self._options
        bounds = conditions_of(condition, self.schema) if condition is not None else []
        planned = plan_batch(options, Cluster(options, asks_anew=True), bounds)
        found = [each for partition in planned for each in partition]
        if condition is None:
            return found
        name_of = partial(unwrap, options.namespace)
        return [each for each in found if may_hold(condition, name_of(each.queue.topic), each, self.schema)]

    def batches(self, columns: Sequence[str], condition: Any) -> Iterator[pa.RecordBatch]:
        ranges = self.ranges(condition)
        self._count.expect(total(ranges))
        schema = _schema_for(columns, condition, self.schema)
        typed = None if self._typed is None else self._typed.rows_with(schema)
        stored = schema if typed is None else typed.stored
        read = self._counted(read_ranges(connect(self._options), self._options, ranges, stored))
        for batch in read if typed is None else typed.rows(read):
            yield from passing_rows(batch, columns, condition)

    def _counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._count.add(batch.num_rows)
            yield batch


def held_now(options: SourceOptions) -> Mapping[QueueId, HeldRange]:
    """What the queues of the topics hold. Raises TopicNotFoundError, ConnectFailedError where no broker is registered,
    and what the first attempt to connect raises: somebody waits for an answer, so it is not tried again.
    """
    cluster = Cluster(replace(options, retry_ms=0), asks_anew=True)
    try:
        return cluster.held()
    except SourceUnreachableError as error:
        raise error.__cause__ or error from None
    except TopicNotFoundError as error:
        nameservers = cluster.connected.client.nameservers
        if not cluster.connected.call(nameservers.knows_no_broker(timeout_ms=options.request_ms)):
            raise
        raise ConnectFailedError(NO_BROKER) from error


class StoreRows:
    """All that lies in the commit log of a store folder."""

    schema = SCHEMA

    def __init__(self, folder: Path, count: ReadCount) -> None:
        """List the files of the log. Raises StoreNotFoundError."""
        from pyromq.pipeline.store_files.log import log_files, plan_stretches  # knows stores: others need not load it

        self._stretches = plan_stretches(log_files(folder), _STRETCH_BYTES)
        self._count = count

    def batches(self, columns: Sequence[str], condition: Any) -> Iterator[pa.RecordBatch]:
        from pyromq.pipeline.store_files.rows import Chosen, decode_stretch

        begin_ms, end_ms = store_times_ms(conditions_of(condition)) if condition is not None else (None, None)
        chosen, schema = Chosen(begin_ms=begin_ms, end_ms=end_ms), _schema_for(columns, condition)
        self._count.expect(None)
        for stretch in self._stretches:
            for batch in decode_stretch(stretch, schema, chosen):
                self._count.add(batch.num_rows)
                yield from passing_rows(batch, columns, condition)


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of Parquet files, which Arrow filters by itself; ``schema`` gives the order of the columns."""

    files: ds.Dataset
    schema: pa.Schema
    count: ReadCount

    def batches(self, columns: Sequence[str], condition: Any) -> Iterator[pa.RecordBatch]:
        self.count.expect(None)
        scan = self.files.scanner(
            columns=list(columns), filter=condition, batch_size=_ROWS_AT_ONCE,
            batch_readahead=_BATCHES_AHEAD, fragment_readahead=_FILES_AHEAD,
        )  # fmt: skip
        for batch in scan.to_reader():
            self.count.add(batch.num_rows)
            yield batch


def folder_rows(name: str, folder: Path, count: ReadCount) -> RowSource:
    """The table in a folder, by what lies in it. Raises StoreNotFoundError, PackageMissingError, ConfigError."""
    if (folder / "commitlog").is_dir():
        return StoreRows(folder, count)
    if (folder / "_delta_log").is_dir():
        return _delta_rows(folder, count)
    if (folder / "catalog.db").is_file():
        return _iceberg_rows(folder, count)
    if not folder.is_dir():
        raise StoreNotFoundError(f"table {name}: there is no folder {folder}")
    if next(folder.rglob("*.parquet"), None) is None:
        text = "neither a commit log, nor a Delta or Iceberg table, nor Parquet files"
        raise ConfigError(f"table {name}: {folder} holds {text}")
    if next(folder.glob("topic=*"), None) is None:
        files = ds.dataset(folder, format="parquet", partitioning="hive")
        return FileRows(files, files.schema, count)
    files = ds.dataset(folder, format="parquet", partitioning=ds.partitioning(_ARCHIVED, flavor="hive"))
    names = sorted(files.schema.names, key=_ARCHIVE_ORDER.index)
    return FileRows(files, pa.schema([files.schema.field(name) for name in names]), count)


def _delta_rows(folder: Path, count: ReadCount) -> FileRows:
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise PackageMissingError("deltalake", "delta", f"the Delta table in {folder}") from error
    files = DeltaTable(folder).to_pyarrow_dataset()
    return FileRows(files, files.schema, count)


def _iceberg_rows(folder: Path, count: ReadCount) -> FileRows:
    from pyromq.pipeline.tables.iceberg import IcebergTable

    files = ds.dataset(IcebergTable(folder, creates=False).files(), schema=SCHEMA, format="parquet")
    return FileRows(files, SCHEMA, count)


def _schema_for(columns: Sequence[str], condition: Any, schema: pa.Schema = SCHEMA) -> pa.Schema:
    """What has to be decoded: the columns, and those that the condition looks at."""
    others = columns_in(condition, schema) if condition is not None else []
    return pa.schema([schema.field(name) for name in dict.fromkeys((*columns, *others))])


def passing_rows(batch: pa.RecordBatch, columns: Sequence[str], condition: Any) -> Iterator[pa.RecordBatch]:
    """The rows of a batch that meet the condition."""
    if condition is None:
        yield batch.select(list(columns))
        return
    found = pa.Table.from_batches([batch]).filter(condition).select(list(columns))
    yield from (part for part in found.to_batches() if part.num_rows)
