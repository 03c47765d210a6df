"""Progress bars of jobs."""

from __future__ import annotations

from pyromq.pipeline.jobs.common.bars import numbers


def test_behind_a_bar_stands_what_is_known() -> None:
    assert numbers(0, None, None) == ""
    assert numbers(1_500, None, None) == "1,500" and numbers(2, 7, 0.4) == "2 of 7"
    assert numbers(1_500, 4_500, 100) == "1,500 of 4,500  100 a second  30 s left"
