from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pyromq.store.files.disk import RealDisk
from pyromq.store.files.segments import SegmentList
from pyromq.store.message_store import MessageStore
from pyromq.store.read_result import QueueRange
from pyromq.store.settings import StoreSettings
from pyromq.store.timers.check import TimerCheck, load_timer_check, save_timer_check
from pyromq.store.timers.files import TimerFiles, Waiting, remove_timer_files
from pyromq.store.timers.log import TimerAction, TimerLog, TimerUnit
from pyromq.store.timers.metrics import TimerMetrics
from pyromq.store.timers.wheel import TimerWheel, WheelSlot
from pyromq.testing import FaultyDisk

ROOT = Path("/store")
FILE_BYTES = 4 * 52 + 16
NOW_MS = 1_700_000_000_123
SETTINGS = StoreSettings(
    timer_wheel_slots=500, timer_log_bytes=FILE_BYTES, timer_roll_ms=100_000, segment_bytes=8192, index_slots=16
)


def unit(previous: int = -1, *, position: int = 0, kind: int = 1) -> TimerUnit:
    return TimerUnit(previous, kind, NOW_MS, 5_000, position, 100, -7)


def timer_log(disk: FaultyDisk) -> TimerLog:
    return TimerLog(SegmentList.load(disk, ROOT / "timerlog", FILE_BYTES))


# --- the bytes ---


def test_a_unit_lies_as_rocketmq_has_it() -> None:
    made = TimerUnit(104, 5, 1_700_000_000_123, 4_877, 1 << 33, 321, -559038737).pack()
    assert made == bytes.fromhex(
        "00000034 0000000000000068 00000005 0000018bcfe5687b 0000130d 0000000200000000 00000141 deadbeef"
        "0000000000000000"
    )


def test_the_end_of_a_file_is_marked_and_units_go_on_in_the_next() -> None:
    disk = FaultyDisk()
    log = timer_log(disk)
    positions = [log.append(unit(position=number)) for number in range(6)]
    log.write()
    assert positions == [0, 52, 104, 156, FILE_BYTES, FILE_BYTES + 52]
    first = disk.read(ROOT / "timerlog" / f"{0:020d}")
    assert first[208:] == struct.pack(">iqI", 16, 0, 0xCBD43194)
    assert [found.position for _, found in log.scan(0)] == list(range(6))


def test_a_slot_lies_as_rocketmq_has_it() -> None:
    disk = FaultyDisk()
    wheel = TimerWheel(disk, ROOT / "timerwheel", 500)
    wheel.link(1_700_000_007, 520, 1)
    wheel.link(1_700_000_007, 572, 1)
    wheel.link(1_700_000_008, 624, 1)
    wheel.link(1_700_000_007, 676, -1)
    wheel.write()
    data = disk.read(ROOT / "timerwheel")
    assert len(data) == 500 * 32
    assert data[7 * 32 : 8 * 32] == struct.pack(">qqqii", 1_700_000_007, 520, 676, 1, 0)
    assert data[8 * 32 : 9 * 32] == struct.pack(">qqqii", 1_700_000_008, 624, 624, 1, 0)
    assert not any(data[: 7 * 32]) and not any(data[9 * 32 :])


def test_the_wheel_of_a_real_store_has_rocketmqs_size(tmp_path: Path) -> None:
    wheel = TimerWheel(RealDisk(), tmp_path / "timerwheel", StoreSettings().timer_wheel_slots)
    wheel.link(1_700_000_007, 0, 1)
    wheel.write()
    assert (tmp_path / "timerwheel").stat().st_size == 38_707_200
    wheel.close()


def test_a_slot_of_another_round_is_empty() -> None:
    wheel = TimerWheel(FaultyDisk(), ROOT / "timerwheel", 500)
    wheel.link(1_000, 52, 1)
    wheel.write()
    assert wheel.get(1_500) == WheelSlot(1_500) and wheel.get(1_000).last == 52
    assert list(wheel.occupied(1_001, 1_501)) == []


