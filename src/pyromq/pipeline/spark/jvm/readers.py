"""Readers that plan for the JVM lane: Spark asks them for offsets and partitions, and never for rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from pyromq.pipeline.core.borders import in_one_sentence
from pyromq.pipeline.spark.batch_reader import BatchReader
from pyromq.pipeline.spark.jvm.plans import PlannedPart, plan_text
from pyromq.pipeline.spark.pushed import FilteringReader
from pyromq.pipeline.spark.source import StreamReader

OPEN: Final = {"+": "open"}
"""Where a batch ends that is read until its time is up (``LaneStream.java``); no topic has that name."""


class PlanningReader(BatchReader):
    """A batch read."""

    @in_one_sentence
    def partitions(self) -> Sequence[InputPartition]:
        return [PlannedPart(plan_text(self._options, part.value)) for part in super().partitions()]


class FilteringPlanningReader(PlanningReader, FilteringReader):
    """A batch read that takes conditions: it leaves out what cannot meet them, and Spark compares the rows."""


class PlanningStreamReader(StreamReader):
    """A streaming query."""

    @in_one_sentence
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if end == OPEN:  # real-time mode: a task for each queue, which reads as long as the batch lasts
            ranges = self.stream.open_ranges(self._memory.offsets_of(start))
            return [PlannedPart(plan_text(self._options, (each,))) for each in ranges]
        return [PlannedPart(plan_text(self._options, part.value)) for part in super().partitions(start, end)]
