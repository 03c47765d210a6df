"""Readers of Parquet (DuckDB, Polars, pandas, pyarrow) see committed rows alone, beside running and killed jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pyromq.pipeline.jobs.archiving.compaction import compact_archive
from pyromq.pipeline.jobs.archiving.files import ArchiveCommit, ArchiveFolder, batch_name
from pyromq.pipeline.jobs.archiving.writer import ArchiveWriter
from tests.unit.pipeline.jobs.archiving.archives import staged
from tests.unit.pipeline.jobs.archiving.test_writer import batch

READERS: dict[str, Callable[[Path], int]] = {
    "duckdb": lambda path: duckdb.sql(f"select count(*) from '{path}/**/*.parquet'").fetchall()[0][0],
    "polars": lambda path: polars.scan_parquet(f"{path}/**/*.parquet").select(polars.len()).collect().item(),
    "pandas": lambda path: len(pandas.read_parquet(path)),
    "pyarrow": lambda path: ds.dataset(path, partitioning="hive").count_rows(),
    "glob": lambda path: sum(pq.read_metadata(file).num_rows for file in path.rglob("*.parquet")),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_counts_what_was_committed_and_nothing_that_is_staged(reader: str, folder: ArchiveFolder) -> None:
    count = READERS[reader]
    folder.commit(ArchiveCommit(name=batch_name("q", 0), added=(staged(folder, "q-0-0", rows=5),)))
    staged(folder, "q-1-0", rows=7)  # a task has finished it, its batch is not committed
    files = ArchiveWriter(folder, "q-1-1", "snappy").write([batch("a", [1, 1]), batch("a", [2])])
    next(files)  # a task is killed while another file is open, without its footer
    assert count(folder.path) == 5

    folder.commit(ArchiveCommit(name=batch_name("q", 1), added=(staged(folder, "q-1-2", rows=7),)))
    assert count(folder.path) == 12


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_counts_rows_once_after_a_killed_compaction(
    reader: str, folder: ArchiveFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        folder.commit(ArchiveCommit(name=batch_name("q", number), added=(staged(folder, f"q-{number}-0", rows=4),)))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ArchiveFolder, "commit", killed)
        compact_archive(folder.path)
    assert READERS[reader](folder.path) == 8


def test_files_that_an_older_version_staged_become_invisible_at_the_next_start(folder: ArchiveFolder) -> None:
    left = folder.staged / "q-0-0.parquet"
    folder.staged_path(staged(folder, "q-0-0").name).rename(left)
    folder.prepare()
    assert [path.name for path in folder.staged.iterdir()] == ["q-0-0.parquet.staged"]
