"""The transactional sink of a driver that dies at the worst moments: brokers ask what became of prepared messages.

    format("silent").option("place", "decided")    decides every batch, tells brokers nothing of it
                                    "prepared"     fails between the last prepared message and the decision

A module of its own, for Spark's workers import it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructType

from pyromq.pipeline.sink import sink
from pyromq.pipeline.sink.sink import StreamWriter
from pyromq.pipeline.spark.source import PyromqDataSource

NAME = "silent"


class SilentWriter(StreamWriter):
    """Keeps its outcomes to itself."""

    place: str

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        sink.end_all = lambda *_: 0  # type: ignore[attr-defined]  # this process commits for nobody else
        if self.place == "prepared":
            raise RuntimeError("it was to die here")
        super().commit(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """The dead abort nothing."""


class SilentSource(PyromqDataSource):
    """The sink as it is, but for its end."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        given = dict(self.options)
        place = given.pop("place")
        made = PyromqDataSource(given).streamWriter(schema, overwrite)
        assert isinstance(made, StreamWriter)
        writer = SilentWriter(made._options)
        writer.place = place
        return writer
