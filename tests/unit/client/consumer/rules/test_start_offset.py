"""Where a consumer starts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from pyromq.client.consumer.rules.start_offset import (
    AskBegin,
    AskByTime,
    AskEnd,
    NotNow,
    OpenedAt,
    StartAt,
    StartPlan,
    Stored,
    parse_consume_time,
    plan_broadcast_start,
    plan_start,
)
from pyromq.errors import ConfigError
from pyromq.model.queue import Offset
from pyromq.wire.json.heartbeat import ConsumeFromWhere as From

ZERO = StartAt(Offset(0))


@pytest.mark.parametrize(
    ("from_where", "ordinary", "retries"),
    [
        (From.CONSUME_FROM_LAST_OFFSET, AskEnd(), ZERO),
        (From.CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST, AskEnd(), ZERO),
        (From.CONSUME_FROM_MIN_OFFSET, AskEnd(), ZERO),
        (From.CONSUME_FROM_MAX_OFFSET, AskEnd(), ZERO),
        (From.CONSUME_FROM_FIRST_OFFSET, ZERO, ZERO),
        (From.CONSUME_FROM_TIMESTAMP, AskByTime(777), AskEnd()),
    ],
)
@pytest.mark.parametrize("stored", [Stored.NONE, -1])
def test_without_a_stored_offset_the_setting_decides(
    stored: int | Stored, from_where: From, ordinary: StartPlan, retries: StartPlan
) -> None:
    assert plan_start("orders", stored, from_where, 777) == ordinary
    assert plan_start("%RETRY%g", stored, from_where, 777) == retries


@pytest.mark.parametrize("from_where", From)
@pytest.mark.parametrize("topic", ["orders", "%RETRY%g"])
def test_a_stored_offset_wins_and_an_unreadable_one_waits(topic: str, from_where: From) -> None:
    assert plan_start(topic, 0, from_where, 777) == ZERO
    assert plan_start(topic, 42, from_where, 777) == StartAt(Offset(42))
    assert plan_start(topic, Stored.UNREADABLE, from_where, 777) == NotNow()


def test_a_consume_time_is_read_in_its_zone() -> None:
    moment = datetime(2024, 2, 29, 23, 59, 58, tzinfo=UTC)
    assert parse_consume_time("20240229235958", UTC) == int(moment.timestamp()) * 1000
    east = timezone(timedelta(hours=8))
    assert parse_consume_time("20240229235958", east) == int(moment.timestamp()) * 1000 - 8 * 3_600_000


def test_without_a_zone_the_machine_decides() -> None:
    local = datetime(2024, 2, 29, 23, 59, 58).astimezone()
    assert parse_consume_time("20240229235958") == int(local.timestamp()) * 1000


@pytest.mark.parametrize("text", ["", "2024", "20230229000000", "2024022923595x", "99999999999999"])
def test_a_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_consume_time(text, UTC)


@pytest.mark.parametrize(
    ("topic", "opened", "plan"),
    [
        ("known", None, AskEnd()),
        ("known", OpenedAt(77, frozenset({"known"}), frozenset({"absent"})), AskByTime(77)),
        ("absent", OpenedAt(77, frozenset({"known"}), frozenset({"absent"})), AskBegin()),
        ("subscribed later", OpenedAt(77, frozenset({"known"}), frozenset({"absent"})), AskEnd()),
    ],
)
def test_a_broadcasting_member_starts_where_it_was_opened(topic: str, opened: OpenedAt | None, plan: StartPlan) -> None:
    assert plan_broadcast_start(topic, opened) == plan
