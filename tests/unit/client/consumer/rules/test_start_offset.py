"""Where a consumer starts."""

from __future__ import annotations

import pytest

from pyromq.client.consumer.rules.start_offset import (
    CLOCK_SKEW_MS,
    AskBegin,
    AskByTime,
    AskEnd,
    NotNow,
    StartAt,
    StartPlan,
    Stored,
    Subscribed,
    plan_start,
)
from pyromq.model.queue import Offset
from pyromq.wire.json.heartbeat import ConsumeFromWhere as From

ZERO = StartAt(Offset(0))


SUBSCRIBED_MS = 1_700_000_000_000
SINCE = AskByTime(SUBSCRIBED_MS - CLOCK_SKEW_MS)


@pytest.mark.parametrize(
    ("from_where", "while_subscribing", "found_later", "was_absent"),
    [
        (From.CONSUME_FROM_LAST_OFFSET, AskEnd(), SINCE, AskBegin()),
        (From.CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST, AskEnd(), SINCE, AskBegin()),
        (From.CONSUME_FROM_MIN_OFFSET, AskEnd(), SINCE, AskBegin()),
        (From.CONSUME_FROM_MAX_OFFSET, AskEnd(), SINCE, AskBegin()),
        (From.CONSUME_FROM_FIRST_OFFSET, ZERO, ZERO, ZERO),
        (From.CONSUME_FROM_TIMESTAMP, AskByTime(777), AskByTime(777), AskByTime(777)),
    ],
)
@pytest.mark.parametrize("stored", [Stored.NONE, -1])
def test_without_a_stored_offset_the_setting_decides(
    stored: int | Stored, from_where: From, while_subscribing: StartPlan, found_later: StartPlan, was_absent: StartPlan
) -> None:
    there, absent = Subscribed(SUBSCRIBED_MS), Subscribed(SUBSCRIBED_MS, was_absent=True)
    assert plan_start("orders", stored, from_where, 777) == while_subscribing
    assert plan_start("orders", stored, from_where, 777, there) == found_later
    assert plan_start("orders", stored, from_where, 777, absent) == was_absent
    for subscribed in (None, there, absent):
        assert plan_start("%RETRY%g", stored, from_where, 777, subscribed) == ZERO


@pytest.mark.parametrize("from_where", From)
@pytest.mark.parametrize("topic", ["orders", "%RETRY%g"])
def test_a_stored_offset_wins_and_an_unreadable_one_waits(topic: str, from_where: From) -> None:
    assert plan_start(topic, 0, from_where, 777) == ZERO
    assert plan_start(topic, 42, from_where, 777) == StartAt(Offset(42))
    assert plan_start(topic, Stored.UNREADABLE, from_where, 777) == NotNow()
