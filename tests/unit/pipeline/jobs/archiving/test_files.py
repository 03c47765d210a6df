"""Commits of archives: carried out once and whole, wherever a process was killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyromq.pipeline.jobs.archiving.compaction import SmallFile, compact_archive, plan_compaction
from pyromq.pipeline.jobs.archiving.files import ArchiveFolder, Commit, StagedFile, batch_name, folder_of
from pyromq.pipeline.jobs.archiving.writer import ArchiveWriter, split_by_hour
from pyromq.pipeline.jobs.common.errors import ArchiveError

HOUR_US = 3_600_000_000


class KilledError(Exception):
    """As a SIGKILL: nothing after it happens."""


@pytest.fixture
def folder(tmp_path: Path) -> ArchiveFolder:
    made = ArchiveFolder(tmp_path / "archive")
    made.prepare()
    return made


def staged(folder: ArchiveFolder, name: str, rows: int = 3, at: str = "topic=t/date=2026-11-15/hour=08") -> StagedFile:
    path = folder.staged / f"{name}.parquet"
    pq.write_table(pa.table({"n": list(range(rows))}), path)
    return StagedFile(path.name, at, rows, path.stat().st_size)


def names(folder: ArchiveFolder) -> list[str]:
    return [path.name for path in folder.files()]


# --- commits ---------------------------------------------------------------------------------------------------------


def test_a_commit_moves_staged_files_to_where_readers_look(folder: ArchiveFolder) -> None:
    assert folder.commit(Commit(name=batch_name("q", 0), added=(staged(folder, "q-0-0"), staged(folder, "q-0-1"))))
    assert names(folder) == ["q-0-0.parquet", "q-0-1.parquet"]
    assert not list(folder.staged.iterdir()) and not list(folder.pending.iterdir())
    assert [commit.rows for commit in folder.committed("q")] == [6] and folder.last_batch("q") == 0


def test_a_batch_that_is_written_again_is_kept_once(folder: ArchiveFolder) -> None:
    folder.commit(Commit(name=batch_name("q", 7), added=(staged(folder, "q-7-first"),)))
    assert not folder.commit(Commit(name=batch_name("q", 7), added=(staged(folder, "q-7-second"),)))
    assert names(folder) == ["q-7-first.parquet"] and not list(folder.staged.iterdir())


@pytest.mark.parametrize("killed_before", range(9))
def test_a_kill_before_any_step_leaves_all_or_nothing_after_the_next_start(
    folder: ArchiveFolder, monkeypatch: pytest.MonkeyPatch, killed_before: int
) -> None:
    """Every change of the file system counts as a step; the one before which the process dies, and all later, fail."""
    folder.commit(Commit(name="old", added=(staged(folder, "old"),)))
    commit = Commit(
        name=batch_name("q", 1),
        added=(staged(folder, "a"), staged(folder, "b")),
        removed=("topic=t/date=2026-11-15/hour=08/old.parquet",),
    )
    steps: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("rename", "unlink", "open"):
            patch.setattr(Path, name, _until(killed_before, steps, getattr(Path, name)))
        try:
            folder.commit(commit)
        except KilledError:
            assert len(steps) > killed_before
        else:
            assert len(steps) <= killed_before
    decided = folder.pending.joinpath("q-000000001.json").exists() or folder.last_batch("q") == 1
    folder.prepare()
    assert names(folder) == (["a.parquet", "b.parquet"] if decided else ["old.parquet"])
    assert not list(folder.pending.glob("*.json"))
    if not decided:  # the batch is written and committed again
        folder.sweep("a")
        folder.sweep("b")
        assert folder.commit(commit.__class__(name=commit.name, added=(staged(folder, "a"), staged(folder, "b"))))


def _until(count: int, steps: list[str], inner: Callable[..., Any]) -> Callable[..., Any]:
    def step(*arguments: Any, **named: Any) -> Any:
        steps.append(inner.__name__)
        if len(steps) > count:
            raise KilledError
        return inner(*arguments, **named)

    return step


def test_a_staged_file_that_somebody_removed_is_named(folder: ArchiveFolder) -> None:
    with pytest.raises(ArchiveError, match="missing"):
        folder.commit(Commit(name="c", added=(StagedFile("gone.parquet", "topic=t/date=d/hour=01", 1, 1),)))


def test_sweeping_takes_what_a_query_left_and_nothing_else(folder: ArchiveFolder) -> None:
    staged(folder, "q1-0")
    staged(folder, "q2-0")
    assert folder.sweep("q1") == 1
    assert [path.name for path in folder.staged.iterdir()] == ["q2-0.parquet"]


def test_an_archive_of_sparks_writer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    with pytest.raises(ArchiveError, match="writer=spark"):
        ArchiveFolder(tmp_path).prepare()


def test_topics_are_escaped_as_spark_does() -> None:
    assert folder_of("%RETRY%g", "2026-11-15", 8) == "topic=%25RETRY%25g/date=2026-11-15/hour=08"


# --- files of a task -------------------------------------------------------------------------------------------------


def batch(topic: str, hours: list[int]) -> pa.RecordBatch:
    times = pa.array([hour * HOUR_US + 5 for hour in hours], pa.int64()).view(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [pa.array([topic] * len(hours)), times, pa.array(range(len(hours)), pa.int64())],
        names=["topic", "store_time", "queue_offset"],
    )


def test_rows_are_split_by_hour_and_lose_their_topic() -> None:
    parts = list(split_by_hour(batch("t", [5, 6, 5])))
    assert [(topic, hour, part.column("queue_offset").to_pylist()) for topic, hour, part in parts] == [
        ("t", 5, [0, 2]),
        ("t", 6, [1]),
    ]
    assert parts[0][2].schema.names == ["store_time", "queue_offset"]


def test_a_task_writes_a_file_for_each_topic_and_hour(tmp_path: Path) -> None:
    batches = [batch("a", [1, 1]), batch("a", [2]), batch("b", [1]), batch("a", [1])]
    files = list(ArchiveWriter(tmp_path, "q-0-0-9", "snappy").write(batches))
    assert sorted((file.folder, file.rows) for file in files) == [
        ("topic=a/date=1970-01-01/hour=01", 3),
        ("topic=a/date=1970-01-01/hour=02", 1),
        ("topic=b/date=1970-01-01/hour=01", 1),
    ]
    for file in files:
        assert pq.read_metadata(tmp_path / file.name).num_rows == file.rows
        assert (tmp_path / file.name).stat().st_size == file.size


def test_few_files_are_open_at_a_time_and_no_row_is_lost(tmp_path: Path) -> None:
    hours = [hour for _ in range(3) for hour in range(40)]
    files = list(ArchiveWriter(tmp_path, "p", "none").write(batch("t", [hour]) for hour in hours))
    assert sum(file.rows for file in files) == len(hours) and len({file.name for file in files}) == len(files)
    assert {file.folder for file in files} == {
        f"topic=t/date=1970-01-{1 + h // 24:02d}/hour={h % 24:02d}" for h in hours
    }


# --- compaction ------------------------------------------------------------------------------------------------------


def test_small_files_of_one_folder_are_merged_up_to_the_target() -> None:
    files = [SmallFile("a", f"{number}", 40) for number in range(4)] + [
        SmallFile("b", "0", 10),
        SmallFile("a", "9", 60),
    ]
    plan = plan_compaction(files, target_bytes=100)
    assert [[file.name for file in group] for group in plan] == [["0", "1"], ["2", "3"]]


def test_merging_keeps_every_row_and_removes_the_small_files(folder: ArchiveFolder) -> None:
    for number in range(3):
        folder.commit(Commit(name=f"c{number}", added=(staged(folder, f"f{number}", rows=number + 1),)))
    done = compact_archive(folder.path, name_of=lambda: "x")
    assert (done.files_before, done.files_after, done.rows) == (3, 1, 6)
    assert names(folder) == ["compacted-x.parquet"]
    assert sorted(pq.read_table(folder.files()[0], partitioning=None).column("n").to_pylist()) == [0, 0, 0, 1, 1, 2]
    assert compact_archive(folder.path).files_after == 1


def test_one_process_merges_at_a_time(folder: ArchiveFolder) -> None:
    for number in range(2):
        folder.commit(Commit(name=f"c{number}", added=(staged(folder, f"f{number}"),)))

    def meanwhile() -> str:
        with pytest.raises(ArchiveError, match="another process is merging files"):
            compact_archive(folder.path)
        return "x"

    assert compact_archive(folder.path, name_of=meanwhile).files_after == 1


def test_what_a_killed_compaction_left_is_removed(folder: ArchiveFolder) -> None:
    (folder.staged / "compacted-y.parquet").touch()
    (folder.staged / "q1-0.parquet").touch()
    compact_archive(folder.path)
    assert [path.name for path in folder.staged.iterdir()] == ["q1-0.parquet"]


def test_a_folder_that_is_no_archive_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="is not an archive written with writer=task"):
        compact_archive(tmp_path / "mistyped")
    assert not (tmp_path / "mistyped").exists()
