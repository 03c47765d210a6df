"""Times as people type them."""

from __future__ import annotations

import click
import pytest

from pyromq.cli import clock
from pyromq.cli.output.times import parse_time, show_moment, show_time, span_ms
from pyromq.testing import ManualClock

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("now", NOW_MS),
        ("1700000000123", 1_700_000_000_123),
        ("2h ago", NOW_MS - 7_200_000),
        ("30s", NOW_MS - 30_000),
        ("-1d", NOW_MS - 86_400_000),
        ("2023-11-14T22:13:20", NOW_MS),
        ("2023-11-14 22:13:20Z", NOW_MS),
        ("2023-11-15T00:13:20+02:00", NOW_MS),
        ("10m", NOW_MS - 600_000),
        ("1h30m", NOW_MS - 5_400_000),
        ("2d 4h ago", NOW_MS - 187_200_000),
        ("1w", NOW_MS - 604_800_000),
        ("500ms ago", NOW_MS - 500),
        ("in 5m", NOW_MS + 300_000),
        (" NOW ", NOW_MS),
        ("today", 1_699_920_000_000),
        ("yesterday", 1_699_833_600_000),
        ("tomorrow", 1_700_006_400_000),
        ("2023-11-14", 1_699_920_000_000),
        ("99999w", 0),
    ],
)
def test_times_are_understood(text: str, time_ms: int) -> None:
    assert parse_time(text, NOW_MS) == time_ms


@pytest.mark.parametrize(
    "text", ["", "soon", "2h later", "2023-13-01", "in", "in soon", "ago", "m", "5x", "١٠m", "2026-01-01T99"]
)
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time"):
        parse_time(text, NOW_MS)


def test_an_unknown_time_is_empty() -> None:
    assert (show_time(0), show_time(NOW_MS)) == ("", "2023-11-14 22:13:20Z")


def test_a_moment_is_shown_with_how_long_ago_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "in_use", ManualClock(now_ms=NOW_MS))
    assert show_moment(NOW_MS - 200_000) == "2023-11-14 22:10:00Z (3 min 20 s ago)"
    assert show_moment(NOW_MS + 60_000) == "2023-11-14 22:14:20Z (in 1 min)"
    assert (show_moment(NOW_MS), show_moment(0)) == ("2023-11-14 22:13:20Z (0 s ago)", "")


def test_spans_are_read() -> None:
    assert [span_ms(text) for text in ("10m", "1h 30m", "0s", "", "h", "1", "-1m")] == [
        600_000,
        5_400_000,
        0,
        None,
        None,
        None,
        None,
    ]
