"""The pull loop of one queue, step by step."""

from __future__ import annotations

import pytest

from pyromq.client.consumer.rules.flow_control import GoOn, Hold, HoldOff
from pyromq.client.consumer.rules.pull_state import (
    Accept,
    Because,
    DropQueue,
    Pull,
    PullSettings,
    PullState,
    Stop,
    Wait,
    pull_flags,
)
from pyromq.model.queue import Offset
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.headers.consumer import PullResponseHeader

FOUND, NONE, NO_MATCH, MOVED = 0, 19, 20, 21


def header(next_offset: int, broker_id: int = 0) -> PullResponseHeader:
    return PullResponseHeader(
        suggest_which_broker_id=broker_id, next_begin_offset=next_offset, min_offset=0, max_offset=1_000
    )


def started(offset: int = 10, *, settings: PullSettings | None = None) -> tuple[PullState, ManualClock]:
    clock = ManualClock()
    return PullState(offset, clock, settings), clock


def held_pull(state: PullState, clock: ManualClock, held_ms: int = 15_000) -> None:
    assert isinstance(state.next_step(GoOn()), Pull)
    clock.advance_ms(held_ms)


def test_found_messages_are_accepted_and_the_next_pull_follows_at_once() -> None:
    state, _ = started()
    assert state.next_step(GoOn()) == Pull(Offset(10), broker_id=0)
    assert state.answered(FOUND, header(42)) == Accept(reached=Offset(42))
    assert state.next_step(GoOn()) == Pull(Offset(42), broker_id=0)


def test_a_pull_interval_is_kept_after_messages_only() -> None:
    state, clock = started(settings=PullSettings(pull_interval_ms=70))
    assert state.answered(FOUND, header(42)) == Accept(Offset(42), Wait(70, Because.INTERVAL))
    held_pull(state, clock)
    assert state.answered(NONE, header(42)) == Accept(Offset(42))


@pytest.mark.parametrize("code", [NONE, NO_MATCH])
def test_an_empty_response_moves_on_without_a_pause(code: int) -> None:
    state, clock = started()
    held_pull(state, clock)
    assert state.answered(code, header(15)) == Accept(reached=Offset(15))
    assert state.offset == 15


def test_an_illegal_offset_drops_the_queue_at_the_corrected_one() -> None:
    state, _ = started()
    assert state.answered(MOVED, header(3)) == DropQueue(Offset(3))


def test_lite_pull_goes_on_at_the_corrected_offset() -> None:
    state, _ = started(settings=PullSettings(drop_when_illegal=False))
    ahead = state.offset + 7
    assert state.answered(MOVED, header(ahead)) == Accept(Offset(ahead))
    assert state.answered(MOVED, header(3)) == DropQueue(Offset(3)), "further back: what was pulled is another queue's"
    assert state.offset == ahead
    assert state.answered(MOVED, header(ahead)) == Wait(3_000, Because.SENSELESS), "corrected to what was asked for"


def test_a_broker_that_controls_its_flow_is_asked_again_soon_and_others_later() -> None:
    state, _ = started()
    assert state.answered(215, None) == Wait(20, Because.BROKER_BUSY)
    for code in (1, 2, 16, 17, 24, 25, 26, 999):
        assert state.answered(code, None) == Wait(3_000, Because.ERROR)
    assert state.failed() == Wait(3_000, Because.ERROR)
    assert state.offset == 10


def test_the_broker_that_was_suggested_is_asked_next_and_gets_no_commits_as_a_replica() -> None:
    state, _ = started()
    state.answered(FOUND, header(42, broker_id=1))
    assert state.next_step(GoOn(), committable=40) == Pull(Offset(42), broker_id=1)
    state.failed()
    assert state.next_step(GoOn(), committable=40) == Pull(Offset(42), broker_id=0, commit_offset=Offset(40))


@pytest.mark.parametrize("committable", [None, 0, -1])
def test_without_progress_nothing_is_committed_on_the_way(committable: int | None) -> None:
    assert started()[0].next_step(GoOn(), committable=committable) == Pull(Offset(10), broker_id=0)


