"""Store folders as DataFrames, without a broker: ours and Apache RocketMQ's have the same commit log.

    spark.read.format("pyromq_store").load("/var/lib/pyromq/broker-a")          or: read_store(spark, folder)

Tasks read stretches of commit log files and decode whole records as they lie. What lies in the log is what you get,
also what no consumer sees: messages that wait for their time, halves of transactions (their topics tell). Nothing is
written, no lock is taken; a store that is in use may be read, up to what its files hold. Damaged records are passed
over, and counted in the log of the task. The folder must be at the same path for driver and tasks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyromq.errors import StoreNotFoundError
from pyromq.model.names import validate_topic
from pyromq.pipeline.columns import spark_schema
from pyromq.pipeline.errors import OptionError
from pyromq.pipeline.source import arrow_schema
from pyromq.pipeline.store_source_log import LogFile, Stretch, decode_stretch, log_files, plan_stretches, stretch_size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "pyromq_store"
_OPTIONS: Final = ("path", "topic", "broker", "verify", "stretchbytes", "batchrows")


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """``topics``: these alone, all when there are none. ``broker`` fills the column of that name."""

    folder: Path
    topics: tuple[str, ...] = ()
    broker: str = ""
    verify: bool = True  # checksums of bodies
    stretch_bytes: int | None = None  # None: by the size of the log
    batch_rows: int = 5_000


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

    ``verify=False`` saves the checksums of bodies, for a store that was closed in order.
    Raises StoreNotFoundError when there is no commit log in the folder.
    """
    log_files(Path(folder))  # so that it is said here, not from within Spark
    spark.dataSource.register(StoreSource)
    reader = spark.read.format(NAME).option("path", str(Path(folder).absolute()))
    reader = reader.option("verify", str(verify).lower())
    if topics:
        reader = reader.option("topic", ",".join(topics))
    if broker:
        reader = reader.option("broker", broker)
    return (reader.schema(columns) if columns else reader).load()


def parse_store_options(given: dict[str, str]) -> StoreOptions:
    """Raises OptionError."""
    lower = {name.lower(): text.strip() for name, text in given.items()}
    for name in lower:
        if name not in _OPTIONS:
            raise OptionError(name, f"there is none of that name; there are {', '.join(_OPTIONS)}")
    if not lower.get("path"):
        raise OptionError("path", "say which store folder to read: the one with commitlog in it")
    topics = tuple(topic.strip() for topic in lower.get("topic", "").split(",") if topic.strip())
    return StoreOptions(
        folder=Path(lower["path"].removeprefix("file://")),
        topics=tuple(map(validate_topic, topics)),
        broker=lower.get("broker", ""),
        verify=_switch(lower, "verify"),
        stretch_bytes=_count(lower, "stretchbytes") if "stretchbytes" in lower else None,
        batch_rows=_count(lower, "batchrows") if "batchrows" in lower else 5_000,
    )


def _switch(given: dict[str, str], name: str) -> bool:
    text = given.get(name, "true").lower()
    if text not in ("true", "false"):
        raise OptionError(name, f"{text!r} is neither true nor false")
    return text == "true"


def _count(given: dict[str, str], name: str) -> int:
    text = given[name]
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise OptionError(name, f"{text!r} is not a number above 0")
    return int(text)


class StoreSource(DataSource):
    """Options: ``path``, ``topic`` (several with commas), ``broker``, ``verify``, ``stretchBytes``, ``batchRows``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return spark_schema(properties_as_map=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        return StoreReader(parse_store_options(dict(self.options)), arrow_schema(schema))


class StoreReader(DataSourceReader):
    """Plans stretches on the driver, reads them in tasks."""

    def __init__(self, options: StoreOptions, schema: pa.Schema) -> None:
        self._options, self._schema = options, schema

    def partitions(self) -> Sequence[InputPartition]:
        files: list[LogFile] = log_files(self._options.folder)
        if not files:
            raise StoreNotFoundError(f"{self._options.folder} has an empty commit log")
        size = self._options.stretch_bytes or stretch_size(files, os.cpu_count() or 1)
        return [InputPartition(stretch) for stretch in plan_stretches(files, size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        stretch: Stretch = partition.value
        options = self._options
        for batch in decode_stretch(
            stretch, self._schema, frozenset(options.topics), options.broker, verify=options.verify
        ):
            for start in range(0, batch.num_rows, options.batch_rows):
                yield batch.slice(start, options.batch_rows)
