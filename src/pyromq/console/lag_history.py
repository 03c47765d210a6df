"""Lag history: how far groups were behind, sampled by the console itself, so that a trend needs no other system.

A sample is one request to each broker. What is kept is bounded: so many groups, so many points of each.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Final

from pyromq.aio import Admin
from pyromq.clock import Clock
from pyromq.errors import MQError
from pyromq.operate.sweep import GroupTotals

logger = logging.getLogger(__name__)

EVERY_MS: Final = 15_000
POINTS_MAX: Final = 480  # two hours
GROUPS_MAX: Final = 5_000
_SHARE: Final = 20  # a sample that takes long is taken less often: at most one part in so many of the time


class LagSampler:
    """``run`` samples again and again. Owner of the points."""

    def __init__(self, admin: Admin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._points: OrderedDict[str, deque[tuple[int, int]]] = OrderedDict()

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            began_ms = self._clock.monotonic_ms()
            try:
                self.add(await self._admin.groups.totals())
            except MQError as error:  # the pages say so themselves
                logger.debug("no lag sample: reason=%s", error)
            took_ms = self._clock.monotonic_ms() - began_ms
            await asyncio.sleep(max(EVERY_MS, took_ms * _SHARE) / 1000)

    def add(self, totals: Mapping[str, GroupTotals]) -> None:
        now_ms = self._clock.now_ms()
        for group, told in totals.items():
            points = self._points.get(group)
            if points is None:
                points = self._points[group] = deque(maxlen=POINTS_MAX)
            points.append((now_ms, told.lag))
            self._points.move_to_end(group)
        while len(self._points) > GROUPS_MAX:
            self._points.popitem(last=False)

    def points(self, group: str) -> list[tuple[int, int]]:
        """Times and lags, oldest first."""
        return list(self._points.get(group, ()))
