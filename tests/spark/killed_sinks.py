"""A driver that is killed: three queries, one of each mode, that stop at a place in their first batch.

    python -m tests.spark.killed_sinks NAMESERVER FOLDER PLACE

Each query copies topic ``in`` to a topic named after its mode. At its PLACE it leaves a file in FOLDER and waits:
``written`` before the sink's commit, ``committed`` between it and Spark's (of the transactional one: between its
decision and the first word to a broker), ``nowhere`` never: then the driver stays until it is ended.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from pyromq.pipeline import register, session, sink
from pyromq.pipeline.sink import StreamWriter
from pyromq.pipeline.source import PyromqDataSource

MODES = ("at-least-once", "idempotent", "transactional")


class StoppingWriter(StreamWriter):
    """Stays where it is told to."""

    place: str
    folder: str

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        if self.place == "written":
            self._stay()
        if self.place == "committed":
            sink.end_all = lambda *_: self._stay()  # type: ignore[assignment]
        super().commit(messages, batchId)
        if self.place == "committed":
            self._stay()

    def _stay(self) -> int:
        Path(self.folder, f"{self._options.mode.value}.there").touch()
        time.sleep(600)
        return 0


class StoppingSource(PyromqDataSource):
    """The sink as it is, but for its end."""

    @classmethod
    def name(cls) -> str:
        return "stopping"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        given = dict(self.options)
        place, folder = given.pop("place"), given.pop("folder")
        made = PyromqDataSource(given).streamWriter(schema, overwrite)
        assert isinstance(made, StreamWriter)
        writer = StoppingWriter(made._options)
        writer.place, writer.folder = place, folder
        return writer


def main(nameserver: str, folder: str, place: str) -> None:
    spark = session(
        "local[2]", **{
            "spark.ui.enabled": False, "spark.log.level": "OFF", "spark.local.dir": folder,
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
        }
    )  # fmt: skip
    register(spark)
    spark.dataSource.register(StoppingSource)
    for mode in MODES:
        reading = {"nameserver": nameserver, "topic": "in", "group": f"copy-{mode}", "startingOffsets": "earliest"}
        rows = spark.readStream.format("pyromq").options(**reading).schema("body binary, keys string").load()
        writing = {"nameserver": nameserver, "topic": mode, "mode": mode, "checkAfter": "2s"}
        writing |= {"place": place, "folder": folder}
        query = rows.writeStream.format("stopping").options(**writing).trigger(availableNow=True)
        started = query.option("checkpointLocation", f"{folder}/checkpoint-{mode}").start()
        while started.isActive and not Path(folder, f"{mode}.there").exists():
            time.sleep(0.05)  # one after the other: Spark gives its Python processes ten seconds to start
        if not started.isActive:
            started.awaitTermination()
    if place == "nowhere":
        Path(folder, "finished.there").touch()
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:4])
