"""Keyword options of ``archive``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypedDict

from pyromq.clock import Clock, SystemClock
from pyromq.pipeline.jobs.common.bars import Tell, progress_here

GROUP: Final = "pyromq-archive"
ROWS_PER_BATCH: Final = 2_000_000


class ArchiveWriterKind(StrEnum):
    TASK = "task"
    SPARK = "spark"


class ArchiveFormat(StrEnum):
    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


class ArchiveOptions(TypedDict, total=False):
    """What ``archive`` takes as keywords; ``ArchiveSettings`` has meanings and defaults."""

    group: str
    checkpoint: str
    writer: ArchiveWriterKind
    form: ArchiveFormat
    compression: str
    rows_per_batch: int | None
    follow_s: float | None
    tell: Tell
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    group: str = GROUP  # under which brokers show the progress
    checkpoint: str = ""  # empty: in the archive
    writer: ArchiveWriterKind = ArchiveWriterKind.TASK
    form: ArchiveFormat = ArchiveFormat.PARQUET
    compression: str = "snappy"
    rows_per_batch: int | None = ROWS_PER_BATCH  # None: all there are in one batch
    follow_s: float | None = None  # seconds between two looks for more; None: end when all is archived
    tell: Tell = field(default_factory=progress_here)
    clock: Clock = field(default_factory=SystemClock)

    @property
    def is_by_tasks(self) -> bool:
        """Tasks write Parquet themselves; all other formats are Spark's."""
        return self.writer is ArchiveWriterKind.TASK and self.form is ArchiveFormat.PARQUET
