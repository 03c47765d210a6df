"""``archive``: topics to Parquet in folders by topic, date and hour, each message exactly once.

Two writers. ``task`` (the default) writes files where messages are read and commits them itself (``files``);
it needs a folder that driver and tasks share. ``spark`` is Spark's own: any file system Spark knows, and tables of
Delta and Iceberg. A run goes on where the one before it with the same checkpoint ended, however that ended.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import unquote, urlparse

from pyromq.errors import ConfigError
from pyromq.pipeline.arrow.columns import COLUMNS
from pyromq.pipeline.core.keywords import settings_from
from pyromq.pipeline.jobs.archiving.files import OWN, ArchiveCommit, ArchiveFolder, StagedFile, batch_name, total_rows
from pyromq.pipeline.jobs.archiving.options import ArchiveFormat, ArchiveOptions, ArchiveSettings
from pyromq.pipeline.jobs.archiving.spark_writer import FOLDERS, PARQUET_OPTIONS, several_files_open
from pyromq.pipeline.jobs.common.errors import ArchiveError
from pyromq.pipeline.jobs.common.html import ShownSummary
from pyromq.pipeline.jobs.common.queries import drain, failures_in_words, offsets_read, rows_read, trigger_of
from pyromq.pipeline.jobs.common.selection import Selection, absolute
from pyromq.pipeline.jobs.common.stopwatch import Stopwatch
from pyromq.pipeline.sink.keys import digest_of
from pyromq.pipeline.spark.session import is_connect, make_known
from pyromq.pipeline.spark.store_frames import archive_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Archived(ShownSummary, frozen=True, kw_only=True):
    """What one run did. Files and bytes are counted where we write them ourselves."""

    path: str
    messages: int
    batches: int
    took_s: float
    files: int | None = None
    bytes: int | None = None


def archive(spark: SparkSession, selection: Selection, path: str, **options: Unpack[ArchiveOptions]) -> Archived:
    """Archive what there is, or with ``follow_s`` go on every so many seconds until interrupted.

    ``group`` is where brokers show the progress; the checkpoint is kept in the archive unless ``checkpoint`` names a
    folder. Raises ArchiveError, FormatMissingError, JobFailedError, OptionError, and TypeError for an option that does
    not exist.
    """
    settings = settings_from(ArchiveSettings, options, "archive")
    if settings.is_by_tasks and selection.where:
        raise ConfigError("a condition of Spark SQL (where) needs writer=spark: tasks write what brokers send")
    path = path if settings.form is ArchiveFormat.ICEBERG else absolute(path)
    run = _Run(
        selection=selection,
        path=path,
        checkpoint=absolute(settings.checkpoint) or _checkpoint_in(path, settings.form),
        settings=settings,
        watch=Stopwatch(settings.clock),
    )
    return _with_tasks(spark, run) if settings.is_by_tasks else _with_spark(spark, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What both writers are given."""

    selection: Selection
    path: str
    checkpoint: str
    settings: ArchiveSettings
    watch: Stopwatch

    @property
    def is_endless(self) -> bool:
        return self.settings.follow_s is not None

    def archived(self, path: str, *, messages: int, batches: int, **counted: int) -> Archived:
        return Archived(path=path, messages=messages, batches=batches, took_s=self.watch.seconds, **counted)


def _with_tasks(spark: SparkSession, run: _Run) -> Archived:
    from pyromq.pipeline.jobs.archiving.source import NAME, ArchiveSource

    if is_connect(spark):
        _local(run.checkpoint)  # the query is known by it there
    folder = ArchiveFolder(_local(run.path))
    folder.prepare()
    before, place = -1, digest_of(run.checkpoint)
    folder.sweep(place)
    if (query_id := _query_of(run.checkpoint)) is not None:
        folder.sweep(query_id)
        before = folder.last_batch(query_id)
    make_known(spark, ArchiveSource)
    reader = run.selection.stream_reader(spark, NAME, run.settings.group, rows_max=run.settings.rows_per_batch)
    reader = reader.option("archivePath", str(folder.path)).option("compression", run.settings.compression)
    staged = reader.option("archiveRun", f"{place}-{uuid.uuid4().hex}").load()
    query = _started(staged.writeStream.foreachBatch(_Committing(folder, run.checkpoint)), run)
    drain(query, run.settings.tell, offsets_read, endless=run.is_endless)  # Spark counts files, people want messages
    commits = list(folder.committed(str(query.id), before))
    return run.archived(
        str(folder.path),
        messages=total_rows(commits),
        batches=len(commits),
        files=sum(len(commit.added) for commit in commits),
        bytes=sum(commit.size for commit in commits),
    )


