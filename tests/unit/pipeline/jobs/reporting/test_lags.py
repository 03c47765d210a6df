"""Lag of groups without a trace."""

from __future__ import annotations

import msgspec

from pyromq.pipeline.jobs.reporting.lags import lags_now
from pyromq.pipeline.jobs.reporting.page import page
from pyromq.pipeline.jobs.reporting.reading import Committed
from tests.unit.pipeline.jobs.reporting.reports import a_report


def test_a_group_without_trace_has_its_lag_of_now() -> None:
    queues = [
        Committed(group="g", topic=topic, place=f"b:{number}", offset=5, behind=number)
        for topic in ("a", "b")
        for number in range(4)
    ]
    found = lags_now(queues)
    assert [(each.group, each.topic, each.last, each.max) for each in found] == [("g", "a", 6, 6), ("g", "b", 6, 6)]
    assert "<td>a</td>" in page(msgspec.structs.replace(a_report(), lags=found))
