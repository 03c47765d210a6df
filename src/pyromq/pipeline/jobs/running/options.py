"""Keyword options of ``dedupe``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypedDict

from pyromq.clock import Clock, SystemClock
from pyromq.pipeline.jobs.common.bars import Tell, progress_here

GROUP: Final = "pyromq-dedupe"
ROWS_PER_BATCH: Final = 500_000


class DedupeOptions(TypedDict, total=False):
    """What ``dedupe`` takes as keywords; ``DedupeSettings`` has meanings and defaults."""

    key: str
    within: str
    path: str
    to_topic: str
    checkpoint: str
    group: str
    rows_per_batch: int | None
    follow_s: float | None
    tell: Tell
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupeSettings:
    key: str = "keys"  # expression of Spark SQL over the columns; messages without a key all pass
    within: str = "1 hour"  # how long a key is remembered, as Spark writes intervals
    path: str = ""  # folder for Parquet
    to_topic: str = ""  # or a topic, one of both
    checkpoint: str = ""  # empty: in the folder; a topic needs one
    group: str = GROUP  # under which brokers show the progress
    rows_per_batch: int | None = ROWS_PER_BATCH  # None: all there are in one batch
    follow_s: float | None = None  # seconds between two looks for more; None: end when all is read
    tell: Tell = field(default_factory=progress_here)
    clock: Clock = field(default_factory=SystemClock)
