"""Compaction: many small files of one hour become one, in one commit. Needs no Spark.

A file is only ever added or removed whole, so one process can merge files that are there at any time. The merged file
comes in before the small ones go (``files`` says what readers may see). A compaction that is killed leaves a
staged file behind, which the next one removes.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pyromq.pipeline.jobs.archiving.files import OWN, ArchiveCommit, ArchiveFolder, StagedFile
from pyromq.pipeline.jobs.archiving.writer import GROUP_BYTES
from pyromq.pipeline.jobs.common.bars import Tell, silent
from pyromq.pipeline.jobs.common.errors import ArchiveError
from pyromq.pipeline.jobs.common.html import ShownSummary

TARGET_BYTES: Final = 256 << 20
_PREFIX: Final = "compacted-"


class SmallFile(msgspec.Struct, frozen=True):
    """``folder`` and ``name`` within the archive."""

    folder: str
    name: str
    size: int


class Compacted(ShownSummary, frozen=True, kw_only=True):
    """How many files became how many."""

    files_before: int = 0
    files_after: int = 0
    rows: int = 0


def plan_compaction(files: Iterable[SmallFile], target_bytes: int = TARGET_BYTES) -> list[list[SmallFile]]:
    """What to merge with what: files of one folder, two at least, together about ``target_bytes`` at most.

    Files of half that size and more are left alone, so that no file is written again and again.
    """
    groups: list[list[SmallFile]] = []
    open_group: list[SmallFile] = []
    for file in sorted(files, key=lambda file: (file.folder, file.name)):
        if file.size * 2 >= target_bytes:
            continue
        size = sum(each.size for each in open_group)
        if open_group and (open_group[0].folder != file.folder or size + file.size > target_bytes):
            groups.append(open_group)
            open_group = []
        open_group.append(file)
    return [group for group in (*groups, open_group) if len(group) > 1]


def compact_archive(
    path: str | Path,
    *,
    target_bytes: int = TARGET_BYTES,
    compression: str = "snappy",
    tell: Tell = silent,
    name_of: Callable[[], str] = lambda: uuid.uuid4().hex,
) -> Compacted:
    """Merge the small files of an archive that ``archive`` wrote with its own writer.

    Raises ArchiveError, also when another process is at it: both would keep the rows of the same files.
    """
    folder = ArchiveFolder(Path(path).absolute())
    if not (folder.path / OWN).is_dir():
        raise ArchiveError(f"{folder.path} is not an archive written with writer=task: there is nothing to merge")
    folder.prepare()
    with folder.merging():
        for left in folder.staged.glob(f"{_PREFIX}*"):
            left.unlink(missing_ok=True)
        return _compacted(folder, target_bytes, compression, tell, name_of)


def _compacted(
    folder: ArchiveFolder, target_bytes: int, compression: str, tell: Tell, name_of: Callable[[], str]
) -> Compacted:
    paths = folder.files()
    found = [SmallFile(str(each.parent.relative_to(folder.path)), each.name, each.stat().st_size) for each in paths]
    groups = plan_compaction(found, target_bytes)
    rows = 0
    for number, group in enumerate(groups):
        tell(number, len(groups), group[0].folder)
        merged = _merge(folder, group, f"{_PREFIX}{name_of()}", compression)
        rows += merged.rows
        removed = tuple(f"{each.folder}/{each.name}" for each in group)
        folder.commit(ArchiveCommit(name=merged.name.removesuffix(".parquet"), added=(merged,), removed=removed))
    merged_files = sum(map(len, groups))
    return Compacted(files_before=len(found), files_after=len(found) - merged_files + len(groups), rows=rows)


def _merge(folder: ArchiveFolder, group: Sequence[SmallFile], name: str, compression: str) -> StagedFile:
    """Row groups are read one at a time, so memory does not grow with the files."""
    target = folder.staged_path(f"{name}.parquet")
    rows = 0
    writer: pq.ParquetWriter | None = None
    waiting: list[pa.Table] = []
    try:
        for each in group:
            with pq.ParquetFile(folder.path / each.folder / each.name) as source:
                writer = writer or pq.ParquetWriter(target, source.schema_arrow, compression=compression)
                for number in range(source.num_row_groups):
                    waiting.append(source.read_row_group(number))
                    rows += waiting[-1].num_rows
                    if sum(table.nbytes for table in waiting) >= GROUP_BYTES:
                        _write(writer, waiting)
        assert writer is not None
        _write(writer, waiting)
    finally:
        if writer is not None:
            writer.close()
    with target.open("rb") as file:
        os.fsync(file.fileno())
        return StagedFile(f"{name}.parquet", group[0].folder, rows, os.fstat(file.fileno()).st_size)


def _write(writer: pq.ParquetWriter, waiting: list[pa.Table]) -> None:
    if waiting:
        table = pa.concat_tables(waiting)
        writer.write_table(table, row_group_size=max(1, table.num_rows))
        waiting.clear()
