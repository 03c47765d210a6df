"""Times as people type them."""

from __future__ import annotations

import click
import pytest

from pyromq.cli.output.times import parse_time, show_time

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
    ],
)
def test_times_are_understood(text: str, time_ms: int) -> None:
    assert parse_time(text, NOW_MS) == time_ms


@pytest.mark.parametrize("text", ["", "soon", "2h later", "2023-13-01"])
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time"):
        parse_time(text, NOW_MS)


def test_an_unknown_time_is_empty() -> None:
    assert (show_time(0), show_time(NOW_MS)) == ("", "2023-11-14 22:13:20Z")
