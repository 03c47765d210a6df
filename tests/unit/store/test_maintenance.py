from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.errors import DiskFullError
from pyromq.store.log.retention import DiskState, KeptFile, count_to_delete, disk_state
from pyromq.store.maintenance import Maintenance
from pyromq.store.message_store import MessageStore
from pyromq.store.read_result import ReadStatus
from pyromq.store.settings import Flush, StoreSettings
from pyromq.testing import CrashMode, FaultyDisk, ManualClock
from pyromq.wire.record import Draft

HOUR_MS = 3_600_000
ROOT = Path("/data")
FILES = [KeptFile(Path(f"/{n}"), modified_ms=n * HOUR_MS) for n in range(6)]
SETTINGS = StoreSettings(keep_ms=2 * HOUR_MS, delete_hours=(4,), delete_files_max=3)


def to_delete(*, now_h: float, hour: int = 4, state: DiskState = DiskState.FINE) -> int:
    return count_to_delete(FILES, now_ms=int(now_h * HOUR_MS), local_hour=hour, state=state, settings=SETTINGS)


def test_expired_files_go_in_the_hour_of_deletion_only() -> None:
    assert to_delete(now_h=3.5) == 2
    assert to_delete(now_h=3.5, hour=5) == 0
    assert to_delete(now_h=1.5) == 0


def test_expired_files_go_at_any_hour_when_the_disk_fills_up() -> None:
    assert to_delete(now_h=3.5, hour=5, state=DiskState.CLEAN) == 2


def test_files_go_before_they_expire_when_the_disk_is_nearly_full() -> None:
    assert to_delete(now_h=0, hour=5, state=DiskState.FORCE_CLEAN) == 3
    assert to_delete(now_h=0, hour=5, state=DiskState.FULL) == 3


def test_no_more_files_go_at_once_than_allowed_and_never_the_last() -> None:
    assert to_delete(now_h=100) == 3
    assert count_to_delete(FILES[:1], now_ms=1 << 50, local_hour=4, state=DiskState.FULL, settings=SETTINGS) == 0


@pytest.mark.parametrize(
    ("percent", "state"),
    [
        (75, DiskState.FINE),
        (76, DiskState.CLEAN),
        (85, DiskState.CLEAN),
        (86, DiskState.FORCE_CLEAN),
        (90, DiskState.FORCE_CLEAN),
        (91, DiskState.FULL),
    ],
)
def test_how_full_the_disk_is_has_four_stages(percent: int, state: DiskState) -> None:
    assert disk_state(percent, SETTINGS) is state


class Bench:
    def __init__(self, **settings: object) -> None:
        self.clock = ManualClock()
        self.disk = FaultyDisk(clock_ms=self.clock.now_ms)
        sizes = {"segment_bytes": 4096, "queue_file_entries": 8, "index_entries": 40, "index_slots": 8}
        self.settings = StoreSettings(**sizes, **settings)  # type: ignore[arg-type]
        self.open()

    def open(self) -> None:
        self.store = MessageStore.open(ROOT, self.settings, disk=self.disk, clock=self.clock)
        self.maintenance = Maintenance(self.store, self.disk, self.clock)

    def send(self, count: int) -> None:
        for number in range(count):
            properties = b"UNIQ_KEY\x01%d\x02" % number
            self.store.append([Draft(topic="orders", queue_id=0, body=b"x" * 700, properties=properties)])
            self.store.flush()

    def tick(self, after_ms: int) -> None:
        self.clock.advance_ms(after_ms)
        self.maintenance.tick()


