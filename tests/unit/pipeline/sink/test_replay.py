"""Idempotent writes without Spark: markers, and what a second life finds of the first."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.checkpoint_log import CheckpointLog
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange, Offsets
from pyromq.pipeline.sink.keys import RowKeys
from pyromq.pipeline.sink.options import SinkOptions
from pyromq.pipeline.sink.replay import (
    FileMarker,
    FoundRows,
    GroupMarker,
    LiveBatch,
    NotRepeatableError,
    Numbering,
    ReplayedStretch,
    has_end,
    move_marker,
    plan_replay,
)

A, B = QueueId("out", "a", 0), QueueId("out", "a", 1)


class Brokers:
    """Queues with ends, and what a group has stored."""

    def __init__(self, **ends: int) -> None:
        self.ends: Offsets = {QueueId("out", "a", int(name[1:])): end for name, end in ends.items()}
        self.group: Offsets = {}

    def held(self, *, missing_ok: bool = False) -> dict[QueueId, HeldRange]:
        return {queue: HeldRange(0, end) for queue, end in self.ends.items()}

    def stored(self, queues: Iterable[QueueId]) -> Offsets:
        return {queue: self.group[queue] for queue in queues if queue in self.group}

    def commit(self, offsets: Mapping[QueueId, int]) -> None:
        self.group.update(offsets)


def test_the_first_plan_sets_the_marker_and_finds_nothing_doubtful(tmp_path: Path) -> None:
    brokers, marker = Brokers(q0=5, q1=7), FileMarker(CheckpointLog(str(tmp_path), "sent"))
    done, replay = plan_replay(brokers, marker)
    assert done == -1 and not replay.doubtful
    brokers.ends[A] = 9  # sent, then killed
    done, replay = plan_replay(brokers, FileMarker(CheckpointLog(str(tmp_path), "sent")))
    assert done == -1 and replay.doubtful == (OffsetRange(A, 5, 9),)


def test_a_committed_batch_is_done_and_what_comes_after_is_doubtful(tmp_path: Path) -> None:
    brokers, marker = Brokers(q0=5), FileMarker(CheckpointLog(f"file://{tmp_path}", "sent"))
    plan_replay(brokers, marker)
    brokers.ends[A] = 8
    move_marker(0, brokers, marker)
    assert plan_replay(brokers, marker) == (0, ReplayedStretch((OffsetRange(A, 8, 8),)))
    brokers.ends[A] = 10
    move_marker(0, brokers, marker)
    assert plan_replay(brokers, marker)[1].doubtful == (OffsetRange(A, 8, 10),), "a batch is committed once"


def test_a_live_batch_that_ended_early_leaves_the_marker_and_the_next_goes_on_with_its_numbers(tmp_path: Path) -> None:
    """30 rows were sent and cut off; 10 of them come again, then 12 with 5 new ones behind them, then the other 8."""
    brokers, marker = Brokers(q0=0), FileMarker(CheckpointLog(str(tmp_path), "sent"))
    plan_replay(brokers, marker)
    brokers.ends[A] = 30
    move_marker(4, brokers, marker, LiveBatch({0: 10, 1: 0}, found=30, skipped=10))
    done, replay = plan_replay(brokers, marker)
    assert (done, replay.ranges) == (4, (OffsetRange(A, 0, 30),))
    assert replay.goes_on == Numbering(4, {0: 10, 1: 0}, 10)
    brokers.ends[A] = 35
    move_marker(5, brokers, marker, LiveBatch({0: 17, 1: 10}, found=30, skipped=12, sent=5))
    done, replay = plan_replay(brokers, marker)
    assert done == 5 and replay.goes_on == Numbering(4, {0: 17, 1: 10}, 27) and len(replay.doubtful[0]) == 35
    move_marker(6, brokers, marker, LiveBatch({0: 17, 1: 18}, found=35, skipped=8))
    done, replay = plan_replay(brokers, marker)
    assert done == 6 and not replay.doubtful and replay.goes_on is None


def test_a_live_batch_that_is_run_once_more_is_compared_with_what_lay_before_it(tmp_path: Path) -> None:
    brokers, marker = Brokers(q0=5), FileMarker(CheckpointLog(str(tmp_path), "sent"))
    plan_replay(brokers, marker)
    brokers.ends[A] = 9
    move_marker(0, brokers, marker, LiveBatch({0: 4}, sent=4))
    brokers.ends[A] = 12  # the next one was cut off, or Spark knows nothing of the first
    done, replay = plan_replay(brokers, marker)
    assert done == 0 and replay.doubtful == (OffsetRange(A, 9, 12),)
    assert replay.again == ReplayedStretch((OffsetRange(A, 5, 12),))
    move_marker(0, brokers, marker, LiveBatch({0: 7}, found=7, skipped=7))
    done, replay = plan_replay(brokers, marker)
    assert done == 0 and not replay.doubtful and replay.again == ReplayedStretch((OffsetRange(A, 5, 12),))
    move_marker(1, brokers, marker)
    assert plan_replay(brokers, marker)[1].again is None, "this one had an end from the start"


def test_spark_has_written_down_where_a_batch_ends_before_it_runs(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").touch()
    options = SinkOptions(checkpoint=f"file://{tmp_path}")
    assert has_end(options, 3) and not has_end(options, 4)
    assert has_end(SinkOptions(sink_id="x"), 4), "nothing is known of a query whose checkpoint is not"


def test_queues_that_came_later_are_doubtful_from_their_beginning(tmp_path: Path) -> None:
    brokers, marker = Brokers(q0=5), FileMarker(CheckpointLog(str(tmp_path), "sent"))
    plan_replay(brokers, marker)
    brokers.ends[B] = 3
    assert plan_replay(brokers, marker)[1].doubtful == (OffsetRange(B, 0, 3),)


def test_the_marker_of_a_batch_write_stays_where_it_was_first_set() -> None:
    brokers = Brokers(q0=5)
    plan_replay(brokers, GroupMarker(brokers))
    brokers.ends[A] = 8
    assert plan_replay(brokers, GroupMarker(brokers)) == (-1, ReplayedStretch((OffsetRange(A, 5, 8),)))


def test_a_second_attempt_looks_at_all_that_came_since() -> None:
    replay = ReplayedStretch((OffsetRange(A, 5, 5),))
    held = {A: HeldRange(0, 9), B: HeldRange(0, 2)}
    assert replay.until(held) == (OffsetRange(A, 5, 9), OffsetRange(B, 0, 2))
    assert replay.since(A, held) == (OffsetRange(A, 5, 9),)
    assert replay.since(QueueId("out", "gone", 0), held) == ()


def test_rows_are_found_by_key_and_must_be_the_same() -> None:
    keys, other = RowKeys("query", 3, 1), RowKeys("query", 3, 2)
    found = FoundRows(keys.head)
    crcs = [zlib.crc32(b"one") & 0x7FFFFFFF, 7, 8]
    ids = [keys.of_row(0), other.of_row(1), "of another producer"]
    found.add([pa.record_batch([pa.array(ids), pa.array(crcs, pa.int32())], ["message_id", "body_crc"])])
    assert len(found) == 1 and found.has(keys.of_row(0), b"one") and not found.has(keys.of_row(1), b"two")
    with pytest.raises(NotRepeatableError, match="column unique_key"):
        found.has(keys.of_row(0), b"another")
