"""Fast path into an archive: tasks read, decode and write Parquet themselves; Spark sees one row for each file.

Rows never pass through the JVM. The stream reader is the source's own, so offsets, limits, checkpoints and groups are
as everywhere; only ``read`` differs. The rows it yields are what ``files`` commits when all tasks are done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyromq.errors import ConfigError
from pyromq.pipeline.arrow.columns import ARROW_TYPES
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.jobs.archiving.files import ArchiveFolder, StagedFile
from pyromq.pipeline.jobs.archiving.writer import ArchiveWriter
from pyromq.pipeline.jobs.common.errors import ArchiveError
from pyromq.pipeline.spark.source import PyromqDataSource, StreamReader

NAME: Final = "pyromq_archive"
ROWS: Final = "name string, folder string, rows bigint, size bigint"
_ARROW_ROWS: Final = pa.schema(
    [("name", pa.string()), ("folder", pa.string()), ("rows", pa.int64()), ("size", pa.int64())]
)
MESSAGES: Final = pa.schema(list(ARROW_TYPES.items()))
_OWN: Final = ("archivepath", "compression", "archiverun")


@dataclass(frozen=True, slots=True)
class Writing:
    """Where tasks stage, how files are compressed, and a name that no other run of a query has."""

    path: str
    compression: str
    run: str


class ArchiveSource(DataSource):
    """Options: those of the source, ``archivePath``, ``compression`` and ``archiveRun``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ROWS

    def reader(self, schema: StructType) -> DataSourceReader:
        raise ConfigError(f"format {NAME} is for streams only")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        given = dict(self.options)
        writing = Writing(*(given.pop(name) for name in _OWN))
        shared_folder(writing.path)
        inner: Any = PyromqDataSource(given)
        reader: StreamReader = inner.streamReader(_message_schema())
        return ArchiveReader(reader._options, writing)


def _message_schema() -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    found: StructType = from_arrow_schema(MESSAGES)
    return found


class ArchiveReader(StreamReader):
    """Reader whose tasks write what they read."""

    def __init__(self, options: SourceOptions, writing: Writing) -> None:
        super().__init__(options, MESSAGES)
        self._writing = writing

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        writing = self._writing
        writer = ArchiveWriter(shared_folder(writing.path), _prefix(writing.run), writing.compression)
        files = list(writer.write(super().read(partition)))
        if files:
            yield rows_of(files)


def shared_folder(path: str) -> ArchiveFolder:
    """The archive that tasks write to. Raises ArchiveError on a machine that does not have the folder."""
    folder = ArchiveFolder(Path(path))
    if not folder.staged.is_dir():
        text = f"{path} does not exist on {gethostname()}, where Spark runs"
        raise ArchiveError(f"{text}: share the folder between this program, driver and tasks, or use writer=spark")
    return folder


def rows_of(files: list[StagedFile]) -> pa.RecordBatch:
    columns = [[getattr(file, name) for file in files] for name in _ARROW_ROWS.names]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _ARROW_ROWS.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_ROWS)


def _prefix(run: str) -> str:
    """Prefix of the files of this attempt of this task; no two attempts share one.

    Tasks of Spark Connect do not know of which query and batch they are: there the run distinguishes attempts.
    """
    context = TaskContext.get()
    if context is None:
        raise ConfigError(f"format {NAME} works in Spark's tasks only")
    query, batch = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "streaming.sql.batchId"))
    return f"{query or run}-{int(batch or 0):09d}-{context.partitionId()}-{context.taskAttemptId()}"
