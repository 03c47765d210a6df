"""Commits of archives: carried out once and whole, wherever a process was killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.pipeline.jobs.archiving.files import ArchiveCommit, ArchiveFolder, StagedFile, batch_name, folder_of
from pyromq.pipeline.jobs.common.errors import ArchiveError
from tests.unit.pipeline.jobs.archiving.archives import names, staged


class KilledError(Exception):
    """As a SIGKILL: nothing after it happens."""


def test_a_commit_moves_staged_files_to_where_readers_look(folder: ArchiveFolder) -> None:
    assert folder.commit(
        ArchiveCommit(name=batch_name("q", 0), added=(staged(folder, "q-0-0"), staged(folder, "q-0-1")))
    )
    assert names(folder) == ["q-0-0.parquet", "q-0-1.parquet"]
    assert not list(folder.staged.iterdir()) and not list(folder.pending.iterdir())
    assert [commit.rows for commit in folder.committed("q")] == [6] and folder.last_batch("q") == 0


def test_a_batch_that_is_written_again_is_kept_once(folder: ArchiveFolder) -> None:
    folder.commit(ArchiveCommit(name=batch_name("q", 7), added=(staged(folder, "q-7-first"),)))
    assert not folder.commit(ArchiveCommit(name=batch_name("q", 7), added=(staged(folder, "q-7-second"),)))
    assert names(folder) == ["q-7-first.parquet"] and not list(folder.staged.iterdir())


@pytest.mark.parametrize("killed_before", range(9))
def test_a_kill_before_any_step_leaves_all_or_nothing_after_the_next_start(
    folder: ArchiveFolder, monkeypatch: pytest.MonkeyPatch, killed_before: int
) -> None:
    """Every change of the file system counts as a step; the one before which the process dies, and all later, fail."""
    folder.commit(ArchiveCommit(name="old", added=(staged(folder, "old"),)))
    commit = ArchiveCommit(
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


def test_a_staged_file_that_is_missing_is_named(folder: ArchiveFolder) -> None:
    with pytest.raises(ArchiveError, match="missing"):
        folder.commit(ArchiveCommit(name="c", added=(StagedFile("gone.parquet", "topic=t/date=d/hour=01", 1, 1),)))


def test_sweeping_takes_what_a_query_left_and_nothing_else(folder: ArchiveFolder) -> None:
    staged(folder, "q1-0")
    staged(folder, "q2-0")
    assert folder.sweep("q1") == 1
    assert [path.name for path in folder.staged.iterdir()] == ["q2-0.parquet.staged"]


def test_an_archive_of_sparks_writer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    with pytest.raises(ArchiveError, match="writer=spark"):
        ArchiveFolder(tmp_path).prepare()


def test_topics_are_escaped_as_spark_does() -> None:
    assert folder_of("%RETRY%g", "2026-11-15", 8) == "topic=%25RETRY%25g/date=2026-11-15/hour=08"
