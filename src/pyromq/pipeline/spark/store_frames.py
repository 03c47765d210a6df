"""Folders as DataFrames: ``read_store`` reads a commit log without a broker (``store_files``), and archives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyromq.pipeline.arrow.columns import COLUMNS, spark_type
from pyromq.pipeline.spark.session import is_connect, make_known
from pyromq.pipeline.spark.source import NAME, PyromqDataSource
from pyromq.pipeline.store_files.log import log_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_store(
    spark: SparkSession,
    folder: str | Path,
    *,
    topics: Sequence[str] = (),
    broker: str = "",
    columns: str = "",
    verify: bool = True,
) -> DataFrame:
    """The messages of a store folder; ``columns`` is a schema (``"topic string, body binary"``), all without one.

    ``broker`` fills the column of that name. ``verify=False`` saves the checksums of bodies, for a store that was
    closed in order. Raises StoreNotFoundError when there is no commit log in the folder; through Spark Connect the
    error comes from Spark when the rows are read, because the folder lies on its side.
    """
    if not is_connect(spark):
        log_files(Path(folder))  # so that the error is raised here, not from within Spark
    make_known(spark, PyromqDataSource)
    path = str(Path(folder).absolute())
    reader = spark.read.format(NAME).option("storePath", f"{broker}={path}" if broker else path)
    reader = reader.option("storeVerify", str(verify).lower())
    if topics:
        reader = reader.option("topic", ",".join(topics))
    return (reader.schema(columns) if columns else reader).load()


def archive_frame(spark: SparkSession, path: str) -> DataFrame:
    """An archive of Parquet by topic, date and hour, with the columns of the source and those two."""
    columns = ", ".join(f"{name} {spark_type(name)}" for name in COLUMNS if name != "topic")
    schema = f"{columns}, topic string, date date, hour int"  # or a topic named 2026 would be a number
    return spark.read.schema(schema).parquet(path).select(*COLUMNS, "date", "hour")