def test_occupied_slots_come_in_order_around_the_end_of_the_file() -> None:
    wheel = TimerWheel(FaultyDisk(), ROOT / "timerwheel", 500)
    for second in (1_499, 1_500, 1_510, 1_020):
        wheel.link(second, second, 1)
    wheel.write()
    wheel.link(1_501, 7, 1)
    wheel.put(WheelSlot(1_510))
    assert [slot.second for slot in wheel.occupied(1_010, 1_600)] == [1_020, 1_499, 1_500, 1_501]


def test_the_note_lies_as_rocketmq_has_it_and_says_who_wrote_it() -> None:
    disk, path = FaultyDisk(), ROOT / "config" / "timercheck"
    assert load_timer_check(disk, path) is None
    check = TimerCheck(1_700_000_000_000, 104, 2, 2, 0, 1_700_000_000_123, 9)
    save_timer_check(disk, path, check)
    data = disk.read(path)
    assert len(data) == 4096 and data[:56] == struct.pack(">7q", *check) == check.pack()
    assert load_timer_check(disk, path) == (check, True)
    disk.write(path, data[:56].ljust(4096, b"\0"))
    assert load_timer_check(disk, path) == (check, False)


def test_metrics_are_kept_by_topic() -> None:
    metrics = TimerMetrics.load(FaultyDisk(), ROOT)
    metrics.add("orders", 1, 5)
    metrics.add("orders", 1, 6)
    metrics.add("paid", 1, 6)
    metrics.add("paid", -1, 7)
    metrics.save()
    again = TimerMetrics(metrics._file)
    again._read()
    assert {topic: (count.count, count.time_stamp) for topic, count in again.items()} == {"orders": (2, 6)}


# --- opening ---


class Files:
    """Timer files beside a store that has no messages; units point nowhere, and are not followed."""

    def __init__(self, disk: FaultyDisk | None = None) -> None:
        self.disk = disk or FaultyDisk()
        self.store = MessageStore.open(ROOT, SETTINGS, disk=self.disk)

    def open(self, now_ms: int = NOW_MS, end: int = 100) -> TimerFiles:
        return TimerFiles.open(self.disk, ROOT, SETTINGS, self.store.records, QueueRange(0, end), now_ms)


def add(files: TimerFiles, count: int, due_ms: int = NOW_MS + 5_000) -> None:
    for _ in range(count):
        offset = files.queue_offset
        assert files.add(Waiting(due_ms, offset * 100, 100, NOW_MS), offset) is not None
        files.queue_offset += 1


def flush(files: TimerFiles) -> None:
    job = files.flush(NOW_MS)
    job.run()
    files.flushed(job)


