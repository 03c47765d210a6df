from __future__ import annotations

from dataclasses import replace

import pytest

from pyromq.broker.delays.timer_messages import waiting_of
from pyromq.model.names import TIMER_TOPIC
from pyromq.store.message_store import Placed
from pyromq.store.scrub import HOLD_MS
from pyromq.testing import ManualClock
from pyromq.wire.properties import decode_properties, encode_properties
from pyromq.wire.record import RecordFound
from tests.crash.script import retain
from tests.unit.broker.delays.delay_rig import HOUR_MS, SMALL, DelayRig

DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize("delay_ms", [1, 250, 999, 1_000, 1_001, 2_500, 7_000, 40_123])
def test_a_message_comes_at_its_millisecond(delay_ms: int) -> None:
    rig = DelayRig(clock=ManualClock(1_700_000_000_345))
    rig.send_in("a", delay_ms)
    rig.run()
    rig.pass_time(delay_ms - 1, step_ms=333)
    assert rig.delivered() == []
    rig.pass_time(1, step_ms=1)
    assert rig.delivered() == ["a"]
    rig.pass_time(5_000)
    assert rig.delivered() == ["a"] and rig.timers.pending == 0


def test_what_is_due_first_comes_first() -> None:
    rig = DelayRig()
    for name, delay_ms in (("c", 3_700), ("a", 1_200), ("d", 3_700), ("b", 3_100)):
        rig.send_in(name, delay_ms)
    rig.pass_time(4_000, step_ms=100)
    assert rig.delivered() == ["a", "b", "c", "d"]


