"""Compaction: which files are merged, and that no row is lost."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pyromq.pipeline.jobs.archiving.compaction import SmallFile, compact_archive, plan_compaction
from pyromq.pipeline.jobs.archiving.files import ArchiveCommit, ArchiveFolder
from pyromq.pipeline.jobs.common.errors import ArchiveError
from tests.unit.pipeline.jobs.archiving.archives import names, staged


def test_small_files_of_one_folder_are_merged_up_to_the_target() -> None:
    files = [SmallFile("a", f"{number}", 40) for number in range(4)] + [
        SmallFile("b", "0", 10),
        SmallFile("a", "9", 60),
    ]
    plan = plan_compaction(files, target_bytes=100)
    assert [[file.name for file in group] for group in plan] == [["0", "1"], ["2", "3"]]


def test_merging_keeps_every_row_and_removes_the_small_files(folder: ArchiveFolder) -> None:
    for number in range(3):
        folder.commit(ArchiveCommit(name=f"c{number}", added=(staged(folder, f"f{number}", rows=number + 1),)))
    done = compact_archive(folder.path, name_of=lambda: "x")
    assert (done.files_before, done.files_after, done.rows) == (3, 1, 6)
    assert names(folder) == ["compacted-x.parquet"]
    assert sorted(pq.read_table(folder.files()[0], partitioning=None).column("n").to_pylist()) == [0, 0, 0, 1, 1, 2]
    assert compact_archive(folder.path).files_after == 1


def test_one_process_merges_at_a_time(folder: ArchiveFolder) -> None:
    for number in range(2):
        folder.commit(ArchiveCommit(name=f"c{number}", added=(staged(folder, f"f{number}"),)))

    def meanwhile() -> str:
        with pytest.raises(ArchiveError, match="another process is merging files"):
            compact_archive(folder.path)
        return "x"

    assert compact_archive(folder.path, name_of=meanwhile).files_after == 1


def test_what_a_killed_compaction_left_is_removed(folder: ArchiveFolder) -> None:
    (folder.staged / "compacted-y.parquet.staged").touch()
    (folder.staged / "q1-0.parquet.staged").touch()
    compact_archive(folder.path)
    assert [path.name for path in folder.staged.iterdir()] == ["q1-0.parquet.staged"]


def test_a_folder_that_is_no_archive_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="is not an archive written with writer=task"):
        compact_archive(tmp_path / "mistyped")
    assert not (tmp_path / "mistyped").exists()
