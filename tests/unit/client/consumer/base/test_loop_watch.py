"""Loop watch: a listener that takes long is no news, one that keeps the loop from ticking is."""

from __future__ import annotations

import pytest

from pyromq.client.consumer.base.loop_watch import BLOCKED_S, TICK_S, LoopWatch

LONG_S = BLOCKED_S + TICK_S + 0.1


def watch(*ticks: float) -> LoopWatch:
    """One whose loop had a turn at these times."""
    made = LoopWatch("shop.pay")
    made._ticked = 0.0  # as when ``run`` begins
    for tick in ticks:
        made.tick(tick)
    return made


def said(caplog: pytest.LogCaptureFixture) -> int:
    return caplog.text.count("coroutine listener blocks the event loop: listener=shop.pay")


def test_a_listener_that_waits_while_the_loop_ticks_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    ticking = watch(*(TICK_S * number for number in range(1, 21)))
    ticking.took(9.5, TICK_S * 20 + 0.1)
    assert not said(caplog)


def test_a_listener_during_which_the_loop_did_not_tick_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    blocked = watch(TICK_S)
    blocked.took(LONG_S, TICK_S + LONG_S)
    assert said(caplog) == 1
    blocked.took(LONG_S, TICK_S + LONG_S)
    assert said(caplog) == 1


def test_a_stall_is_told_also_when_the_loop_ticked_before_the_listener_was_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    blocked = watch(TICK_S, TICK_S + LONG_S)
    blocked.took(LONG_S, TICK_S + LONG_S + 0.01)
    assert said(caplog) == 1


def test_a_stall_before_the_listener_began_is_not_its_own(caplog: pytest.LogCaptureFixture) -> None:
    blocked = watch(TICK_S, TICK_S + LONG_S, TICK_S + LONG_S + TICK_S, TICK_S + LONG_S + 2 * TICK_S)
    blocked.took(0.9, TICK_S + LONG_S + 2 * TICK_S)
    assert not said(caplog)


def test_nothing_is_said_while_nobody_ticks(caplog: pytest.LogCaptureFixture) -> None:
    LoopWatch("shop.pay").took(LONG_S, LONG_S)
    assert not said(caplog)
