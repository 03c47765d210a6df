"""Parquet files of one task: rows in, staged files out, one for each topic and hour.

Rows come queue by queue, and times within a queue hardly go back, so few files are open at a time; when there are
many, the one that was left alone longest is closed, and a later row for it begins another.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyromq.pipeline.jobs.archiving.files import ArchiveFolder, StagedFile, folder_of

TIME_COLUMN: Final = "store_time"
OPEN_MAX: Final = 16
GROUP_BYTES: Final = 32 << 20  # of a group of rows
_HOUR_US: Final = 3_600_000_000
_REPEATED: Final = ("broker", "tags", "born_host", "store_host", "flag", "sys_flag", "delivery_attempt", "queue_id")
_REPORTING: Final = ("queue_id", "queue_offset", "born_time", "store_time", "message_id", "keys", "commit_log_offset")


class _OpenFile:
    """Rows wait until they make a row group of a good size."""

    def __init__(self, name: str, path: Path, folder: str, schema: pa.Schema, compression: str) -> None:
        self.name = name
        self.path = path
        self.folder = folder
        self.rows = 0
        self._waiting: list[pa.RecordBatch] = []  # for their row group to be full
        self._waiting_bytes = 0
        names = schema.names
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression=compression,
            # dictionaries and statistics of bodies cost much and say nothing
            use_dictionary=[name for name in _REPEATED if name in names],
            write_statistics=[name for name in _REPORTING if name in names],
        )
        self._schema = schema

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._waiting_bytes >= GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        table = pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._waiting, self._waiting_bytes = [], 0

    def close(self) -> StagedFile:
        if self._waiting:
            self._write()
        self._writer.close()
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        return StagedFile(self.name, self.folder, self.rows, size)


class ArchiveWriter:
    """Writes staged files named ``prefix-<n>.parquet``. The column ``topic`` becomes a folder."""

    def __init__(self, archive: ArchiveFolder, prefix: str, compression: str) -> None:
        self._archive = archive
        self._prefix = prefix
        self._compression = compression
        self._open: dict[tuple[str, int], _OpenFile] = {}  # by topic and hour, the latest used last
        self._count = 0  # of files begun

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[StagedFile]:
        """Files as they are finished."""
        for batch in batches:
            for topic, hour, part in split_by_hour(batch):
                yield from self._add(topic, hour, part)
        for file in self._open.values():
            yield file.close()
        self._open.clear()

    def _add(self, topic: str, hour: int, part: pa.RecordBatch) -> Iterator[StagedFile]:
        file = self._open.pop((topic, hour), None)
        if file is None:
            if len(self._open) >= OPEN_MAX:
                oldest = next(iter(self._open))
                yield self._open.pop(oldest).close()
            file = self._begin(topic, hour, part.schema)
        self._open[topic, hour] = file
        file.add(part)

    def _begin(self, topic: str, hour: int, schema: pa.Schema) -> _OpenFile:
        when = datetime.fromtimestamp(hour * 3600, UTC)
        name = f"{self._prefix}-{self._count}.parquet"
        self._count += 1
        path = self._archive.staged_path(name)
        return _OpenFile(name, path, folder_of(topic, f"{when:%Y-%m-%d}", when.hour), schema, self._compression)


def split_by_hour(batch: pa.RecordBatch) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """Parts of one topic (a batch of the source has one) and one hour since 1970, without the topic."""
    if not batch.num_rows:
        return
    topic: Any = batch.column("topic")[0].as_py()
    kept = batch.drop_columns(["topic"])
    hours = batch.column(TIME_COLUMN).cast(pa.int64()).to_numpy() // _HOUR_US
    if hours.min() == hours.max():
        yield topic, int(hours[0]), kept
        return
    for hour in np.unique(hours):
        yield topic, int(hour), kept.filter(pc.equal(pa.array(hours), int(hour)))
