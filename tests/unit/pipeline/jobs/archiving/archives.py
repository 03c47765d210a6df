"""Staged files of an archive, and what its readers see."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from pyromq.pipeline.jobs.archiving.files import ArchiveFolder, StagedFile


def staged(folder: ArchiveFolder, name: str, rows: int = 3, at: str = "topic=t/date=2026-11-15/hour=08") -> StagedFile:
    path = folder.staged_path(f"{name}.parquet")
    pq.write_table(pa.table({"n": list(range(rows))}), path)
    return StagedFile(f"{name}.parquet", at, rows, path.stat().st_size)


def names(folder: ArchiveFolder) -> list[str]:
    return [path.name for path in folder.files()]
