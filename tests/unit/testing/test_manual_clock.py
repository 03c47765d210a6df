from __future__ import annotations

import pytest

from pyromq.clock import Clock, SystemClock
from pyromq.testing import ManualClock


def test_time_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(5_000)
    assert [clock.now_ms(), clock.now_ms(), clock.monotonic_ms()] == [5_000, 5_000, 0]
    clock.advance_ms(250)
    clock.advance_ms(0)
    assert (clock.now_ms(), clock.monotonic_ms()) == (5_250, 250)


def test_the_wall_clock_jumps_and_the_monotonic_clock_does_not_notice() -> None:
    clock = ManualClock()
    clock.advance_ms(10)
    clock.set_ms(1)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1, 10)
    clock.advance_ms(10)
    assert (clock.now_ms(), clock.monotonic_ms()) == (11, 20)


def test_time_does_not_pass_backwards() -> None:
    clock = ManualClock()
    with pytest.raises(ValueError, match="set_ms"):
        clock.advance_ms(-1)
    assert clock.monotonic_ms() == 0


def test_it_serves_wherever_a_clock_is_wanted() -> None:
    clocks: list[Clock] = [ManualClock(), SystemClock()]
    assert all(clock.now_ms() > 1_600_000_000_000 for clock in clocks)
    system = SystemClock()
    assert system.monotonic_ms() <= system.monotonic_ms()
