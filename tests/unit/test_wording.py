"""Times, spans and counts in words."""

from __future__ import annotations

import pytest

from pyromq.wording import ago, counted, shown_span, shown_time, times, until


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (3_599_000, "59 min 59 s"),
        (3_600_000, "1 h"),
        (90_000_000, "1 d 1 h"),
        (86_400_000 * 400, "400 d"),
    ],
)
def test_spans_have_two_units(span_ms: int, text: str) -> None:
    assert shown_span(span_ms) == text


def test_times_are_utc() -> None:
    assert shown_time(1_700_000_000_000) == "2023-11-14 22:13:20Z"


def test_a_moment_is_told_from_now() -> None:
    assert (ago(1_000, 6_000), until(6_000, 1_000), until(1_000, 6_000)) == ("5 s ago", "in 5 s", "any moment")


def test_one_is_not_many() -> None:
    assert (counted(1, "queue"), counted(0, "queue"), counted(2, "entry", "entries")) == (
        "1 queue",
        "0 queues",
        "2 entries",
    )
    assert (times(1), times(2), times(3)) == ("once", "twice", "3 times")