class _Committing:
    """Commits each batch; travels to where Spark calls it, which may be another process."""

    def __init__(self, folder: ArchiveFolder, checkpoint: str) -> None:
        self._folder = folder
        self._checkpoint = checkpoint

    def __call__(self, staged: DataFrame, batch: int) -> None:
        files = [StagedFile(row["name"], row["folder"], row["rows"], row["size"]) for row in staged.collect()]
        if files:
            query = _query_of(self._checkpoint) or files[0].name.rsplit("-", 4)[0]
            self._folder.commit(ArchiveCommit(name=batch_name(query, batch), added=tuple(files)))


def _with_spark(spark: SparkSession, run: _Run) -> Archived:
    settings = run.settings
    if settings.form is ArchiveFormat.PARQUET and _is_ours(run.path):
        raise ArchiveError(f"{run.path} was written with writer=task; use that writer again, or another folder")
    frame = run.selection.stream(spark, settings.group, rows_max=settings.rows_per_batch)
    writer = frame.selectExpr(*COLUMNS, *FOLDERS).writeStream.format(settings.form.value)
    writer = writer.partitionBy("topic", "date", "hour").outputMode("append")
    if settings.form is ArchiveFormat.PARQUET:
        writer = writer.option("compression", settings.compression).options(**PARQUET_OPTIONS)
    with several_files_open(spark):
        query = _started(writer, run, run.path if settings.form is not ArchiveFormat.ICEBERG else "", table=run.path)
    batches = set()

    def counted(progress: Any) -> int:
        rows = rows_read(progress)
        if rows:
            batches.add(progress["batchId"])
        return rows

    messages = drain(query, run.settings.tell, counted, endless=run.is_endless)
    return run.archived(run.path, messages=messages, batches=len(batches))


def _started(writer: DataStreamWriter, run: _Run, path: str = "", table: str = "") -> StreamingQuery:
    writer = writer.option("checkpointLocation", run.checkpoint).trigger(**trigger_of(run.settings.follow_s))
    with failures_in_words():
        if table and not path:
            return writer.toTable(table)
        return writer.start(path) if path else writer.start()


def read_archive(spark: SparkSession, path: str) -> DataFrame:
    """What ``archive`` wrote, with the columns of the source and ``date`` and ``hour``."""
    return archive_frame(spark, absolute(path))


def _checkpoint_in(path: str, form: ArchiveFormat) -> str:
    if form is ArchiveFormat.ICEBERG:
        raise ConfigError("an Iceberg table has no folder of its own: name a folder for the checkpoint")
    return f"{path.rstrip('/')}/{OWN}/checkpoint"


def _is_ours(path: str) -> bool:
    return "://" not in path and (Path(path) / OWN / "commits").exists()


def _local(path: str) -> Path:
    parsed = urlparse(path)
    if parsed.scheme not in ("", "file"):
        text = f"writer=task needs a folder that driver and tasks share, not {path}"
        raise ConfigError(f"{text}: mount it, or use writer=spark")
    return Path(unquote(parsed.path) if parsed.scheme else path).absolute()


def _query_of(checkpoint: str) -> str | None:
    """The id of the query whose checkpoint it is, if there is one already."""
    try:
        found: Any = json.loads((_local(checkpoint) / "metadata").read_text())
        return str(found["id"])
    except (OSError, ValueError, KeyError, ConfigError):
        return None
