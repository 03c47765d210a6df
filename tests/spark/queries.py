"""Streaming queries for tests: run to their end, collected batch by batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

WAIT_S_MAX = 300  # the first query of a JVM takes a minute on a machine that has other work
LIFE_S_MAX = 300  # of a command with a JVM of its own, from its start


class Collected:
    """What a sink got, batch by batch; a batch that comes again replaces itself."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        self.batches[batch] = frame.collect()

    @property
    def rows(self) -> list[Any]:
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]

    @property
    def sizes(self) -> list[int]:
        return [len(self.batches[batch]) for batch in sorted(self.batches)]


def start(
    spark: Any, options: dict[str, str], checkpoint: str, sink: Collected, schema: str = "", **trigger: Any
) -> Any:
    reader = spark.readStream.format("pyromq").options(**options)
    frame = (reader.schema(schema) if schema else reader).load()
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def run(spark: Any, options: dict[str, str], checkpoint: str, sink: Collected | None = None, **more: Any) -> Collected:
    """Reads what there is, then ends."""
    sink = sink or Collected()
    query = start(spark, options, checkpoint, sink, **more)
    assert query.awaitTermination(WAIT_S_MAX), "the query did not end"
    return sink


def until(condition: Callable[[], object], what: str, query: Any = None, *, timeout_s: float = WAIT_S_MAX) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert query is None or query.isActive, f"the query ended: {query.exception()}"
        assert time.monotonic() < deadline, f"did not happen: {what}"
        time.sleep(0.02)
