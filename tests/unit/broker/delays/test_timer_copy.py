"""What a copy leaves behind for RocketMQ: timer files that say what waits, made from the log and the master's note."""

from __future__ import annotations

from random import Random

import pytest

from pyromq.broker.delays.timer_copy import make_timer_files
from pyromq.model.names import TIMER_TOPIC
from pyromq.store.timers.check import load_timer_check
from pyromq.store.timers.files import TimerFiles, remove_timer_files
from pyromq.store.timers.log import SECOND_MS
from pyromq.testing.faulty_disk import Crashed, CrashMode
from tests.unit.broker.delays.delay_rig import ROOT, SMALL, UNITS_PER_FILE, DelayRig

NOTE = ROOT / "config" / "timercheck"


def as_a_copy(rig: DelayRig) -> None:
    """A replica has the log and the master's note, and no timer files of its own."""
    rig.files.close()
    remove_timer_files(rig.disk, ROOT)


def rig_with_waiting() -> DelayRig:
    """One message was delivered before the master's note, one after it; others wait, one of them not noted at all."""
    rig = DelayRig()
    for name, delay_ms in (("before", 2_000), ("after", 8_000), ("late", 60_000)):
        rig.send_in(name, delay_ms)
    rig.pass_time(5_000)
    rig.save()
    rig.send_in("unnoted", 30_000)
    return rig


def waiting_seconds(rig: DelayRig) -> list[int]:
    """What RocketMQ finds: the wheel, from the second of the note on."""
    queue = rig.store.reader.range_of(TIMER_TOPIC, 0)
    assert queue is not None
    files = TimerFiles.open(rig.disk, ROOT, SMALL, rig.store.records, queue, rig.clock.now_ms())
    found = files.occupied(files.read_second, files.read_second + SMALL.timer_wheel_slots // 2)
    files.close()
    return found


def test_files_say_what_waits_and_the_note_that_all_was_followed() -> None:
    rig = rig_with_waiting()
    began_ms = rig.clock.now_ms() - 5_000
    as_a_copy(rig)
    before = load_timer_check(rig.disk, NOTE)
    make_timer_files(rig.store, rig.disk, rig.clock.now_ms())
    after = load_timer_check(rig.disk, NOTE)
    assert before is not None and after is not None
    assert after[0].read_ms == before[0].read_ms, "what was due since the note is still to be delivered"
    assert after[0].queue_offset == after[0].master_queue_offset == 4
    assert rig.disk.exists(ROOT / "timerwheel") and rig.disk.names(ROOT / "timerlog")
    due_ms = [began_ms + 8_000, began_ms + 35_000, began_ms + 60_000]
    assert waiting_seconds(rig) == [each // SECOND_MS for each in due_ms]


def test_a_master_on_the_folder_delivers_what_waits_once() -> None:
    rig = rig_with_waiting()
    as_a_copy(rig)
    make_timer_files(rig.store, rig.disk, rig.clock.now_ms())
    rig.store.close()
    rig.wall.advance_ms(10_000)
    again = DelayRig(rig.disk, rig.wall)
    again.pass_time(90_000)
    assert sorted(again.delivered()) == ["after", "before", "late", "unnoted"]


@pytest.mark.parametrize("times", [2, 5])
def test_a_copy_that_is_stopped_again_and_again_loses_nothing(times: int) -> None:
    rig = rig_with_waiting()
    for _ in range(times):
        as_a_copy(rig)
        make_timer_files(rig.store, rig.disk, rig.clock.now_ms())
        rig.wall.advance_ms(3_000)
    rig.store.close()
    again = DelayRig(rig.disk, rig.wall)
    again.pass_time(90_000)
    assert sorted(again.delivered()) == ["after", "before", "late", "unnoted"]


def test_more_than_one_file_of_units() -> None:
    rig = DelayRig()
    rig.save()
    names = [f"m{number:03}" for number in range(UNITS_PER_FILE * 3)]
    for number, name in enumerate(names):
        rig.send_in(name, 5_000 + number * 1_000)
    rig.run()
    rig.save()
    as_a_copy(rig)
    make_timer_files(rig.store, rig.disk, rig.clock.now_ms())
    assert len(waiting_seconds(rig)) == len(names)
    rig.store.close()
    again = DelayRig(rig.disk, rig.wall)
    again.pass_time(60_000)
    assert again.delivered() == names


def test_where_nothing_was_delayed_nothing_is_made() -> None:
    rig = DelayRig()
    rig.send("at once")
    as_a_copy(rig)
    make_timer_files(rig.store, rig.disk, rig.clock.now_ms())
    assert not rig.disk.exists(ROOT / "timerwheel") and not rig.disk.exists(NOTE)


@pytest.mark.parametrize("mode", list(CrashMode))
def test_a_crash_at_any_operation_loses_nothing(mode: CrashMode) -> None:
    operation = 0
    while True:
        rig = rig_with_waiting()
        as_a_copy(rig)
        operation += 1
        rig.disk.crash_at(rig.disk.operations + operation)
        try:
            make_timer_files(rig.store, rig.disk, rig.clock.now_ms())
        except Crashed:
            pass
        else:
            break
        again = DelayRig(rig.disk.after_crash(mode, Random(operation)), rig.wall)
        again.pass_time(90_000)
        assert {"after", "before", "late", "unnoted"} == set(again.delivered()), operation
    assert operation > 5, "something was written"


def test_a_disk_that_fails_leaves_the_note_of_the_master() -> None:
    rig = rig_with_waiting()
    as_a_copy(rig)
    before = load_timer_check(rig.disk, NOTE)
    rig.disk.fail_syncs()
    with pytest.raises(OSError):
        make_timer_files(rig.store, rig.disk, rig.clock.now_ms())
    assert load_timer_check(rig.disk, NOTE) == before
