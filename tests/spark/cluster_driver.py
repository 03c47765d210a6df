"""A driver in client mode of a standalone cluster, one of whose executors is killed while it reads.

``python -m tests.spark.cluster_driver MASTER NAMESERVER FOLDER``: copies topic ``in`` (numbers) to ``out``, and in the
JVM lane to ``out-jvm``, consumes and archives it, and prints one line of JSON about each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.functions import lit, udf
from pyspark.sql.types import StructType

from pyromq.pipeline import Dead, consume, session
from pyromq.pipeline.consuming.rows import Record
from pyromq.pipeline.consuming.verdicts import Verdict
from pyromq.pipeline.jobs import Selection, archive
from pyromq.pipeline.spark.source import PyromqDataSource, StreamReader
from tests.spark import cluster_driver as importable
from tests.spark.conftest import QUICK

WAIT_S_MAX = 180


class DyingSource(PyromqDataSource):
    """The source as it is, but for the executor that reads first."""

    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        given = dict(self.options)
        folder = given.pop("folder")
        inner = PyromqDataSource(given).streamReader(schema)
        assert isinstance(inner, StreamReader)
        reader = DyingReader(inner._options, inner._schema)
        reader.folder = folder
        return reader


class DyingReader(StreamReader):
    """Takes its executor along after the first rows, once."""

    folder: str

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            yield batch
            try:
                Path(self.folder, "killed").touch(exist_ok=False)
            except FileExistsError:
                continue
            time.sleep(0.5)  # so that rows are on their way to the sink
            os.kill(parent_of(os.getppid()), signal.SIGKILL)
            time.sleep(60)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def die_once(body: bytes, folder: str) -> bytes:
    """A column that takes its executor along, once: there the JVM reads, and Python only sees values."""
    try:
        Path(folder, "killed-jvm").touch(exist_ok=False)
    except FileExistsError:
        return body
    os.kill(parent_of(os.getppid()), signal.SIGKILL)
    time.sleep(60)
    return body


def handle(record: Record) -> Verdict:
    number = int(record.body)
    if number == 7:
        return Dead("a seven")
    if number == 8 and not record.delivery_attempt:
        raise ValueError("an eight")
    return None


def tell(name: str, value: Any) -> None:
    print(json.dumps([name, value]), flush=True)


def main(master: str, nameserver: str, folder: str) -> None:
    spark = session(
        master, **{
            **QUICK, "spark.driver.host": "127.0.0.1", "spark.executor.cores": 1, "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK["spark.driver.extraJavaOptions"],
        }
    )  # fmt: skip
    spark.dataSource.register(importable.DyingSource)  # by its name, which executors can import
    reading = {"nameserver": nameserver, "topic": "in", "group": "copy", "startingOffsets": "earliest"}
    rows = spark.readStream.format("dying").options(**reading, folder=folder, batchRows="3")
    writing = rows.schema("body binary, keys string").load().writeStream.format("pyromq")
    writing = writing.options(nameserver=nameserver, topic="out", mode="idempotent", settleTime="200ms")
    query = writing.option("checkpointLocation", f"{folder}/copy").trigger(availableNow=True).start()
    tell("copied", query.awaitTermination(WAIT_S_MAX))

    reading |= {"group": "copy-jvm", "lane": "auto"}
    dying = udf(importable.die_once, "binary")
    rows = spark.readStream.format("pyromq").options(**reading).load()
    writing = rows.select(dying("body", lit(folder)).alias("body"), "keys").writeStream.format("pyromq")
    writing = writing.options(nameserver=nameserver, topic="out-jvm", mode="idempotent", settleTime="200ms")
    query = writing.option("checkpointLocation", f"{folder}/copy-jvm").trigger(availableNow=True).start()
    tell("copied by the JVM", [query.awaitTermination(WAIT_S_MAX), query.lastProgress.sources[0].description])

    running = consume(
        spark, "in", "work", handle, nameserver=nameserver, start="earliest", checkpoint=f"{folder}/work",
        trigger={"availableNow": True},
    )  # fmt: skip
    ended = running.wait(WAIT_S_MAX)
    counts = running.counts
    tell("consumed", [ended, counts.rows, counts.done, counts.retried, counts.dead])
    archived = archive(spark, Selection(topics=("in",), nameserver=nameserver), f"{folder}/archive", group="archive")
    tell("archived", archived.messages)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:4])
