"""Spans and moments as milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ConfigError, MessageRefusedError
from pyromq.model.message import Message
from pyromq.model.times import given_ms, given_timeout_ms, moment_ms, span_ms


@pytest.mark.parametrize(
    ("span", "milliseconds"),
    [
        (timedelta(minutes=30), 1_800_000),
        (timedelta(microseconds=1), 1),
        (timedelta(0), 0),
        (timedelta(days=3_650), 315_360_000_000),
        (2.5, 2_500),
        (3, 3_000),
        (0.0001, 1),
        (1.1, 1_100),
        (0, 0),
    ],
)
def test_a_span_is_a_timedelta_or_seconds(span: Any, milliseconds: int) -> None:
    assert span_ms("delay", span) == milliseconds


@given(st.integers(0, 10**12))
def test_whole_milliseconds_stay_what_they_are(milliseconds: int) -> None:
    assert span_ms("delay", timedelta(milliseconds=milliseconds)) == milliseconds
    assert span_ms("delay", milliseconds / 1000) == milliseconds


@pytest.mark.parametrize(
    ("span", "words"),
    [
        ("3", "timedelta or seconds, not str"),
        (True, "not bool"),
        (float("nan"), "is no time"),
        (float("inf"), "is no time"),
        (1e300, "is no time"),
        (10**400, "is no time"),
        (-1, "is negative"),
        (timedelta(seconds=-1), "is negative"),
        (datetime(2026, 1, 1, tzinfo=UTC), "not datetime"),
    ],
)
def test_what_is_no_span_is_refused(span: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        span_ms("delay", span)


def test_a_moment_has_a_time_zone() -> None:
    noon = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert moment_ms("deliver_at", noon) == moment_ms("deliver_at", datetime(2026, 5, 1, 10, tzinfo=UTC))
    with pytest.raises(ConfigError, match=r"deliver_at=2026-05-01 12:00:00 has no time zone: use"):
        moment_ms("deliver_at", datetime(2026, 5, 1, 12))  # noqa: DTZ001
    with pytest.raises(ConfigError, match="must be a datetime with time zone, not int"):
        moment_ms("deliver_at", 3)  # type: ignore[arg-type]


def test_one_of_two_forms_is_given() -> None:
    assert given_ms("timeout", None, None) is None
    assert given_ms("timeout", 3, None) == 3
    assert given_ms("timeout", None, 0) == 0
    with pytest.raises(ConfigError, match="timeout_ms=3 and timeout=4: give one of them"):
        given_ms("timeout", 3, 4)
    with pytest.raises(ConfigError, match="leaves no time"):
        given_timeout_ms(None, timedelta(0))


def test_a_message_takes_both_forms_and_has_one() -> None:
    message = Message("orders", b"1", delay=timedelta(minutes=1))
    assert message == Message("orders", b"1", delay_ms=60_000)
    assert (message.delay_ms, message.delay) == (60_000, None)
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    later = Message("orders", b"1", deliver_at=moment)
    assert later == Message("orders", b"1", deliver_at_ms=int(moment.timestamp() * 1000))
    assert Message("orders", b"1", deliver_at=datetime(1960, 1, 1, tzinfo=UTC)).deliver_at_ms == 1, "at once"
    assert Message("orders", b"1", delay=0) == Message("orders", b"1")


@pytest.mark.parametrize(
    "two",
    [
        {"delay": 1, "delay_ms": 1_000},
        {"delay": timedelta(0), "delay_ms": 1_000},
        {"delay": 1, "deliver_at": datetime(2030, 1, 1, tzinfo=UTC)},
        {"deliver_at": datetime(2030, 1, 1, tzinfo=UTC), "delay_level": 3},
    ],
)
def test_a_message_is_delayed_in_one_way(two: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="delayed in one way"):
        Message("orders", b"1", **two)


def test_a_sharding_key_is_not_delayed_in_whatever_form() -> None:
    with pytest.raises(MessageRefusedError, match="would overtake it"):
        Message("orders", b"1", sharding_key="a", delay=timedelta(seconds=1))
