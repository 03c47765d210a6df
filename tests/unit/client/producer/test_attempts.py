"""What follows a failed attempt of a send."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.client.producer.attempts import Attempts, SendStep
from pyromq.errors import (
    BrokerError,
    ConnectFailedError,
    ConnectionLostError,
    MQError,
    RequestTimeoutError,
    SendFailedError,
    ServiceNotAvailableError,
)
from pyromq.net import TooManyRequestsError

LOST = ConnectionLostError("gone", peer="a")

NOT_CONNECTED = ConnectFailedError("refused", peer="a")


def attempts(**fields: Any) -> Attempts:
    return Attempts(**{"deadline_ms": 1_000, "retries": 2, **fields})


@pytest.mark.parametrize("code", [1, 2, 16, 17, 204, 205, 1500])
def test_two_more_attempts_follow_what_may_pass(code: int) -> None:
    tries, error = attempts(), BrokerError(code=code, remark="")
    assert [tries.after("a", error, 0, {"a"}) for _ in range(3)] == [SendStep.AGAIN, SendStep.AGAIN, SendStep.GIVE_UP]


@pytest.mark.parametrize("code", [13, 29, 26, 3, 604])
def test_what_will_not_pass_is_given_up_at_once(code: int) -> None:
    assert attempts().after("a", BrokerError(code=code, remark=""), 0, {"a"}) is SendStep.GIVE_UP


@pytest.mark.parametrize("error", [LOST, RequestTimeoutError("late")])
def test_a_lost_response_is_an_attempt(error: MQError) -> None:
    tries = attempts()
    assert [tries.after("a", error, 0, {"a", "b"}) for _ in range(3)] == [
        SendStep.AGAIN,
        SendStep.AGAIN,
        SendStep.GIVE_UP,
    ]
    assert attempts(is_pinned=True).after("a", error, 0, {"a"}) is SendStep.GIVE_UP


OVER_QUOTA = BrokerError(code=2, remark="[FLOW_CONTROL]quota topic:orders messages=1 is used up")
STOPPING = ServiceNotAvailableError(code=14, remark="the broker is stopping")
CLOSED = BrokerError(code=1, remark="broker unable to service, until 2026-11-15 20:00:00 UTC")


@pytest.mark.parametrize(
    "error", [NOT_CONNECTED, TooManyRequestsError(peer="a", in_flight_max=1), STOPPING, CLOSED, OVER_QUOTA]
)
def test_what_was_surely_not_stored_is_no_attempt(error: MQError) -> None:
    tries = attempts()
    steps = [tries.after(broker, error, 0, {"a", "b"}) for broker in ("a", "b", "a", "b")]
    assert steps == [SendStep.AGAIN, SendStep.PAUSE, SendStep.AGAIN, SendStep.PAUSE]
    assert (tries.reached, tries.pauses, tries.last_broker) == (0, 2, "b")
    pinned = attempts(is_pinned=True)
    assert [pinned.after("a", error, 0, {"a", "b"}) for _ in range(20)] == [SendStep.PAUSE] * 20
    assert len(pinned.failed) == 1


def test_when_the_time_is_up_nothing_is_tried() -> None:
    assert attempts().after("a", NOT_CONNECTED, 1_000, {"a"}) is SendStep.GIVE_UP


@pytest.mark.parametrize("error", [NOT_CONNECTED, STOPPING, CLOSED])
@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_broker_that_is_away_is_waited_for_longer_than_for_an_answer(error: MQError, is_pinned: bool) -> None:
    tries = attempts(is_pinned=is_pinned, restart_deadline_ms=5_000)
    assert [tries.after("a", error, at_ms, {"a"}) for at_ms in (1_000, 4_999)] == [SendStep.PAUSE] * 2
    assert (tries.deadline_ms, tries.left_ms(4_999)) == (5_000, 1)
    assert tries.after("a", error, 5_000, {"a"}) is SendStep.GIVE_UP


def test_a_master_that_hangs_does_not_use_up_the_attempts_before_another_takes_over() -> None:
    late = RequestTimeoutError("late")
    tries = attempts(deadline_ms=3_000, restart_deadline_ms=15_000, answer_ms=3_000)
    steps = [tries.after("a", late, at_ms, {"a"}) for at_ms in (3_000, 6_000, 9_000, 12_000)]
    assert steps == [SendStep.AGAIN] * 4
    assert tries.after("a", late, 12_001, {"a"}) is SendStep.GIVE_UP, "copies are bounded, whatever time is left"
    alone = attempts(deadline_ms=3_000, restart_deadline_ms=15_000, answer_ms=3_000, retries=0)
    assert alone.after("a", late, 3_000, {"a"}) is SendStep.GIVE_UP, "who wants no second copy gets none"


@pytest.mark.parametrize("error", [LOST, RequestTimeoutError("late")])
def test_a_broker_that_is_silent_is_waited_for_too_and_each_attempt_has_the_time_of_an_answer(error: MQError) -> None:
    tries = attempts(restart_deadline_ms=5_000, answer_ms=1_500)
    assert tries.answer_ms(0) == 1_000
    assert [tries.after("a", error, at_ms, {"a"}) for at_ms in (1_000, 2_000)] == [SendStep.AGAIN] * 2
    assert [tries.answer_ms(at_ms) for at_ms in (2_000, 4_900)] == [1_500, 100]
    assert tries.after("a", error, 2_300, {"a"}) is SendStep.GIVE_UP, "it may be stored: no more than fit"


def test_a_send_that_was_given_a_time_has_no_other() -> None:
    tries = attempts(restart_deadline_ms=1_000, answer_ms=300)
    assert tries.after("a", LOST, 100, {"a"}) is SendStep.AGAIN and tries.answer_ms(100) == 900
    assert tries.after("a", LOST, 1_000, {"a"}) is SendStep.GIVE_UP


def test_too_many_requests_are_no_sign_of_a_broker_that_is_away() -> None:
    tries = attempts(restart_deadline_ms=5_000)
    error = TooManyRequestsError(peer="a", in_flight_max=1)
    assert tries.after("a", error, 1_000, {"a"}) is SendStep.GIVE_UP and tries.deadline_ms == 1_000


def test_a_later_deadline_stays() -> None:
    tries = attempts(deadline_ms=9_000, restart_deadline_ms=5_000)
    tries.after("a", NOT_CONNECTED, 0, {"a"})
    assert tries.deadline_ms == 9_000


def test_a_fixed_queue_is_tried_again_only_when_the_broker_goes_away() -> None:
    assert attempts(is_pinned=True).after("a", BrokerError(code=2, remark=""), 0, {"a"}) is SendStep.GIVE_UP
    assert attempts(is_pinned=True).after("a", BrokerError(code=1500, remark=""), 0, {"a"}) is SendStep.AGAIN


def test_a_failure_leaves_doubt_only_if_a_response_was_lost() -> None:
    tries = attempts()
    tries.after("a", NOT_CONNECTED, 0, {"a"})
    tries.after("a", BrokerError(code=2, remark="busy"), 0, {"a"})
    assert not SendFailedError("t", tries.failed).maybe_stored
    tries.after("a", LOST, 0, {"a"})
    error = SendFailedError("t", tries.failed)
    assert error.maybe_stored
    assert "not confirmed after 3 attempts (a: refused; a: code 2: busy; a: gone)" in str(error)
