"""Streaming queries of jobs: how often they look for more."""

from __future__ import annotations

from pyromq.pipeline.jobs.common.queries import trigger_of


def test_a_query_ends_unless_it_follows() -> None:
    assert trigger_of(None) == {"availableNow": True}
    assert trigger_of(0.5) == {"processingTime": "500 milliseconds"}
