"""Lag history: bounded, by group, and untroubled by a cluster that does not answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyromq.console.lag_history import EVERY_MS, POINTS_MAX, LagSampler
from pyromq.errors import ConnectFailedError
from pyromq.operate.sweep import GroupTotals
from pyromq.testing import ManualClock


class Told:
    """An admin that tells these totals, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.groups = self

    async def totals(self) -> dict[str, GroupTotals]:
        answer = self._answers.pop(0) if self._answers else asyncio.CancelledError()
        if isinstance(answer, BaseException):
            raise answer
        return {"g": GroupTotals(lag=answer, retrying=1)}


def test_points_are_kept_by_group_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    history = LagSampler(Told(), clock)  # type: ignore[arg-type]
    for number in range(POINTS_MAX + 10):
        clock.advance_ms(1)
        history.add({"g": GroupTotals(lag=number)})
    points = history.points("g")
    assert len(points) == POINTS_MAX
    assert points[-1] == (clock.now_ms(), POINTS_MAX + 9)
    assert history.points("nobody") == []
    monkeypatch.setattr("pyromq.console.lag_history.GROUPS_MAX", 2)
    history.add({"a": GroupTotals(), "b": GroupTotals()})
    assert history.points("g") == []


def test_a_cluster_that_does_not_answer_leaves_a_gap_and_sampling_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    history = LagSampler(Told(3, ConnectFailedError("away"), 5), ManualClock())  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(history.run())
    assert [lag for _, lag in history.points("g")] == [3, 5]
    assert slept == [EVERY_MS / 1000] * 3
