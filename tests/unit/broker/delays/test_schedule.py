from __future__ import annotations

from dataclasses import replace

import pytest

from pyromq.model.names import HALF_TOPIC, SCHEDULE_TOPIC
from pyromq.store.maintenance import Maintenance
from pyromq.store.scrub import HOLD_MS
from pyromq.testing import ManualClock
from pyromq.wire.java_hash import tag_hash
from pyromq.wire.properties import decode_properties
from pyromq.wire.record import Draft
from tests.crash.script import retain
from tests.unit.broker.delays.delay_rig import HOUR_MS, SMALL, DelayRig

DAY_MS = 24 * HOUR_MS


def test_a_message_of_a_level_comes_when_its_delay_is_over_and_not_before() -> None:
    rig = DelayRig()
    rig.send_at_level("a", 2)
    rig.pass_time(4_999, step_ms=100)
    assert rig.delivered() == []
    rig.pass_time(1, step_ms=1)
    assert rig.delivered() == ["a"]
    rig.pass_time(60_000)
    assert rig.delivered() == ["a"]
    assert rig.schedule.progress()[2] == (1, 1) and rig.schedule.pending == 0


def test_run_says_when_the_head_of_a_level_is_due() -> None:
    rig = DelayRig()
    rig.send_at_level("a", 3)
    now_ms = rig.clock.now_ms()
    assert rig.schedule.run() == now_ms + 10_000
    rig.send_at_level("b", 1)
    assert rig.schedule.run() == now_ms + 1_000


def test_what_is_delivered_is_the_message_with_its_waiting_properties() -> None:
    rig = DelayRig()
    rig.send_at_level("a", 1, topic="paid", queue_id=0)
    rig.pass_time(1_000)
    (record,) = rig.records("paid")
    assert (record.flag, record.delivery_attempt, record.born_ms, record.sys_flag) == (3, 2, 7, 0)
    properties = decode_properties(record.properties)
    assert (properties["DELAY"], properties["REAL_TOPIC"], properties["REAL_QID"]) == ("1", "paid", "0")
    assert rig.store.queues["paid", 0].entry(0).tag_hash == tag_hash(b"blue")


def test_a_committed_message_is_visible_when_it_is_due() -> None:
    rig = DelayRig()
    text = b"DELAY\x011\x02REAL_TOPIC\x01orders\x02REAL_QID\x010\x02"
    rig.store.append([Draft(topic=SCHEDULE_TOPIC, queue_id=0, body=b"a", properties=text, sys_flag=8)])
    rig.store.flush()
    rig.pass_time(1_000)
    assert rig.delivered() == ["a"]


def test_order_is_kept_within_a_level_over_many_batches() -> None:
    rig = DelayRig()
    names = [f"m{number}" for number in range(1_100)]
    for name in names:
        rig.send_at_level(name, 1)
    rig.pass_time(1_000)
    assert rig.delivered() == names
    assert rig.counters.levels_delivered == 1_100


def test_a_failed_batch_comes_again_in_ten_seconds_whole_and_in_order() -> None:
    rig = DelayRig()
    for name in "abc":
        rig.send_at_level(name, 1)
    rig.failing = True
    rig.pass_time(1_000)
    assert rig.delivered() == [] and rig.schedule.progress()[1] == (0, 3)
    rig.failing = False
    rig.pass_time(9_999, step_ms=9_999)
    assert rig.delivered() == []
    rig.pass_time(1, step_ms=1)
    assert rig.delivered() == ["a", "b", "c"]


def test_prepared_messages_and_messages_without_a_home_are_passed_over() -> None:
    rig = DelayRig()
    prepared = f"DELAY\x011\x02REAL_TOPIC\x01{HALF_TOPIC}\x02REAL_QID\x010\x02".encode()
    homeless = b"DELAY\x011\x02REAL_TOPIC\x01no such name!\x02REAL_QID\x010\x02"
    rig.store.append(
        [Draft(topic=SCHEDULE_TOPIC, queue_id=0, body=b"x", properties=text) for text in (prepared, homeless, b"")]
    )
    rig.send_at_level("a", 1)
    rig.pass_time(1_000)
    assert rig.delivered() == ["a"] and (HALF_TOPIC, 0) not in rig.store.queues
    assert rig.schedule.progress()[1] == (4, 4)


def test_a_deleted_topic_is_created_anew_for_what_waits_for_it() -> None:
    rig = DelayRig()
    rig.send_at_level("a", 1, topic="gone", queue_id=3)
    rig.pass_time(1_000)
    config = rig.topics.get("gone")
    assert config is not None and config.read_queue_nums == 4
    assert rig.delivered("gone", 3) == ["a"]


def test_progress_outlives_a_restart() -> None:
    rig = DelayRig()
    rig.send_at_level("a", 1)
    rig.send_at_level("b", 3)
    rig.pass_time(2_000)
    rig = rig.reopened()
    rig.pass_time(20_000)
    assert rig.delivered() == ["a", "b"]
    assert dict(rig.offsets.items()) == {1: 1, 3: 0}


