"""Queues that are owed entries, in line for a write, and the note that waits behind them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.entry_backlog import EntryBacklog
from pyromq.store.derived.queue_entry import ENTRY_BYTES
from pyromq.store.files.segments import SegmentList
from pyromq.testing import FaultyDisk

ENTRIES_MAX = 8


class Bench:
    """A backlog with three queues of one topic, and what it noted."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.noted: list[int] = []
        self.backlog = EntryBacklog(ENTRIES_MAX, self.noted.append)
        self.queues = [self._queue(number) for number in range(3)]

    def _queue(self, number: int) -> ConsumeQueue:
        files = SegmentList(self.disk, Path(f"/data/orders/{number}"), 100 * ENTRY_BYTES, [], derived=True)
        return ConsumeQueue("orders", number, files)

    def stage(self, *numbers: int) -> None:
        for number in numbers:
            queue = self.queues[number]
            queue.stage(1_000 + queue.next_offset, 100, 0)
            self.backlog.add(queue)

    def commit(self, *numbers: int) -> bool:
        """Stage and commit an entry for each number."""
        self.stage(*numbers)
        return self.backlog.commit()

    @property
    def owed(self) -> list[int]:
        return [queue.owed_entries for queue in self.queues]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_entries_are_owed_once_they_are_committed(bench: Bench) -> None:
    bench.stage(0, 0, 2)
    assert bench.owed == [0, 0, 0]
    bench.backlog.commit()
    assert bench.owed == [2, 0, 1] and not bench.backlog.line.has_staged
    bench.backlog.write()
    assert bench.owed == [0, 0, 0] and bench.queues[0].end == 2


def test_what_is_dropped_is_not_owed_and_its_offsets_are_given_again(bench: Bench) -> None:
    bench.commit(0)
    bench.stage(0, 1)
    bench.backlog.drop_staged()
    assert not bench.backlog.line.has_staged and bench.owed == [1, 0, 0]
    assert [queue.next_offset for queue in bench.queues] == [1, 0, 0]


def test_who_has_waited_longest_is_written_first(bench: Bench) -> None:
    for number in (2, 0, 1, 2):  # a debt that grows keeps its place
        bench.commit(number)
    bench.backlog.write(1)
    assert bench.owed == [1, 1, 0]
    bench.commit(2)
    bench.backlog.write(2)
    assert bench.owed == [0, 0, 1]


def test_a_queue_that_the_disk_refuses_stays_in_line_with_those_behind_it(bench: Bench) -> None:
    for number in (0, 1, 2):
        bench.commit(number)
    bench.queues[1].write_owed()  # its file exists
    bench.disk.fail_at(bench.disk.operations + 1, errno.ENOSPC)
    with pytest.raises(OSError, match="simulated"):
        bench.backlog.write()
    assert bench.owed == [1, 0, 1]
    bench.backlog.write()
    assert bench.owed == [0, 0, 0]


# --- how much is too much ---


def test_it_is_time_to_write_when_as_many_entries_are_owed_as_may_be(bench: Bench) -> None:
    assert [bench.commit(0, 1) for _ in range(ENTRIES_MAX // 2)] == [False, False, False, True]
    bench.backlog.write()
    assert not bench.commit(0)


def test_what_readers_had_written_does_not_count(bench: Bench) -> None:
    bench.commit(1)
    for _ in range(3 * ENTRIES_MAX):
        assert not bench.commit(0)
        bench.queues[0].write_owed()


def test_what_was_dropped_does_not_count(bench: Bench) -> None:
    for _ in range(ENTRIES_MAX):
        bench.stage(0)
        bench.backlog.drop_staged()
    assert not bench.commit(*[0] * (ENTRIES_MAX - 1))
    assert bench.commit(0)


def test_it_stays_too_much_until_entries_are_written(bench: Bench) -> None:
    bench.commit(*[0] * ENTRIES_MAX)
    assert bench.commit(0) and bench.commit(0)


# --- the note ---


def test_with_no_queue_in_line_a_position_is_noted_at_once(bench: Bench) -> None:
    bench.backlog.note_when_written(100)
    assert bench.noted == [100]


def test_a_note_waits_for_the_queues_in_line_and_for_none_that_comes_later(bench: Bench) -> None:
    bench.commit(0)
    bench.commit(1)
    bench.backlog.note_when_written(100)
    bench.commit(2)
    bench.backlog.write(1)
    assert bench.noted == []
    bench.backlog.write(1)
    assert bench.noted == [100] and bench.owed == [0, 0, 1]


def test_while_a_note_waits_a_later_one_is_not_taken(bench: Bench) -> None:
    bench.commit(0)
    bench.backlog.note_when_written(100)
    bench.backlog.note_when_written(200)
    bench.backlog.write()
    assert bench.noted == [100]
    bench.backlog.note_when_written(200)
    assert bench.noted == [100, 200]


def test_a_note_waits_on_when_the_disk_refuses_the_entries(bench: Bench) -> None:
    bench.commit(0)
    bench.backlog.note_when_written(100)
    bench.disk.fail_at(bench.disk.operations + 1, errno.EIO)
    with pytest.raises(OSError, match="simulated"):
        bench.backlog.write()
    assert bench.noted == []
    bench.backlog.write()
    assert bench.noted == [100]


def test_a_note_waits_for_a_queue_that_was_deleted_as_for_any_other(bench: Bench) -> None:
    for number in (0, 1):
        bench.commit(number)
    bench.backlog.note_when_written(100)
    bench.commit(2)
    bench.queues[0].forget_all()
    bench.backlog.write(1)
    assert bench.noted == [] and bench.owed == [0, 1, 1]
    bench.backlog.write(1)
    assert bench.noted == [100]
    assert not bench.disk.exists(bench.queues[0].segments.folder), "nothing was written for it"
