"""A set rate, on a clock that stands still until told."""

from __future__ import annotations

import pytest

from pyromq.operate.resend.pacing import Pacer
from pyromq.testing import ManualClock


def test_messages_wait_for_their_turn() -> None:
    clock = ManualClock()
    pacer = Pacer(100, clock)
    assert [pacer.wait_ms(5) for _ in range(3)] == [0, 50, 100]
    clock.advance_ms(120)
    assert pacer.wait_ms(5) == 30


def test_a_pause_is_not_made_up_for_in_a_burst() -> None:
    clock = ManualClock()
    pacer = Pacer(10, clock)
    pacer.wait_ms(1)
    clock.advance_ms(10_000)
    assert pacer.wait_ms(1) == 0
    assert pacer.wait_ms(1) == 100


def test_without_a_rate_there_is_no_wait() -> None:
    pacer = Pacer(None, ManualClock())
    assert pacer.wait_ms(1_000_000) == 0 and pacer.chunk == 256


@pytest.mark.parametrize(("rate", "chunk"), [(1, 1), (40, 2), (1_000, 50), (1_000_000, 256)])
def test_low_rates_send_few_at_once(rate: float, chunk: int) -> None:
    assert Pacer(rate, ManualClock()).chunk == chunk


def test_over_a_long_time_the_rate_is_kept() -> None:
    clock = ManualClock()
    pacer, sent = Pacer(333, clock), 0
    while clock.monotonic_ms() < 10_000:
        clock.advance_ms(round(pacer.wait_ms(pacer.chunk)))
        sent += pacer.chunk
    assert 3_330 * 0.98 <= sent <= 3_330 * 1.02
