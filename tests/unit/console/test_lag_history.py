"""Lag history: bounded, by group, and untroubled by a cluster that does not answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyromq.console.history.keeper import History
from pyromq.console.lag_history import EVERY_MS, LagSampler
from pyromq.errors import ConnectFailedError
from pyromq.operate.sweep import GroupTotals
from pyromq.testing import ManualClock


class Told:
    """An admin that tells these totals, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self._lag = 0
        self.sweeper = self

    async def read(self) -> Told:
        answer = self._answers.pop(0) if self._answers else asyncio.CancelledError()
        if isinstance(answer, BaseException):
            raise answer
        self._lag = answer
        return self

    def totals(self) -> dict[str, GroupTotals]:
        return {"g": GroupTotals(lag=self._lag, retrying=1)}


def test_points_are_kept_by_group_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    lags = LagSampler(Told(), clock, History(clock))  # type: ignore[arg-type]
    for number in range(3):
        clock.advance_ms(EVERY_MS)
        lags.add({"g": GroupTotals(lag=number), "other": GroupTotals(lag=9)})
    assert [lag for _, lag in lags.points("g")] == [0, 1, 2]
    assert lags.points("nobody") == []
    monkeypatch.setattr("pyromq.console.lag_history.GROUPS_MAX", 2)
    clock.advance_ms(EVERY_MS)
    lags.add({"a": GroupTotals(lag=1), "b": GroupTotals(lag=7), "c": GroupTotals(lag=5)})
    assert [bool(lags.points(group)) for group in "abc"] == [False, True, True], "those that are furthest behind"


def test_a_cluster_that_does_not_answer_leaves_a_gap_and_sampling_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    clock = ManualClock()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.advance_ms(int(seconds * 1000))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    lags = LagSampler(Told(3, ConnectFailedError("away"), 5), clock, History(clock))  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(lags.run())
    assert [lag for _, lag in lags.points("g")] == [3, 5]
    assert slept == [EVERY_MS / 1000] * 3