def test_retention_moves_the_start_of_log_queues_and_index_together() -> None:
    bench = Bench(keep_ms=HOUR_MS, delete_hours=tuple(range(24)))
    bench.send(60)
    bench.store.indexer.index_all()
    bench.clock.advance_ms(HOUR_MS)
    files = len(bench.store.log.segments)
    bench.tick(10_000)
    assert len(bench.store.log.segments) == files - 10
    first = bench.store.reader.range_of("orders", 0)
    assert first is not None and 0 < first.first < first.end == 60
    assert bench.store.reader.read("orders", 0, 0).status is ReadStatus.OFFSET_TOO_SMALL
    assert bench.store.reader.read("orders", 0, first.first).status is ReadStatus.FOUND
    assert bench.store.queues["orders", 0].segments.first.base > 0
    assert bench.store.find("orders", "3") == []
    assert len(bench.store.find("orders", "59")) == 1
    for _ in range(10):
        bench.tick(10_000)
    assert len(bench.store.log.segments) == 1, "the file being written stays"
    for mode in CrashMode:
        bench.disk = bench.disk.after_crash(mode)
        bench.open()
        survivor = bench.store.reader.range_of("orders", 0)
        assert survivor is not None and survivor.end == 60


def test_a_queue_whose_messages_all_expired_goes_on_counting() -> None:
    bench = Bench(keep_ms=HOUR_MS, delete_hours=tuple(range(24)))
    bench.send(20)
    bench.store.append([Draft(topic="other", queue_id=0, body=b"y" * 3000) for _ in range(3)])
    bench.store.flush()
    bench.clock.advance_ms(HOUR_MS)
    bench.tick(10_000)
    gone = bench.store.reader.range_of("orders", 0)
    assert gone == (20, 20)
    bench.store.close()
    bench.open()
    (placed,) = bench.store.append([Draft(topic="orders", queue_id=0, body=b"new")])
    assert placed.offset == 20


def test_a_disk_beyond_its_limit_refuses_writes_and_accepts_them_when_space_returns() -> None:
    bench = Bench()
    bench.send(3)
    bench.disk.capacity_bytes, bench.disk.other_bytes = 1 << 30, 95 << 23
    bench.tick(1_000)
    bench.disk.other_bytes = (1 << 30) * 92 // 100
    bench.tick(1_000)
    with pytest.raises(DiskFullError, match="% full"):
        bench.send(1)
    assert bench.store.reader.read("orders", 0, 0).count > 0
    bench.disk.other_bytes = 1 << 20
    bench.tick(1_000)
    bench.send(1)


def test_a_nearly_full_disk_deletes_the_oldest_files_first() -> None:
    bench = Bench(keep_ms=1 << 60)
    bench.send(30)
    files = len(bench.store.log.segments)
    bench.disk.capacity_bytes, bench.disk.other_bytes = 1 << 30, (1 << 30) * 88 // 100
    bench.tick(1_000)
    assert len(bench.store.log.segments) < files
    assert bench.store.health.writable


def test_async_flush_is_paced_by_bytes_and_time() -> None:
    bench = Bench(flush=Flush.ASYNC, flush_interval_ms=500, flush_bytes_min=2000, flush_thorough_ms=10_000)

    def unflushed_after(messages: int, wait_ms: int) -> bool:
        bench.store.append([Draft(topic="orders", queue_id=0, body=b"x" * 700) for _ in range(messages)])
        bench.tick(wait_ms)
        return bench.store.log.unflushed_bytes > 0

    assert unflushed_after(1, 600), "too little to be worth a flush"
    assert not unflushed_after(4, 600)
    assert unflushed_after(4, 100), "too early"
    assert not unflushed_after(0, 600)
    assert not unflushed_after(1, 10_000), "everything is flushed now and then"


def test_a_seal_is_made_after_some_time_and_after_some_bytes() -> None:
    bench = Bench(seal_interval_ms=60_000, seal_bytes=8_000)
    bench.send(2)
    bench.tick(10)
    assert bench.store.seals.position == 0
    bench.tick(60_000)
    assert bench.store.seals.position == bench.store.end_position
    bench.send(12)
    bench.tick(10)
    assert bench.store.seals.position == bench.store.end_position
