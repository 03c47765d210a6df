"""Buckets and lags of a report."""

from __future__ import annotations

import pytest

from pyromq.pipeline.jobs.reporting.numbers import (
    Point,
    bucket_width,
    filled,
    lag_of,
)


@pytest.mark.parametrize(
    ("span_ms", "width"), [(0, 100), (12_001, 200), (120_000, 1_000), (120_001, 2_000), (86_400_000, 1_800_000)]
)
def test_buckets_are_few_and_round(span_ms: int, width: int) -> None:
    assert bucket_width(span_ms) == width


def test_a_very_long_span_still_has_few_buckets() -> None:
    span_ms = 10 * 365 * 86_400_000
    assert span_ms / bucket_width(span_ms) <= 120


def test_buckets_without_messages_are_there() -> None:
    assert filled({1_000: 2.0}, 500, 2_100, 1_000) == (Point(0, 0), Point(1_000, 2.0), Point(2_000, 0))


def test_lag_is_what_came_less_what_was_done_and_never_below_none() -> None:
    stored = [Point(at, value) for at, value in ((0, 5), (1, 0), (2, 3))]
    handled = [Point(at, value) for at, value in ((0, 1), (1, 6), (2, 1))]
    lag = lag_of("g", "t", stored, handled)
    assert [point.value for point in lag.points] == [4, 0, 2] and (lag.last, lag.max) == (2, 4)
