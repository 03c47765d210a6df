"""Parquet files of one task: one for each topic and hour."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from pyromq.pipeline.jobs.archiving.files import ArchiveFolder
from pyromq.pipeline.jobs.archiving.writer import ArchiveWriter, split_by_hour

HOUR_US = 3_600_000_000


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


def test_a_task_writes_a_file_for_each_topic_and_hour(folder: ArchiveFolder) -> None:
    batches = [batch("a", [1, 1]), batch("a", [2]), batch("b", [1]), batch("a", [1])]
    files = list(ArchiveWriter(folder, "q-0-0-9", "snappy").write(batches))
    assert sorted((file.folder, file.rows) for file in files) == [
        ("topic=a/date=1970-01-01/hour=01", 3),
        ("topic=a/date=1970-01-01/hour=02", 1),
        ("topic=b/date=1970-01-01/hour=01", 1),
    ]
    for file in files:
        assert pq.read_metadata(folder.staged_path(file.name)).num_rows == file.rows
        assert folder.staged_path(file.name).stat().st_size == file.size


def test_few_files_are_open_at_a_time_and_no_row_is_lost(folder: ArchiveFolder) -> None:
    hours = [hour for _ in range(3) for hour in range(40)]
    files = list(ArchiveWriter(folder, "p", "none").write(batch("t", [hour]) for hour in hours))
    assert sum(file.rows for file in files) == len(hours) and len({file.name for file in files}) == len(files)
    assert {file.folder for file in files} == {
        f"topic=t/date=1970-01-{1 + h // 24:02d}/hour={h % 24:02d}" for h in hours
    }
