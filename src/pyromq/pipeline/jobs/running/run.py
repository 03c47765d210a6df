"""``run``: carries out a pipeline that a file describes.

Each sink is a query of its own, with its own guarantees; with ``one_read`` one query reads for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pyromq.clock import Clock, SystemClock
from pyromq.errors import ConfigError
from pyromq.pipeline.core.option_texts import option_text
from pyromq.pipeline.jobs.common.bars import Tell, progress_here
from pyromq.pipeline.jobs.common.errors import JobFailedError
from pyromq.pipeline.jobs.common.html import ShownSummary
from pyromq.pipeline.jobs.common.patching import find_function
from pyromq.pipeline.jobs.common.queries import drain_all, failures_in_words, trigger_of
from pyromq.pipeline.jobs.common.stopwatch import Stopwatch
from pyromq.pipeline.jobs.common.written import WRITTEN, WrittenRows, observed, save_counted
from pyromq.pipeline.jobs.running.pipeline_file import (
    FILES,
    INPUT,
    TOPIC,
    PipelineFile,
    PipelineStep,
    Sink,
    placed,
    read_pipeline_file,
)
from pyromq.pipeline.jobs.running.sinks import to_message_columns
from pyromq.pipeline.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OF_THE_SOURCE = frozenset(("message_id", "queue_offset", "store_time"))


class SinkRan(msgspec.Struct, frozen=True, kw_only=True):
    """``rows`` that were written to it, and how many its query ``read``; None where Spark does not say.

    Spark counts what a stream reads and not what a batch does, and of rows that it shows in a batch it reads a few.
    """

    name: str
    kind: str
    rows: int | None
    read: int | None = None


class Ran(ShownSummary, frozen=True, kw_only=True):
    name: str
    mode: str
    sinks: tuple[SinkRan, ...]
    took_s: float


def run_file(spark: SparkSession, path: str | Path, *, tell: Tell | None = None, clock: Clock | None = None) -> Ran:
    """Run the pipeline of a file. Raises PipelineFileError before anything is done, then what sources, steps and sinks
    raise.
    """
    path = Path(path)
    return run_pipeline(spark, read_pipeline_file(path), path.absolute().parent, tell=tell, clock=clock)


def run_pipeline(
    spark: SparkSession, pipeline: PipelineFile, folder: Path, *, tell: Tell | None = None, clock: Clock | None = None
) -> Ran:
    """``folder`` is where relative paths and modules of Python steps begin."""
    watch, tell = Stopwatch(clock or SystemClock()), tell or progress_here()
    if pipeline.mode == "batch":
        sinks = _as_batch(spark, pipeline, folder)
    elif pipeline.one_read:
        sinks = _OneRead(pipeline, folder).run(spark, tell)
    else:
        sinks = _as_streams(spark, pipeline, folder, tell)
    return Ran(name=pipeline.name, mode=pipeline.mode, sinks=tuple(sinks), took_s=watch.seconds)


# --- frames ----------------------------------------------------------------------------------------------------------


def _source(spark: SparkSession, pipeline: PipelineFile, group: str) -> DataFrame:
    reader: Any = spark.read if pipeline.mode == "batch" else spark.readStream
    frame: DataFrame = reader.format("pyromq").options(**pipeline.source_options(group)).load()
    return frame


def frames_of(spark: SparkSession, pipeline: PipelineFile, frame: DataFrame, folder: Path) -> Mapping[str, DataFrame]:
    """What each named step gives, of these rows; the last of all under the empty name."""
    found = {}
    if pipeline.watermark is not None:
        with failures_in_words():
            frame = frame.withWatermark(pipeline.watermark.column, pipeline.watermark.delay)
    for number, step in enumerate(pipeline.step):
        try:
            with failures_in_words():
                frame = _as_view(spark, _stepped(spark, frame, step, folder), step.name or f"__step{number}")
        except (JobFailedError, ConfigError) as error:
            kind = JobFailedError if isinstance(error, JobFailedError) else ConfigError
            raise kind(f"step[{number}]: {error}") from error
        if step.name:
            found[step.name] = frame
    return {**found, "": frame}


def _as_view(spark: SparkSession, frame: DataFrame, name: str) -> DataFrame:
    """Through Spark Connect a frame of SQL is a text that is read again at every use: by then its input is another."""
    frame.createOrReplaceTempView(name)
    return spark.table(name)


def _stepped(spark: SparkSession, frame: DataFrame, step: PipelineStep, folder: Path) -> DataFrame:
    from pyspark.errors import PySparkException

    if step.sql:
        frame.createOrReplaceTempView(INPUT)
        return spark.sql(step.sql)
    function = find_function(step.python, folder=folder)
    try:
        found = function(frame)
    except PySparkException:
        raise
    except Exception as error:  # the function is the user's
        raise JobFailedError(f"{step.python} failed: {type(error).__name__}: {error}") from error
    if not hasattr(found, "createOrReplaceTempView"):
        raise ConfigError(f"{step.python} returned {type(found).__name__}, not a DataFrame")
    result: DataFrame = found
    return result


def shaped(frame: DataFrame, sink: Sink) -> DataFrame:
    """Rows as the source gives them are turned into what the sink takes; others are taken as they are."""
    if sink.kind == TOPIC and _OF_THE_SOURCE & set(frame.columns):
        return to_message_columns(frame)
    return frame


# --- writing ---------------------------------------------------------------------------------------------------------


def _as_streams(spark: SparkSession, pipeline: PipelineFile, folder: Path, tell: Tell) -> list[SinkRan]:
    """All at once; when one fails the others are stopped, and go on when the pipeline is run again."""
    queries: list[Any] = []
    try:
        with failures_in_words():
            for number, sink in enumerate(pipeline.sink):
                source = _source(spark, pipeline, pipeline.group_of(number))
                frames = frames_of(spark, pipeline, source, folder)
                frame = observed(shaped(frames[sink.from_], sink), WRITTEN)
                writer: Any = _configured(frame.writeStream, sink, pipeline, folder)
                writer = writer.option("checkpointLocation", pipeline.checkpoint_of(number, folder))
                follow_s = pipeline.every_s if pipeline.mode == "follow" else None
                queries.append(writer.trigger(**trigger_of(follow_s)).start())
        written = WrittenRows(len(queries))
        read = drain_all(queries, tell, endless=pipeline.mode == "follow", looks_at=written.note)
    finally:
        for query in queries:
            if query.isActive:
                query.stop()
    return [
        SinkRan(name=pipeline.sink_name(number), kind=sink.kind, rows=rows, read=count)
        for number, (sink, count, rows) in enumerate(zip(pipeline.sink, read, written.totals(), strict=True))
    ]


def _as_batch(spark: SparkSession, pipeline: PipelineFile, folder: Path) -> list[SinkRan]:
    rows: list[int | None] = []
    with failures_in_words():
        source = _source(spark, pipeline, "")
        frames = frames_of(spark, pipeline, source.persist() if pipeline.one_read else source, folder)
        for sink in pipeline.sink:
            frame = shaped(frames[sink.from_], sink)
            if sink.kind == "console":
                frame.show(truncate=False)
                rows.append(None)
            else:
                rows.append(save_counted(frame, partial(_save, sink=sink, pipeline=pipeline, folder=folder)))
        if pipeline.one_read:
            source.unpersist()
    return [
        SinkRan(name=pipeline.sink_name(number), kind=sink.kind, rows=count)
        for number, (sink, count) in enumerate(zip(pipeline.sink, rows, strict=True))
    ]


class _OneRead:
    """One query that reads the source for all sinks; steps see the rows of a batch.

    A batch that is run again has its number again: files of a batch have a folder of their own, which is written anew,
    and a topic is written under the name of the batch, so that a sink in mode idempotent has each row once.
    """

    def __init__(self, pipeline: PipelineFile, folder: Path) -> None:
        self._pipeline = pipeline
        self._folder = folder
        self._query_id: Future[str] = Future()  # the first batch may begin before it is known
        self._rows: list[dict[int, int]] = [{} for _ in pipeline.sink]  # by batch

    def run(self, spark: SparkSession, tell: Tell) -> list[SinkRan]:
        pipeline = self._pipeline
        if is_connect(spark):
            raise ConfigError("one_read needs a Spark of its own; through Spark Connect each sink reads for itself")
        with failures_in_words():
            source = _source(spark, pipeline, pipeline.group_of_all)
            writer = source.writeStream.foreachBatch(self._write)
            writer = writer.option("checkpointLocation", pipeline.checkpoint_of_all(self._folder))
            query = writer.trigger(**trigger_of(pipeline.every_s if pipeline.mode == "follow" else None)).start()
        self._query_id.set_result(str(query.id))
        (read,) = drain_all([query], tell, endless=pipeline.mode == "follow")
        return [
            SinkRan(name=pipeline.sink_name(number), kind=sink.kind, rows=sum(rows.values()), read=read)
            for number, (sink, rows) in enumerate(zip(pipeline.sink, self._rows, strict=True))
        ]

    def _write(self, batch: DataFrame, number: int) -> None:
        batch = batch.persist()
        try:
            frames = frames_of(batch.sparkSession, self._pipeline, batch, self._folder)
            for index, sink in enumerate(self._pipeline.sink):
                name = f"{self._query_id.result()[:8]}-{number}"
                save = partial(_save_again, sink=sink, pipeline=self._pipeline, folder=self._folder, name=name)
                self._rows[index][number] = save_counted(shaped(frames[sink.from_], sink), save)
        finally:
            batch.unpersist()


def _save_again(frame: DataFrame, *, sink: Sink, pipeline: PipelineFile, folder: Path, name: str) -> None:
    """Save rows of a batch, which may have been saved before under this name."""
    if sink.kind in FILES and sink.kind != "delta":
        own = msgspec.structs.replace(sink, path=f"{sink.path.rstrip('/')}/batch={name}")
        _configured(frame.write.mode("overwrite"), own, pipeline, folder).save()
        return
    writer: Any = _configured(frame.write.mode("append"), sink, pipeline, folder)
    query, _, number = name.rpartition("-")
    if sink.kind == "delta":  # which passes over a version that it has
        writer = writer.option("txnAppId", f"{pipeline.name}-{query}").option("txnVersion", number)
    if sink.kind == TOPIC:
        writer = writer.option("sinkId", f"{pipeline.name}-{sink.topic}-{name}")
    writer.save()


def _save(frame: DataFrame, *, sink: Sink, pipeline: PipelineFile, folder: Path) -> None:
    _configured(frame.write.mode("append"), sink, pipeline, folder).save()


def _configured(writer: Any, sink: Sink, pipeline: PipelineFile, folder: Path) -> Any:
    if sink.kind == TOPIC:
        return writer.format("pyromq").options(**pipeline.sink_options(sink))
    writer = writer.format(sink.kind).options(**{name: option_text(value) for name, value in sink.options.items()})
    if sink.kind in FILES:
        writer = writer.option("path", placed(sink.path, folder))
        writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
    return writer
