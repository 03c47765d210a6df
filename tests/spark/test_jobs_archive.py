"""``archive``: every message once, whatever was killed when; both writers; compaction."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pyromq.pipeline.jobs import ArchiveFormat, ArchiveWriterKind, Selection, archive, compact_archive, read_archive
from pyromq.pipeline.jobs.archiving.files import ArchiveCommit, ArchiveFolder
from pyromq.pipeline.jobs.archiving.spark_writer import OPEN_FILES_SETTING
from pyromq.pipeline.jobs.common.errors import FormatMissingError, JobFailedError
from tests.spark.topics import Topics, bodies
from tests.unit.pipeline.jobs.archiving.test_readers import READERS

pytestmark = pytest.mark.spark


class KilledError(Exception):
    """Stands for a SIGKILL of the driver at one place of a commit."""


def selection(topics: Topics, topic: str) -> Selection:
    return Selection(topics=(topic,), nameserver=topics.nameserver)


def archived_bodies(spark: Any, path: Path) -> Counter[str]:
    return bodies(read_archive(spark, str(path)).collect())


def test_a_topic_is_archived_by_topic_date_and_hour_and_the_next_run_goes_on(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    topic, path = topics.make(), tmp_path / "archive"
    topics.send(topic, range(10), tags="new", keys="k1 k2", properties={"colour": "green"})

    first = archive(spark, selection(topics, topic), str(path), group=topics.group)
    topics.send(topic, range(10, 15))
    second = archive(spark, selection(topics, topic), str(path), group=topics.group)
    third = archive(spark, selection(topics, topic), str(path), group=topics.group)

    assert (first.messages, second.messages, third.messages) == (10, 5, 0)
    rows = read_archive(spark, str(path)).collect()
    assert bodies(rows) == Counter(topics.sent)
    row = next(row for row in rows if row["tags"] == "new")
    assert row["topic"] == topic and row["keys"] == "k1 k2" and row["properties"]["colour"] == "green"
    assert row["hour"] == row["store_time"].hour and f"{row['date']}" == f"{row['store_time']:%Y-%m-%d}"
    assert sum((topics.committed(topic)[queue] or 0) for queue in (0, 1)) == 15
    assert not list(ArchiveFolder(path).staged.iterdir())


@pytest.mark.parametrize("killed_in", ["_decide", "_carry_out", "rename"])
def test_a_kill_between_writing_and_committing_loses_and_doubles_nothing(
    spark: Any, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    topic, path = topics.make(), tmp_path / "archive"
    topics.send(topic, range(8))

    def kill(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        if killed_in == "rename":  # after the first file came in, before the second
            _kill_after(patch, Path, "rename", calls=2, kill=kill)
        else:
            patch.setattr(ArchiveFolder, killed_in, kill)
        with pytest.raises(JobFailedError):
            archive(spark, selection(topics, topic), str(path), group=topics.group)
    assert list(ArchiveFolder(path).staged.iterdir())  # it was killed where we think

    topics.send(topic, range(8, 12))
    archive(spark, selection(topics, topic), str(path), group=topics.group)

    assert archived_bodies(spark, path) == Counter(topics.sent)
    assert not list(ArchiveFolder(path).staged.iterdir()) and not list(ArchiveFolder(path).pending.iterdir())


def _kill_after(patch: pytest.MonkeyPatch, owner: Any, name: str, *, calls: int, kill: Callable[..., None]) -> None:
    inner, seen = getattr(owner, name), []

    def counted(*arguments: Any) -> Any:
        seen.append(arguments)
        return inner(*arguments) if len(seen) <= calls else kill()

    patch.setattr(owner, name, counted)


def test_a_batch_that_spark_runs_again_after_its_commit_is_kept_once(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    topic, path = topics.make(), tmp_path / "archive"
    topics.send(topic, range(6))
    archive(spark, selection(topics, topic), str(path), group=topics.group)
    commits = path / "_pyromq" / "checkpoint" / "commits"
    newest = max((each for each in commits.iterdir() if each.name.isdecimal()), key=lambda each: int(each.name))
    for each in (newest, newest.with_name(f".{newest.name}.crc")):
        each.unlink(missing_ok=True)  # as if the driver had died before Spark wrote it

    archive(spark, selection(topics, topic), str(path), group=topics.group)

    assert archived_bodies(spark, path) == Counter(topics.sent)
    assert not list(ArchiveFolder(path).staged.iterdir())


def test_small_files_are_merged_into_one(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic, path = topics.make(queues=1), tmp_path / "archive"
    for number in range(3):
        topics.send(topic, range(number * 4, number * 4 + 4))
        archive(spark, selection(topics, topic), str(path), group=topics.group)
    hours = {file.parent for file in ArchiveFolder(path).files()}

    done = compact_archive(path)

    assert done.files_before == 3 and done.files_after == len(hours) == len(ArchiveFolder(path).files())
    assert archived_bodies(spark, path) == Counter(topics.sent)
    archive(spark, selection(topics, topic), str(path), group=topics.group)
    assert archived_bodies(spark, path) == Counter(topics.sent)


def test_sparks_own_writer_gives_the_same_rows(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic, path = topics.make(), tmp_path / "archive"
    topics.send(topic, range(10))
    done = archive(spark, selection(topics, topic), str(path), group=topics.group, writer=ArchiveWriterKind.SPARK)
    again = archive(spark, selection(topics, topic), str(path), group=topics.group, writer=ArchiveWriterKind.SPARK)
    assert [(run.messages, run.batches) for run in (done, again)] == [(10, 1), (0, 0)]
    assert archived_bodies(spark, path) == Counter(topics.sent)
    assert not list(path.rglob("*.parquet.crc"))


def test_sparks_own_writer_makes_folders_of_utc_and_leaves_the_session_as_it_was(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    topic, path, zone, limit = topics.make(), tmp_path / "archive", "spark.sql.session.timeZone", OPEN_FILES_SETTING
    topics.send(topic, range(4))
    before = {name: spark.conf.get(name) for name in (zone, limit)}
    spark.conf.set(zone, "Asia/Kolkata")  # 5 h 30 min ahead
    try:
        archive(spark, selection(topics, topic), str(path), group=topics.group, writer=ArchiveWriterKind.SPARK)
        spark.conf.set(zone, "UTC")
        off = "date != to_date(store_time) OR hour != hour(store_time)"
        assert read_archive(spark, str(path)).count() == 4
        assert read_archive(spark, str(path)).where(off).count() == 0
    finally:
        spark.conf.set(zone, before[zone])
    assert spark.conf.get(limit) == before[limit]


@pytest.mark.parametrize("form", [ArchiveFormat.DELTA, ArchiveFormat.ICEBERG])
def test_a_missing_table_format_is_named(spark: Any, topics: Topics, tmp_path: Path, form: ArchiveFormat) -> None:
    topic, target = topics.make(), "messages" if form is ArchiveFormat.ICEBERG else str(tmp_path / "t")
    with pytest.raises(FormatMissingError, match=rf"format {form.value}: .*{form.value}-spark.*_2.13:VERSION"):
        archive(spark, selection(topics, topic), target, group=topics.group, form=form, checkpoint=str(tmp_path / "c"))


def test_a_commit_of_the_same_name_is_dropped(tmp_path: Path) -> None:
    folder = ArchiveFolder(tmp_path)
    folder.prepare()
    assert folder.commit(ArchiveCommit(name="q-000000001"))
    assert not folder.commit(ArchiveCommit(name="q-000000001"))


def test_a_driver_killed_in_the_middle_of_a_commit_loses_and_doubles_nothing(
    spark: Any, topics: Topics, tmp_path: Path
) -> None:
    topic, path = topics.make(queues=4), tmp_path / "archive"
    topics.send(topic, range(40))
    command = [sys.executable, "-m", "tests.spark.archive_driver", topics.nameserver, topic, topics.group, str(path)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert driver.stdout is not None
    with driver, driver.stdout:
        told = driver.stdout.readline().split()
        assert told[:1] == ["now"]
        os.kill(int(told[1]), signal.SIGKILL)
        driver.kill()
    assert len(ArchiveFolder(path).files()) == 1 and list(ArchiveFolder(path).pending.glob("*.json"))
    committed = pq.read_metadata(ArchiveFolder(path).files()[0]).num_rows
    assert {name: count(path) for name, count in READERS.items()} == dict.fromkeys(READERS, committed)
    assert read_archive(spark, str(path)).count() == committed

    topics.send(topic, range(40, 44))
    archive(spark, selection(topics, topic), str(path), group=topics.group)

    assert archived_bodies(spark, path) == Counter(topics.sent)
