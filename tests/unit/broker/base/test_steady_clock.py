from __future__ import annotations

import time

import pytest

from pyromq.broker.base.steady_clock import SteadyClock
from pyromq.clock import SystemClock
from pyromq.testing import ManualClock

HOUR_MS = 3_600_000


def test_it_shows_the_wall_time_as_long_as_nobody_touches_it() -> None:
    wall = ManualClock()
    clock = SteadyClock(wall)
    for _ in range(5):
        wall.advance_ms(977)
        assert clock.now_ms() == wall.now_ms() and clock.monotonic_ms() == wall.monotonic_ms()


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS, 1_500, -1_500])
def test_a_jump_is_followed_by_a_tenth_of_the_time_that_passes(jump_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    wall = ManualClock()
    clock = SteadyClock(wall)
    start_ms = clock.now_ms()
    wall.set_ms(wall.now_ms() + jump_ms)
    assert clock.now_ms() == start_ms
    for _ in range(100):
        wall.advance_ms(10)
        before_ms = clock.now_ms()
        assert clock.now_ms() == before_ms
    followed_ms = 100 if jump_ms > 0 else -100
    assert clock.now_ms() == start_ms + 1_000 + followed_ms
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_it_arrives_at_the_wall_time_and_stays_there() -> None:
    wall = ManualClock()
    clock = SteadyClock(wall)
    wall.set_ms(wall.now_ms() - 5_000)
    shown_ms = clock.now_ms()
    for _ in range(600):
        wall.advance_ms(100)
        assert clock.now_ms() >= shown_ms
        shown_ms = clock.now_ms()
    assert abs(clock.now_ms() - wall.now_ms()) <= 2


def test_looking_often_does_not_make_it_faster() -> None:
    wall = ManualClock()
    clock = SteadyClock(wall)
    start_ms = clock.now_ms()
    wall.set_ms(wall.now_ms() + HOUR_MS)
    for _ in range(1_000):
        wall.advance_ms(1)
        clock.now_ms()
    assert clock.now_ms() == start_ms + 1_100


def test_its_owner_may_take_the_wall_clock_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    wall = ManualClock()
    clock = SteadyClock(wall)
    wall.set_ms(wall.now_ms() + 30 * 24 * HOUR_MS)
    clock.follow_at_once()
    wall.advance_ms(10)
    assert clock.now_ms() == wall.now_ms()
    assert not caplog.records


def test_a_machine_that_sleeps_is_late_for_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its monotonic clock stands still meanwhile, its wall clock does not."""
    machine, slept_ms = ManualClock(), 0
    clock = SteadyClock(machine, lambda: machine.monotonic_ms() + slept_ms)
    slept_ms = HOUR_MS
    machine.set_ms(machine.now_ms() + slept_ms)
    assert clock.now_ms() == machine.now_ms()
    machine.advance_ms(10)
    assert clock.now_ms() == machine.now_ms() and not caplog.records


def test_the_clock_of_a_real_machine_counts_its_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteadyClock(SystemClock())
    before_ms = clock.now_ms()
    plain_ns, wall_ns = time.clock_gettime_ns, time.time_ns
    monkeypatch.setattr(time, "clock_gettime_ns", lambda which: plain_ns(which) + HOUR_MS * 1_000_000)
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + HOUR_MS * 1_000_000)
    assert clock.now_ms() >= before_ms + HOUR_MS
