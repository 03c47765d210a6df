"""Lag history: how far groups were behind, sampled by the console itself, so that a trend needs no other system.

A sample is one request to each broker. What is kept is bounded: so many groups, those that are furthest behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from heapq import nlargest
from typing import Final

from pyromq.aio import Admin
from pyromq.clock import Clock
from pyromq.console.history.keeper import History
from pyromq.console.history.names import group_lag
from pyromq.console.history.spans import DAY, TimeSpan
from pyromq.errors import MQError
from pyromq.operate.sweep import GroupTotals

logger = logging.getLogger(__name__)

EVERY_MS: Final = 15_000
GROUPS_MAX: Final = 2_000
_SHARE: Final = 20  # a sample that takes long is taken less often: at most one part in so many of the time


class LagSampler:
    """``run`` samples again and again, into the history."""

    def __init__(self, admin: Admin, clock: Clock, history: History) -> None:
        self._admin = admin
        self._clock = clock
        self._history = history

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            began_ms = self._clock.monotonic_ms()
            try:
                self.add((await self._admin.sweeper.read()).totals())
            except MQError as error:  # the pages say so themselves
                logger.debug("no lag sample: reason=%s", error)
            took_ms = self._clock.monotonic_ms() - began_ms
            await asyncio.sleep(max(EVERY_MS, took_ms * _SHARE) / 1000)

    def add(self, totals: Mapping[str, GroupTotals]) -> None:
        kept = nlargest(GROUPS_MAX, totals.items(), key=lambda each: each[1].lag) if len(totals) > GROUPS_MAX else None
        self._history.add({group_lag(group): told.lag for group, told in (kept or totals.items())})

    def points(self, group: str) -> list[tuple[int, int]]:
        """Times and lags of the last day, oldest first: coarse ones, then those of the last quarter of an hour."""
        fine = self._history.points(group_lag(group), TimeSpan.QUARTER)
        begin = fine[0][0] if fine else 0
        coarse = [
            each for each in self._history.points(group_lag(group), TimeSpan.DAY) if each[0] + DAY.step_ms <= begin
        ]
        return [(at, round(value)) for at, value in (*coarse, *fine) if value is not None]
