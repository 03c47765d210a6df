"""Commit log files on their way out, without a store around them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.errors import StoreError
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.key_index import KeyIndex
from pyromq.store.derived.queue_entry import ENTRY_BYTES
from pyromq.store.files.segments import SegmentList
from pyromq.store.log.commit_log import CommitLog
from pyromq.store.removal import Removal
from pyromq.store.settings import StoreSettings
from pyromq.testing import FaultyDisk, ManualClock

FILE_BYTES, FILES, QUEUES = 1_000, 4, 3


class Bench:
    """A log of some files; each queue has an entry, in a file of its own, about every one of them."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        segments = SegmentList(self.disk, Path("/data/commitlog"), FILE_BYTES, [])
        for number in range(FILES):
            segments.get_or_create(number * FILE_BYTES)
        settings = StoreSettings()
        self.log = CommitLog(segments, settings, bytes(8))
        index = KeyIndex(self.disk, Path("/data/index"), settings, ManualClock())
        self.queues = {("orders", number): self._queue(number) for number in range(QUEUES)}
        self.removal = Removal(self.disk, self.log, self.queues, index)

    def _queue(self, number: int) -> ConsumeQueue:
        files = SegmentList(self.disk, Path(f"/data/orders/{number}"), ENTRY_BYTES, [], derived=True)
        queue = ConsumeQueue("orders", number, files)
        for file in range(FILES):
            queue.stage(file * FILE_BYTES, 100, 0)
        queue.write_staged()
        return queue

    def take(self, count: int) -> None:
        for _ in range(count):
            self.removal.add(self.log.segments.take_first())

    @property
    def on_disk(self) -> list[int]:
        return [int(name) for name in self.disk.names(Path("/data/commitlog"))]

    @property
    def firsts(self) -> list[int]:
        return [queue.first for queue in self.queues.values()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_files_leave_the_disk_when_it_runs_and_queues_forget_them_after_that(bench: Bench) -> None:
    bench.take(2)
    bench.removal.trim_queues()
    assert bench.on_disk == [0, 1000, 2000, 3000] and bench.firsts == [0, 0, 0]
    bench.removal.run()
    assert bench.on_disk == [2000, 3000] and bench.removal.oldest is None
    bench.removal.trim_queues()
    assert bench.firsts == [2, 2, 2]
    assert all(len(queue.segments) == 2 for queue in bench.queues.values())


def test_what_could_not_be_removed_is_the_first_of_the_next_run(bench: Bench) -> None:
    bench.take(2)
    bench.disk.fail_at(bench.disk.operations + 3, errno.EIO)  # a name goes, that becomes durable, the next one goes
    with pytest.raises(OSError, match="simulated"):
        bench.removal.run()
    assert bench.on_disk == [1000, 2000, 3000]
    assert bench.removal.oldest is not None and bench.removal.oldest.base == 1000
    bench.removal.trim_queues()
    assert bench.firsts == [1, 1, 1], "of the file that is left nothing is forgotten"
    bench.removal.run()
    assert bench.on_disk == [2000, 3000]


def test_it_is_handed_to_a_worker_once_and_again_when_more_is_to_do(bench: Bench) -> None:
    handed: list[Callable[[], None]] = []
    bench.removal.start(handed.append)
    assert not handed, "nothing to do"
    bench.take(1)
    bench.removal.start(handed.append)
    bench.take(1)
    bench.removal.start(handed.append)
    (run,) = handed
    run()
    assert bench.on_disk == [2000, 3000], "what came meanwhile goes with it"
    bench.take(1)
    bench.removal.start(handed.append)
    assert len(handed) == 2


def test_after_a_run_that_failed_it_can_be_handed_out_again(bench: Bench) -> None:
    handed: list[Callable[[], None]] = []
    bench.take(1)
    bench.removal.start(handed.append)
    bench.disk.fail_at(bench.disk.operations + 1, errno.EIO)
    with pytest.raises(OSError, match="simulated"):
        handed[0]()
    bench.removal.start(handed.append)
    assert len(handed) == 2


def test_queues_that_are_half_trimmed_are_finished_before_a_further_file_counts(bench: Bench) -> None:
    bench.take(1)
    bench.removal.run()
    bench.removal.trim_queues(2)
    bench.take(1)
    bench.removal.run()
    bench.removal.trim_queues(2)
    assert bench.firsts == [1, 1, 1]
    bench.removal.trim_queues(2)
    bench.removal.trim_queues(2)
    assert bench.firsts == [2, 2, 2]


def test_a_queue_file_that_cannot_be_removed_is_said_aloud(bench: Bench) -> None:
    bench.take(1)
    bench.removal.run()
    bench.disk.fail_at(bench.disk.operations + 1, errno.EIO)
    with pytest.raises(StoreError, match="could not be removed"):
        bench.removal.trim_queues()