def positions(files: TimerFiles, due_ms: int = NOW_MS + 5_000) -> list[int]:
    return [found.position // 100 for _, found in files.units(due_ms // 1_000)]


def test_what_is_behind_the_note_is_dropped_and_its_chain_mended() -> None:
    made = Files()
    files = made.open()
    add(files, 6)
    flush(files)
    add(files, 5)
    add(files, 2, NOW_MS + 9_000)
    files.flush(NOW_MS)  # written, and the note never follows
    files = made.open()
    assert positions(files) == [0, 1, 2, 3, 4, 5] and positions(files, NOW_MS + 9_000) == []
    assert files.queue_offset == 6 and files.pending(NOW_MS // 1_000) == 6
    add(files, 1)
    files.write()
    assert positions(files) == [0, 1, 2, 3, 4, 5, 6]


def test_rocketmqs_units_behind_its_note_count() -> None:
    made = Files()
    files = made.open()
    add(files, 6)
    flush(files)
    check = files.noted._replace(log_end=52, queue_offset=1)
    disk, path = made.disk, ROOT / "config" / "timercheck"
    disk.write(path, check.pack().ljust(4096, b"\0"))
    made.store.log.end = 1_000  # where the records would be
    files = made.open()
    assert positions(files) == [0, 1, 2, 3, 4, 5]


def test_a_unit_of_rocketmq_is_due_when_its_second_is_over() -> None:
    assert TimerUnit(-1, 1, 1_000, 4_000, 0, 1).release_ms == 6_000
    assert TimerUnit(-1, 1, 1_001, 3_999, 0, 1).release_ms == 5_000
    assert TimerUnit(-1, 1, 1_001, 4_500, 0, 1).release_ms == 5_501


def test_our_units_never_look_like_rocketmqs() -> None:
    files = Files().open(now_ms=5_000)
    _, ours = files.add(Waiting(9_000, 0, 100, 5_000), 0) or (0, unit())
    assert ours.release_ms == 9_000
    _, theirs = files.add(Waiting(9_000, 0, 100, 5_400, by_second=True), 1) or (0, unit())
    assert theirs.release_ms == 10_000


@pytest.mark.parametrize(
    ("delay_ms", "planned_ms", "rolls"),
    [(99_999, 99_999, False), (100_000, 50_000, True), (133_000, 50_000, True), (140_000, 100_000, True)],
)
def test_far_times_are_planned_as_rocketmq_does(delay_ms: int, planned_ms: int, rolls: bool) -> None:
    files = Files().open()
    _, planned = files.add(Waiting(NOW_MS + delay_ms, 0, 100, NOW_MS), 0) or (0, unit())
    assert planned.written_ms + planned.delay_ms == NOW_MS + planned_ms
    assert bool(planned.kind & TimerAction.ROLL) is rolls


def test_a_delay_that_fits_no_unit_is_written_as_one_that_does() -> None:
    files = Files().open()
    _, late = files.add(Waiting(5_000, 0, 100, 4_000), 0) or (0, unit())  # due 53 years ago
    assert late.second == NOW_MS // 1_000 and 0 <= late.delay_ms < 1 << 31


# --- what came too late for its second ---


def on_a_replica_that_is_master_now(made: Files, now_ms: int) -> TimerFiles:
    """It has the topic and the note."""
    remove_timer_files(made.disk, ROOT)
    return made.open(now_ms)


def test_a_late_message_is_not_noted_as_done_before_its_new_second_is_over() -> None:
    made = Files()
    files = made.open()
    add(files, 1, NOW_MS - 5_000)  # all members were away when it was due
    flush(files)
    next_master = on_a_replica_that_is_master_now(made, NOW_MS + 2_000)
    assert next_master.add(Waiting(NOW_MS - 5_000, 0, 100, NOW_MS - 9_000), 0) is not None, "nobody has delivered it"


def test_a_late_message_is_noted_as_done_when_its_new_second_is_over() -> None:
    made = Files()
    files = made.open()
    add(files, 1, NOW_MS - 5_000)
    flush(files)
    files.read_second += 1
    flush(files)
    assert files.noted.read_ms == files.read_second * 1_000
    next_master = on_a_replica_that_is_master_now(made, NOW_MS + 2_000)
    assert next_master.add(Waiting(NOW_MS - 5_000, 0, 100, NOW_MS - 9_000), 0) is None


def test_what_was_late_in_an_earlier_life_is_not_noted_as_done_either() -> None:
    made = Files()
    files = made.open()
    add(files, 1, NOW_MS - 5_000)
    flush(files)
    files = made.open(NOW_MS + 2_000)  # the same broker again
    files.read_second = NOW_MS // 1_000  # nothing was due before that; the late one waits still
    flush(files)
    assert files.noted.read_ms == (NOW_MS - 5_000) // 1_000 * 1_000
    files.read_second = NOW_MS // 1_000 + 3
    flush(files)
    assert files.noted.read_ms == files.read_second * 1_000
