"""Every move of a link, without sockets or timers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.net import Backoff
from pyromq.net.link_state import MOVES, STEPS, LinkEvent, LinkState, LinkStep, Phase

BACKOFF = Backoff(first_ms=100, ceiling_ms=1_000)


def state() -> LinkState:
    return LinkState(BACKOFF, Random(7))


def connecting() -> LinkState:
    link = state()
    assert link.wanted(0) is LinkStep.CONNECT
    return link


def ready() -> LinkState:
    link = connecting()
    assert link.connected()
    return link


def backing_off() -> LinkState:
    link = connecting()
    link.failed(0)
    return link


def closed() -> LinkState:
    link = state()
    link.closed()
    return link


PHASES: dict[Phase, Callable[[], LinkState]] = {
    Phase.IDLE: state,
    Phase.CONNECTING: connecting,
    Phase.READY: ready,
    Phase.BACKING_OFF: backing_off,
    Phase.CLOSED: closed,
}
EVENTS: dict[str, Callable[[LinkState], object]] = {
    "wanted": lambda link: link.wanted(0),
    "wanted later": lambda link: link.wanted(10_000),
    "connected": lambda link: link.connected(),
    "failed": lambda link: link.failed(0),
    "lost": lambda link: link.lost(0, was_heard=True),
    "lost unheard": lambda link: link.lost(0, was_heard=False),
    "closed": lambda link: link.closed(),
}
TABLE = {
    Phase.IDLE: {"wanted": Phase.CONNECTING, "wanted later": Phase.CONNECTING},
    Phase.CONNECTING: {"connected": Phase.READY, "failed": Phase.BACKING_OFF},
    Phase.READY: {"lost": Phase.IDLE, "lost unheard": Phase.BACKING_OFF},
    Phase.BACKING_OFF: {"wanted later": Phase.CONNECTING},
    Phase.CLOSED: {},
}


@pytest.mark.parametrize("move", EVENTS)
@pytest.mark.parametrize("phase", PHASES)
def test_every_move_in_every_phase(phase: Phase, move: str) -> None:
    link = PHASES[phase]()
    assert link.phase is phase
    EVENTS[move](link)
    assert link.phase is (Phase.CLOSED if move == "closed" else TABLE[phase].get(move, phase))


def test_the_tables_name_every_phase_and_every_event() -> None:
    assert set(MOVES) == set(STEPS) == set(Phase)
    assert {event for row in MOVES.values() for event in row} == set(LinkEvent)


def test_a_caller_that_wants_a_connection_is_told_what_to_do() -> None:
    steps = {phase: make().wanted(0) for phase, make in PHASES.items()}
    assert steps == {
        Phase.IDLE: LinkStep.CONNECT,
        Phase.CONNECTING: LinkStep.JOIN,
        Phase.READY: LinkStep.USE,
        Phase.BACKING_OFF: LinkStep.WAIT,
        Phase.CLOSED: LinkStep.REFUSE,
    }


def test_refusals_in_a_row_lengthen_the_wait_up_to_the_ceiling() -> None:
    link, now_ms, waits = state(), 0, []
    for _ in range(40):
        assert link.wanted(now_ms) is LinkStep.CONNECT
        link.failed(now_ms)
        assert link.wanted(link.retry_at_ms - 1) is LinkStep.WAIT
        waits.append(link.retry_at_ms - now_ms)
        now_ms = link.retry_at_ms
    assert 50 <= waits[0] <= 100
    assert 100 <= waits[1] <= 200
    assert all(500 <= wait <= 1_000 for wait in waits[4:])
    assert len(set(waits[4:])) > 10, "chance spreads them"


def test_a_server_that_answers_again_ends_the_row_of_failures() -> None:
    link = backing_off()
    link.wanted(10_000)
    link.connected()
    link.lost(20_000, was_heard=True)
    assert link.failures == 0
    assert link.wanted(20_000) is LinkStep.CONNECT, "a restarted server is reached without delay"


def test_a_server_that_accepts_and_hangs_up_is_backed_off_from() -> None:
    link, now_ms = state(), 0
    for failures in (1, 2, 3):
        assert link.wanted(now_ms) is LinkStep.CONNECT
        link.connected()
        link.lost(now_ms, was_heard=False)
        assert link.failures == failures
        now_ms = link.retry_at_ms


def test_closing_while_connecting_makes_the_late_connection_unwanted() -> None:
    link = connecting()
    link.closed()
    assert not link.connected()
    assert link.phase is Phase.CLOSED


@given(st.lists(st.sampled_from(sorted(EVENTS))))
def test_whatever_happens_only_the_table_is_walked_and_closed_is_final(moves: list[str]) -> None:
    link = state()
    for move in moves:
        before = link.phase
        EVENTS[move](link)
        assert link.phase in {before, *TABLE[before].values(), Phase.CLOSED}
        if before is Phase.CLOSED:
            assert link.phase is Phase.CLOSED