def test_flow_control_delays_the_pull_and_a_dropped_queue_ends_the_loop() -> None:
    state, clock = started()
    clock.advance_ms(500)
    assert state.next_step(HoldOff(50, Hold.SPAN)) == Wait(50, Hold.SPAN)
    assert state.last_pull_ms == 500, "a loop that waits is alive"
    clock.advance_ms(500)
    assert state.next_step(GoOn(), dropped=True) == Stop()
    assert state.last_pull_ms == 500


def test_a_seek_goes_on_elsewhere() -> None:
    state, _ = started()
    state.seek(99)
    assert state.next_step(GoOn()) == Pull(Offset(99), broker_id=0)


@pytest.mark.parametrize(
    ("code", "response"),
    [(FOUND, None), (FOUND, header(10)), (FOUND, header(-1)), (FOUND, header(9)), (NONE, header(9))],
)
def test_a_response_that_leads_nowhere_is_an_error_rather_than_a_loop(
    code: int, response: PullResponseHeader | None
) -> None:
    state, _ = started()
    assert state.answered(code, response) == Wait(3_000, Because.SENSELESS)
    assert state.offset == 10


def answered_at_once(state: PullState, clock: ManualClock, code: int, *, advance: int, times: int) -> list[int]:
    """How long the loop waits after each of so many responses that come at once."""
    waits = []
    for _ in range(times):
        held_pull(state, clock, held_ms=1)
        response = state.answered(code, header(state.offset + advance))
        assert isinstance(response, Accept)
        waits.append(response.wait.wait_ms if response.wait else 0)
    return waits


@pytest.mark.parametrize(("code", "advance"), [(NONE, 0), (NO_MATCH, 0), (MOVED, 1)])
def test_a_broker_that_answers_at_once_and_gets_nowhere_is_met_with_a_back_off(code: int, advance: int) -> None:
    state, clock = started(settings=PullSettings(drop_when_illegal=False))
    waits = answered_at_once(state, clock, code, advance=advance, times=9)
    assert waits == [0, 0, 0, 100, 200, 400, 800, 800, 800]
    held_pull(state, clock)
    assert state.answered(NONE, header(state.offset)) == Accept(state.offset), "it held this one"


def test_a_broker_that_passes_over_a_few_messages_each_time_is_asked_a_hundred_times_a_second_at_most() -> None:
    """Others keep the queue busy, and a message that is wanted may be the next one: it must not wait for long."""
    state, clock = started()
    assert answered_at_once(state, clock, NO_MATCH, advance=1, times=20) == [0] * 3 + [10] * 17
    assert answered_at_once(state, clock, NO_MATCH, advance=0, times=2) == [100, 200], "now it gets nowhere"


def test_a_broker_that_passes_over_many_messages_is_asked_on_at_once() -> None:
    state, clock = started()
    assert answered_at_once(state, clock, NO_MATCH, advance=32, times=20) == [0] * 20


def test_flags_of_a_pull() -> None:
    assert pull_flags(commit=True) == 3
    assert pull_flags(commit=False) == 2
    assert pull_flags(commit=False, subscription=True, lite=True) == 22
    assert pull_flags(commit=False, suspend=False, subscription=True) == 4


def test_a_queue_that_is_too_far_behind_goes_on_at_the_last_messages_that_are_wanted() -> None:
    state, clock = started(settings=PullSettings(skip_when_behind=100))
    assert state.answered(FOUND, header(42)) == Accept(Offset(900), skip_to=Offset(900))
    assert state.next_step(GoOn()) == Pull(Offset(900), broker_id=0)
    assert state.answered(FOUND, header(932)) == Accept(Offset(932)), "a hundred are to come: not more than wanted"
    far, clock = started(offset=10, settings=PullSettings(skip_when_behind=980))
    assert far.answered(FOUND, header(42)) == Accept(Offset(42), skip_to=Offset(20)), "some of this response"
    never, clock = started()
    held_pull(never, clock)
    assert never.answered(NO_MATCH, header(11)) == Accept(Offset(11))