def test_what_is_delivered_is_the_message_with_its_waiting_properties() -> None:
    rig = DelayRig()
    rig.send("a", f"TIMER_DELIVER_MS\x01{rig.clock.now_ms() + 2_000}", topic="paid", queue_id=2)
    rig.pass_time(2_000)
    (record,) = rig.records("paid", 2)
    assert (record.flag, record.delivery_attempt, record.born_ms) == (3, 2, 7)
    properties = decode_properties(record.properties)
    waited = {"TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "REAL_TOPIC", "REAL_QID", "UNIQ_KEY", "TAGS"}
    assert waited <= properties.keys()


def test_many_messages_wait_in_files_not_in_memory() -> None:
    rig = DelayRig()
    for number in range(300):
        rig.send_in(f"m{number:03}", 10_000 + number * 100)
    rig.run()
    assert len(rig.timers._heap) == 0 and rig.timers.pending == 300
    rig.pass_time(20_000)
    assert 0 < len(rig.timers._heap) <= 40
    rig.pass_time(20_000)
    assert rig.delivered() == [f"m{number:03}" for number in range(300)]
    assert rig.counters.timers_delivered == 300 and rig.timers.pending == 0
    assert dict(rig.timers.metrics.items()) == {}


def test_a_restart_goes_on_where_it_was() -> None:
    rig = DelayRig()
    for number in range(30):
        rig.send_in(f"m{number:02}", 1_000 * number + 500)
    rig.pass_time(10_000)
    assert len(rig.delivered()) == 10
    rig = rig.reopened()
    assert rig.timers.pending == 20
    rig.pass_time(30_000)
    assert rig.delivered() == [f"m{number:02}" for number in range(30)]


def test_what_was_due_while_the_broker_was_down_comes_at_once() -> None:
    rig = DelayRig()
    rig.send_in("a", 5_000)
    rig = rig.reopened()  # not even looked at
    rig.wall.advance_ms(50_000)
    rig.run()
    assert rig.delivered() == ["a"]


def test_a_restart_after_weeks_loses_nothing() -> None:
    rig = DelayRig()
    rig.send_in("done", 1_000)
    rig.send_in("a", 5_000)
    rig.send_in("b", 90_000)
    rig.pass_time(3_000)
    rig = rig.reopened()
    rig.wall.advance_ms(SMALL.timer_wheel_slots * 5_000)  # the wheel went round several times
    rig = rig.reopened()
    rig.pass_time(2_000)
    assert rig.delivered() == ["done", "a", "b"]


def test_what_is_far_away_goes_through_the_topic_again() -> None:
    rig = DelayRig()
    rig.send_in("a", 450_500)
    rig.pass_time(450_000)
    rolls = [decode_properties(record.properties).get("TIMER_ROLL_TIMES") for record in rig.records(TIMER_TOPIC)]
    assert rolls[:4] == [None, "1", "2", "3"] and rig.delivered() == []
    assert rig.timers.pending == 1
    rig.pass_time(1_000, step_ms=100)
    assert rig.delivered() == ["a"] and rig.timers.pending == 0


def test_retention_does_not_take_a_message_that_waits_for_a_month() -> None:
    """Real lengths: kept for three days, due in thirty, the log files deleted in the meantime."""
    settings = replace(SMALL, timer_roll_ms=2 * DAY_MS, timer_wheel_slots=250_000, delete_hours=tuple(range(24)))
    rig = DelayRig(settings=settings)
    due_ms = rig.clock.now_ms() + 30 * DAY_MS + 777
    rig.send("a", f"TIMER_DELIVER_MS\x01{due_ms}")
    first = rig.store.log.first
    for _ in range(30 * 2):
        for _ in range(15):
            rig.send("filler" * 30, topic="noise")
        rig.pass_time(12 * HOUR_MS, step_ms=12 * HOUR_MS)
        rig.maintenance.delete_expired()
    assert rig.store.log.first > first and rig.delivered() == []
    rig.pass_time(776, step_ms=776)
    assert rig.delivered() == []
    rig.pass_time(1, step_ms=1)
    assert rig.delivered() == ["a"]
    rig.pass_time(3 * DAY_MS, step_ms=DAY_MS)
    assert rig.delivered() == ["a"]


def test_rolls_come_before_a_short_retention() -> None:
    rig = DelayRig(settings=replace(SMALL, keep_ms=30_000))
    rig.send_in("a", 95_000)
    rig.pass_time(21_000)
    assert len(rig.records(TIMER_TOPIC)) == 2


def test_timer_log_files_about_deleted_records_go() -> None:
    rig = DelayRig()
    for number in range(60):
        rig.send_in(f"m{number}", 500)
    rig.pass_time(2_000)
    files = len(rig.disk.names(rig.store.layout.root / "timerlog"))
    retain(rig.store, 2)
    rig.files.forget_before(rig.store.log.first)
    assert 1 <= len(rig.disk.names(rig.store.layout.root / "timerlog")) < files
    rig.send_in("later", 1_500)
    rig.pass_time(3_000)
    assert rig.delivered()[-1] == "later"


# --- cancelling ---


def test_a_cancelled_message_never_comes() -> None:
    rig = DelayRig()
    due_ms = rig.clock.now_ms() + 5_400
    for name in ("a", "b", "c"):
        rig.send_in(name, 5_400)
    rig.pass_time(1_000)
    rig.cancel("b", due_ms + 1)
    rig.pass_time(10_000)
    assert rig.delivered() == ["a", "c"]
    assert rig.counters.timers_cancelled == 1 and rig.timers.pending == 0


def test_a_cancellation_in_the_last_moment_counts() -> None:
    rig = DelayRig()
    due_ms = rig.clock.now_ms() + 5_400
    rig.send_in("a", 5_400)
    rig.pass_time(5_000)
    rig.pass_time(399, step_ms=50)  # its second is in memory long since
    rig.cancel("a", due_ms + 1)
    rig.pass_time(3_000, step_ms=100)
    assert rig.delivered() == []


def test_what_is_being_cancelled_is_held_until_that_is_decided() -> None:
    rig = DelayRig()
    rig.send_in("a", 5_400)
    rig.pass_time(5_000)
    assert rig.timers.hold(b"orders+a") and not rig.timers.hold(b"orders+a")
    rig.pass_time(2_000, step_ms=100)
    assert rig.delivered() == []
    rig.timers.let_go(b"orders+a")
    rig.pass_time(100, step_ms=100)
    assert rig.delivered() == ["a"]


def test_a_cancellation_of_something_far_away_travels_with_it() -> None:
    rig = DelayRig()
    due_ms = rig.clock.now_ms() + 350_400
    rig.send_in("a", 350_400)
    rig.send_in("b", 350_400)
    rig.pass_time(30_000)
    rig.cancel("a", due_ms + 1)
    rig.pass_time(100_000)
    rig = rig.reopened()
    rig.pass_time(230_000)
    assert rig.delivered() == ["b"]


def test_a_cancellation_outlives_a_restart_beyond_the_due_time() -> None:
    rig = DelayRig()
    due_ms = rig.clock.now_ms() + 5_400
    rig.send_in("a", 5_400)
    rig.run()
    rig.save()
    rig.cancel("a", due_ms + 1)  # in the topic, not in the files yet
    rig.store.close()
    rig.wall.advance_ms(60_000)
    rig = DelayRig(rig.disk, rig.wall)
    rig.pass_time(2_000)
    assert rig.delivered() == []


@pytest.mark.parametrize("stop_ms", [120_000, 205_000])
def test_a_cancellation_counts_when_the_broker_was_down_at_its_time(stop_ms: int) -> None:
    """Both times pass while one of message and cancellation, or both, have yet to go through the topic again."""
    rig = DelayRig()
    due_ms = rig.clock.now_ms() + 250_400
    rig.send_in("a", 250_400)  # goes through it after 100 s and 200 s
    rig.send_in("b", 250_400)
    rig.pass_time(110_000)
    rig.cancel("a", due_ms + 1)  # goes through it at 210 s
    rig.pass_time(stop_ms - 110_000)
    rig = rig.reopened()
    rig.wall.advance_ms(300_000)
    rig.pass_time(2_000, step_ms=100)
    assert rig.delivered() == ["b"] and rig.timers.pending == 0


def test_nothing_is_released_before_all_cancellations_in_the_topic_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.broker.delays.timers._FOLLOWED_MAX", 3)
    rig = DelayRig()
    due_ms = rig.clock.now_ms() + 5_400
    for name in "abcdefgh":
        rig.send_in(name, 5_400)
    rig.cancel("a", due_ms + 1)
    rig.store.close()
    rig.wall.advance_ms(60_000)
    rig = DelayRig(rig.disk, rig.wall)
    rig.pass_time(2_000)
    assert rig.delivered() == list("bcdefgh")


# --- trouble ---


def test_a_failed_put_comes_again() -> None:
    rig = DelayRig()
    rig.send_in("a", 1_500)
    rig.send_in("b", 1_600)
    rig.failing = True
    rig.pass_time(2_500, step_ms=500)
    assert rig.delivered() == [] and rig.timers.behind_ms > 0
    rig.failing = False
    rig.pass_time(2_000)
    assert rig.delivered() == ["a", "b"] and rig.timers.behind_ms == 0


def test_a_clock_that_went_back_over_a_restart_delivers_nothing_twice() -> None:
    rig = DelayRig()
    rig.send_in("a", 2_000)
    rig.send_in("b", 300_000)
    rig.pass_time(20_000)
    assert rig.delivered() == ["a"]
    rig.save()
    rig.wall.set_ms(rig.wall.now_ms() - 15_000)
    rig = rig.reopened()
    rig.send_in("soon", 1_000)
    rig.pass_time(2_000)
    assert rig.delivered() == ["a", "soon"]
    rig.pass_time(320_000)
    assert rig.delivered() == ["a", "soon", "b"]


@pytest.mark.parametrize("damage", ["wheel gone", "log gone", "log short", "check gone"])
def test_lost_files_are_made_anew_from_the_topic(damage: str) -> None:
    rig = DelayRig()
    for number in range(30):
        rig.send_in(f"m{number:02}", 1_000 * number + 500)
    rig.send_in("far", 350_000)
    rig.pass_time(15_000)
    rig.save()
    rig.store.close()
    root, disk = rig.store.layout.root, rig.disk
    if damage == "wheel gone":
        disk.remove(root / "timerwheel")
    elif damage == "check gone":
        disk.remove(root / "config" / "timercheck")
    else:
        names = disk.names(root / "timerlog")
        for name in names if damage == "log gone" else names[1:2]:
            disk.remove(root / "timerlog" / name)
    rig = DelayRig(disk, rig.wall)
    rig.pass_time(340_000)
    expected = [*(f"m{number:02}" for number in range(30)), "far"]
    assert list(dict.fromkeys(rig.delivered())) == expected
    if damage != "check gone":  # then what was done is not known
        assert rig.delivered() == expected


def test_a_record_that_is_gone_is_passed_over() -> None:
    rig = DelayRig()
    placed = rig.send_in("a", 3_000)
    rig.send_in("b", 3_000)
    rig.run()
    rig.flip(placed)
    rig.pass_time(5_000)
    assert rig.delivered() == ["b"] and rig.timers.behind_ms == 0


@pytest.mark.parametrize("when", ["in the topic", "in the files", "near"])
def test_a_damaged_message_waits_for_the_member_that_has_it(when: str) -> None:
    """Under a lease the agent hands over; until then nobody may say that the message was delivered."""
    rig = DelayRig()
    rig.maintenance.scrub.holds_reads = True
    placed = rig.send_in("a", 10_000)
    rig.send_in("b", 10_000)
    if when == "in the topic":
        rig.flip(placed)
    rig.pass_time({"in the topic": 1_000, "in the files": 2_000, "near": 9_000}[when])
    if when != "in the topic":
        rig.flip(placed)
    rig.pass_time(20_000)
    assert "a" not in rig.delivered() and rig.store.health.damage
    rig.save()
    rig.flip(placed)  # mended
    rig.maintenance.scrub.mended(placed.position)
    rig.pass_time(3_000)
    assert sorted(rig.delivered()) == ["a", "b"] and rig.timers.behind_ms == 0


def test_a_damaged_message_is_passed_over_when_nobody_takes_over() -> None:
    rig = DelayRig()
    rig.maintenance.scrub.holds_reads = True
    placed = rig.send_in("a", 3_000)
    rig.send_in("b", 3_000)
    rig.run()
    rig.flip(placed)
    rig.pass_time(4_000)
    assert rig.delivered() == ["b"], "others do not wait"
    assert rig.timers.pending == 1
    rig.pass_time(HOLD_MS)
    assert rig.delivered() == ["b"] and (rig.timers.pending, rig.timers.behind_ms) == (0, 0)


def test_a_damaged_cancellation_holds_its_second() -> None:
    """Without it a message would be delivered that its sender was told is recalled."""
    rig = DelayRig()
    rig.maintenance.scrub.holds_reads = True
    rig.send_in("a", 10_000)
    due_ms = rig.clock.now_ms() + 10_000
    rig.cancel("a", due_ms)
    rig.run()
    known = rig.store.reader.entries(TIMER_TOPIC, 0, 1, 1)
    position, size, _ = next(known)
    rig.flip(Placed(position, 1, size))
    rig.pass_time(20_000)
    assert rig.delivered() == []
    rig.flip(Placed(position, 1, size))
    rig.maintenance.scrub.mended(position)
    rig.pass_time(HOLD_MS + 5_000)
    assert rig.delivered() == [] and rig.timers.behind_ms == 0


# --- what RocketMQ wrote ---


def found(stored_ms: int, **properties: str) -> RecordFound:
    raw = encode_properties(properties)
    return RecordFound(100, 0, 0, 0, stored_ms, TIMER_TOPIC.encode(), raw)


@pytest.mark.parametrize(
    ("properties", "by_second"),
    [
        ({"TIMER_OUT_MS": "5000", "TIMER_DELIVER_MS": "5000"}, False),
        ({"TIMER_OUT_MS": "5000", "TIMER_DELIVER_MS": "5700"}, True),
        ({"TIMER_OUT_MS": "5700", "TIMER_DELIVER_MS": "5700"}, False),
        ({"TIMER_OUT_MS": "5000", "TIMER_DELAY_MS": "4000"}, False),
        ({"TIMER_OUT_MS": "5000", "TIMER_DELAY_SEC": "5"}, True),
        ({"TIMER_OUT_MS": "5000", "TIMER_DELAY_MS": "4000", "TIMER_ROLL_TIMES": "1"}, True),
    ],
)
def test_times_that_rocketmq_moved_to_the_second_before_are_recognised(
    properties: dict[str, str], by_second: bool
) -> None:
    waiting = waiting_of(found(1_002, **properties), 0, 100)
    assert waiting is not None and waiting.by_second is by_second


def test_a_message_without_time_is_passed_over() -> None:
    assert waiting_of(found(1, UNIQ_KEY="a"), 0, 100) is None