def test_a_changed_ladder_leaves_what_waits_alone() -> None:
    rig = DelayRig()
    rig.send_at_level("a", 3)
    rig = rig.reopened(settings=replace(SMALL, delay_ladder_ms=(2_000,)))
    rig.send_at_level("b", 3)  # counts as the last level, which is the first now
    rig.pass_time(9_000)
    assert rig.delivered() == ["b"]
    rig.pass_time(1_000)
    assert rig.delivered() == ["b", "a"]


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS, DAY_MS, -DAY_MS])
def test_setting_the_wall_clock_neither_releases_nor_holds_back(jump_ms: int) -> None:
    rig = DelayRig()
    rig.send_at_level("a", 3)
    rig.send_in("b", 10_000)
    rig.pass_time(1_000)
    rig.wall.set_ms(rig.wall.now_ms() + jump_ms)
    rig.pass_time(8_000, step_ms=100)  # the clock follows by a tenth at most
    assert rig.delivered() == []
    rig.pass_time(2_500, step_ms=100)
    assert sorted(rig.delivered()) == ["a", "b"]


@pytest.mark.parametrize("back_ms", [HOUR_MS, DAY_MS])
def test_after_a_restart_with_a_clock_that_went_back_a_level_waits_no_longer_than_its_delay(back_ms: int) -> None:
    rig = DelayRig()
    for name in "abc":
        rig.send_at_level(name, 2)
        rig.wall.advance_ms(10)
    rig.wall.set_ms(rig.wall.now_ms() - back_ms)
    rig = rig.reopened()
    rig.run()
    assert rig.delivered() == []
    rig.pass_time(5_000)
    assert rig.delivered() == ["a", "b", "c"]


def test_after_a_restart_with_a_clock_that_went_ahead_everything_is_due() -> None:
    rig = DelayRig()
    rig.send_at_level("a", 3)
    rig.wall.set_ms(rig.wall.now_ms() + HOUR_MS)
    rig = rig.reopened()
    rig.run()
    assert rig.delivered() == ["a"]


def test_an_offset_outside_of_its_queue_is_brought_back() -> None:
    rig = DelayRig(clock=ManualClock())
    rig.send_at_level("a", 1)
    rig.offsets.put(1, 99)
    rig.offsets.save()
    rig.store.close()
    rig = DelayRig(rig.disk, rig.wall)
    assert rig.schedule.progress()[1] == (1, 1)


def test_retention_is_told_where_the_oldest_message_waits() -> None:
    rig = DelayRig()
    assert rig.schedule.waiting_from() == rig.store.end_position == 0
    rig.send("before")
    first = rig.store.end_position
    rig.send_at_level("a", 3)
    second = rig.store.end_position
    rig.send_at_level("b", 3)
    assert rig.schedule.waiting_from() == first
    rig.pass_time(9_000)
    rig.send_at_level("c", 3)
    rig.pass_time(1_000)
    assert rig.delivered() == ["before", "a", "b"]
    assert rig.schedule.waiting_from() > second


def test_messages_that_wait_longer_than_files_are_kept_are_delivered_all_the_same() -> None:
    settings = replace(SMALL, keep_ms=5_000, delete_hours=tuple(range(24)))
    rig = DelayRig(settings=settings)
    rig.maintenance = Maintenance(rig.store, rig.disk, rig.clock, needed_from=rig.schedule.waiting_from)
    rig.send_at_level("waits", 3)
    while len(rig.store.log.segments) < 3:
        rig.send("x" * 1_000)
    rig.wall.advance_ms(9_000)
    rig.maintenance.delete_expired()
    assert rig.store.log.first == 0
    rig.pass_time(1_000)
    assert "waits" in rig.delivered()
    rig.maintenance.delete_expired()
    assert rig.store.log.first > 0


def test_a_damaged_message_holds_its_level_until_it_is_mended() -> None:
    """Under a lease the agent hands over: another member delivers what this one cannot read."""
    rig = DelayRig()
    rig.maintenance.scrub.holds_reads = True
    rig.send_at_level("a", 1)
    damaged = rig.send_at_level("b", 1)
    rig.send_at_level("c", 1)
    other = rig.send_at_level("d", 2)
    rig.flip(damaged)
    rig.pass_time(20_000)
    assert rig.delivered() == ["a", "d"] and rig.schedule.progress()[1] == (1, 3) and other.offset == 0
    assert rig.store.health.damage, "its agent hears of it"
    rig.flip(damaged)
    rig.maintenance.scrub.mended(damaged.position)
    rig.pass_time(10_000)
    assert rig.delivered() == ["a", "d", "b", "c"]


def test_a_damaged_message_is_passed_over_when_nobody_takes_over(caplog: pytest.LogCaptureFixture) -> None:
    rig = DelayRig()
    rig.maintenance.scrub.holds_reads = True
    rig.flip(rig.send_at_level("a", 1))
    rig.send_at_level("b", 1)
    rig.pass_time(HOLD_MS - 5_000)
    assert rig.delivered() == []
    rig.pass_time(20_000)
    assert rig.delivered() == ["b"] and "delayed message lost" in caplog.text


def test_messages_that_were_deleted_while_they_waited_are_counted_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = DelayRig()
    rig.send_at_level("lost", 3)
    while len(rig.store.log.segments) < 3:
        rig.send("x" * 1_000)
    retain(rig.store, 2)
    rig.send_at_level("kept", 3)
    rig.pass_time(10_000)
    assert rig.delivered()[-1] == "kept" and "lost" not in rig.delivered()
    assert "delayed messages lost: level=3 messages=1" in caplog.text
