"""Consumers stop pulling when they hold enough."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pyromq.client.consumer.rules.flow_control import MIB, FlowControl, FlowLimits, GoOn, Hold, HoldOff, flow_decision

LIMITS = FlowLimits()


@dataclass
class Holding:
    message_count: int = 0
    size_bytes: int = 0
    span: int = 0

    def __len__(self) -> int:
        return self.message_count


@pytest.mark.parametrize(
    ("held", "orderly", "decision"),
    [
        (Holding(1_000, 100 * MIB, 2_000), False, GoOn()),
        (Holding(1_001), False, HoldOff(50, Hold.MESSAGES)),
        (Holding(1_001), True, HoldOff(50, Hold.MESSAGES)),
        (Holding(1, 100 * MIB + 1), False, HoldOff(50, Hold.BYTES)),
        (Holding(2, 0, 2_001), False, HoldOff(50, Hold.SPAN)),
        (Holding(2, 0, 2_001), True, GoOn()),
        (Holding(1_001, 101 * MIB, 2_001), False, HoldOff(50, Hold.MESSAGES)),
    ],
)
def test_each_limit_holds_the_next_pull_off(held: Holding, orderly: bool, decision: GoOn | HoldOff) -> None:
    assert flow_decision(LIMITS, held, orderly=orderly) == decision


def test_a_paused_consumer_waits_a_second_whatever_it_holds() -> None:
    assert flow_decision(LIMITS, Holding(9_999), paused=True) == HoldOff(1_000, Hold.PAUSED)


def test_an_orderly_consumer_waits_for_its_lock_and_a_concurrent_one_needs_none() -> None:
    assert flow_decision(LIMITS, Holding(), orderly=True, locked=False) == HoldOff(3_000, Hold.NOT_LOCKED)
    assert flow_decision(LIMITS, Holding(), orderly=False, locked=False) == GoOn()


def test_limits_of_a_topic_are_divided_among_the_queues() -> None:
    limits = FlowLimits(topic_messages_max=100, topic_bytes_max=10 * MIB)
    assert (limits.shared_by(8).messages_max, limits.shared_by(8).bytes_max) == (12, 10 * MIB // 8)
    assert (limits.shared_by(1_000).messages_max, limits.shared_by(1_000).bytes_max) == (1, MIB)
    assert limits.shared_by(0) == limits, "nothing is assigned yet"
    assert LIMITS.shared_by(8) == LIMITS


def test_every_refusal_is_counted_under_its_reason() -> None:
    control = FlowControl(FlowLimits(topic_messages_max=10))
    control.share_among(2)
    assert control.check(Holding(5)) == GoOn()
    assert control.check(Holding(6)) == HoldOff(50, Hold.MESSAGES)
    control.paused = True
    control.check(Holding(6))
    control.check(Holding(6))
    assert control.counts == {
        Hold.PAUSED: 2,
        Hold.MESSAGES: 1,
        Hold.BYTES: 0,
        Hold.SPAN: 0,
        Hold.NOT_LOCKED: 0,
    }
