"""Rows that a query wrote, counted by Spark on their way into the sink: what it reads is another number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyromq.clock import Clock, SystemClock
from pyromq.pipeline.jobs.common.stopwatch import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITTEN: Final = "pyromq_written"
_ROWS: Final = "rows"


def observed(frame: DataFrame, name: Any) -> DataFrame:
    """The frame with its rows counted under ``name``, in every progress of a stream that writes it."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.observe(name, F.count(F.lit(1)).alias(_ROWS))


def save_counted(frame: DataFrame, save: Callable[[DataFrame], None]) -> int:
    """Saves a batch; returns how many rows that were."""
    from pyspark.sql import Observation

    observation = Observation()
    save(observed(frame, observation))
    return int(observation.get[_ROWS])


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of Parquet that was written at once."""

    path: str
    rows: int
    took_s: float


def write_parquet(frame: DataFrame, path: str, clock: Clock | None = None) -> Saved:
    """Writes a folder that must not be there yet."""
    watch = Stopwatch(clock or SystemClock())
    rows = save_counted(frame, lambda counted: counted.write.mode("errorifexists").parquet(path))
    return Saved(path=path, rows=rows, took_s=watch.seconds)


class WrittenRows:
    """Adds up what progress reports say of some queries, each batch once however often it is seen."""

    def __init__(self, queries: int) -> None:
        self._rows: list[dict[int, int]] = [{} for _ in range(queries)]

    def note(self, number: int, progress: Any) -> None:
        """Takes a progress of the query of that number; one that does not count rows is left out."""
        counted = (progress["observedMetrics"] or {}).get(WRITTEN)
        if counted is not None:
            self._rows[number][progress["batchId"]] = _rows(counted.asDict())

    def totals(self) -> list[int]:
        return [sum(batches.values()) for batches in self._rows]


def _rows(counted: dict[str, Any]) -> int:
    """The count of an observed row; Spark Connect tells the row's values beside its schema."""
    found = counted.get(_ROWS)
    return int(counted["values"][0] if found is None else found)
