"""What becomes of a batch in orderly consuming."""

from __future__ import annotations

import pytest

from pyromq.client.consumer.rules.orderly_outcome import (
    OrderlyResult,
    OrderlyStatus,
    OrderlyStep,
    decide_orderly,
    rest_ms,
)
from pyromq.client.consumer.rules.queue_buffer import QueueBuffer
from pyromq.testing.manual_clock import ManualClock
from tests.unit.client.messages import FakeMessage, messages, offsets_of

BATCH = messages(0, 1, 2)
SUCCESS, SUSPEND, COMMIT, ROLLBACK = (
    OrderlyStatus.SUCCESS,
    OrderlyStatus.SUSPEND,
    OrderlyStatus.COMMIT,
    OrderlyStatus.ROLLBACK,
)


@pytest.mark.parametrize(
    ("status", "by_itself", "by_listener"),
    [
        (SUCCESS, OrderlyStep.COMMIT, OrderlyStep.KEEP),
        (COMMIT, OrderlyStep.COMMIT, OrderlyStep.COMMIT),
        (ROLLBACK, OrderlyStep.COMMIT, OrderlyStep.ROLL_BACK),
        (SUSPEND, OrderlyStep.PUT_BACK, OrderlyStep.PUT_BACK),
        (None, OrderlyStep.PUT_BACK, OrderlyStep.PUT_BACK),
    ],
)
def test_each_status_leads_to_its_step(
    status: OrderlyStatus | None, by_itself: OrderlyStep, by_listener: OrderlyStep
) -> None:
    assert decide_orderly(BATCH, status, auto_commit=True).step is by_itself
    assert decide_orderly(BATCH, status, auto_commit=False).step is by_listener


def test_a_listener_that_commits_where_the_consumer_does_is_warned() -> None:
    assert decide_orderly(BATCH, COMMIT).warning
    assert decide_orderly(BATCH, ROLLBACK).warning
    assert decide_orderly(BATCH, SUCCESS).warning is None
    assert decide_orderly(BATCH, COMMIT, auto_commit=False).warning is None


def test_a_suspended_queue_rests_and_its_messages_wait() -> None:
    outcome = decide_orderly(BATCH, OrderlyResult(SUSPEND, suspend_ms=200), attempts_max=3)
    assert (outcome.rest_ms, outcome.goes_on) == (200, False)
    assert offsets_of(outcome.put_back) == [0, 1, 2]
    assert not outcome.dead


@pytest.mark.parametrize(
    ("wished", "rest"), [(None, 1_000), (-1, 1_000), (0, 10), (9, 10), (500, 500), (90_000, 30_000), (-5, 10)]
)
def test_a_rest_has_bounds(wished: int | None, rest: int) -> None:
    assert rest_ms(wished, 1_000) == rest


def spent(*offsets: int) -> list[FakeMessage]:
    return [FakeMessage(offset, delivery_attempt=16 if offset in offsets else 2) for offset in range(3)]


def test_a_message_with_too_many_attempts_is_dead_and_the_others_wait() -> None:
    outcome = decide_orderly(spent(1), SUSPEND, attempts_max=16)
    assert (outcome.step, offsets_of(outcome.dead), offsets_of(outcome.put_back)) == (OrderlyStep.PUT_BACK, [1], [0, 2])


@pytest.mark.parametrize(("auto_commit", "step"), [(True, OrderlyStep.COMMIT), (False, OrderlyStep.KEEP)])
def test_when_all_are_dead_letters_the_queue_goes_on(auto_commit: bool, step: OrderlyStep) -> None:
    outcome = decide_orderly(spent(0, 1, 2), SUSPEND, attempts_max=16, auto_commit=auto_commit).settled(not_sent=[])
    assert (outcome.step, outcome.goes_on, offsets_of(outcome.dead)) == (step, True, [0, 1, 2])


def test_a_message_that_found_no_grave_holds_its_queue() -> None:
    outcome = decide_orderly(spent(0, 1, 2), SUSPEND, attempts_max=16).settled(not_sent=[1])
    assert (outcome.step, outcome.rest_ms) == (OrderlyStep.PUT_BACK, 1_000)
    assert (offsets_of(outcome.dead), offsets_of(outcome.put_back)) == ([0, 2], [1])


def test_without_a_limit_nothing_is_ever_dead() -> None:
    assert not decide_orderly(spent(0, 1, 2), SUSPEND, attempts_max=None).dead


def test_failures_in_a_row_use_up_the_attempts_that_only_the_buffer_counts() -> None:
    buffer: QueueBuffer[FakeMessage] = QueueBuffer(ManualClock())
    buffer.add(messages(5))
    steps = []
    for _ in range(3):
        outcome = decide_orderly(buffer.take(1), SUSPEND, attempts_max=2)
        steps.append(outcome.step)
        buffer.put_back(outcome.put_back)
    assert steps == [OrderlyStep.PUT_BACK, OrderlyStep.PUT_BACK, OrderlyStep.COMMIT]
    assert offsets_of(outcome.dead) == [5]
    assert buffer.commit_taken() == 6
