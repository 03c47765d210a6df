"""Samples of all brokers over time: what live charts and forecasts are made of.

Every few seconds one request to each broker; the last minutes are kept as they were, the last day in coarser steps.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from pyromq.aio import Admin
from pyromq.clock import Clock
from pyromq.errors import MQError, printable
from pyromq.operate.brokers import BrokerRow

logger = logging.getLogger(__name__)

EVERY_MS: Final = 5_000
RECENT: Final = 180  # a quarter of an hour of them
COARSE_MS: Final = 300_000
COARSE: Final = 288  # a day


class ClusterSample(msgspec.Struct, frozen=True, kw_only=True):
    """All brokers at one moment; ``problem`` is why name servers could not be asked, or empty."""

    time_ms: int
    brokers: tuple[BrokerRow, ...] = ()
    problem: str = ""

    @property
    def masters(self) -> list[BrokerRow]:
        return [each for each in self.brokers if each.is_master]

    @property
    def put_rate(self) -> float:
        return sum(each.put_rate for each in self.masters)

    @property
    def get_rate(self) -> float:
        return sum(each.get_rate for each in self.brokers)


class Sampler:
    """``take`` asks now, ``run`` again and again; ``recent`` and ``day`` are what is remembered, oldest first."""

    def __init__(self, admin: Admin, clock: Clock) -> None:
        self._admin, self._clock = admin, clock
        self._recent: deque[ClusterSample] = deque(maxlen=RECENT)
        self._day: deque[ClusterSample] = deque(maxlen=COARSE)

    @property
    def recent(self) -> list[ClusterSample]:
        return list(self._recent)

    @property
    def day(self) -> list[ClusterSample]:
        return list(self._day)

    def past_of(self, key: str) -> list[BrokerRow]:
        """One broker process, as far back as it is remembered, oldest first."""
        before = self._recent[0].time_ms if self._recent else 0
        samples = [*(each for each in self._day if each.time_ms < before), *self._recent]
        return [broker for sample in samples for broker in sample.brokers if broker.key == key]

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await self.take()
            await asyncio.sleep(EVERY_MS / 1000)

    async def take(self) -> ClusterSample:
        """Never raises MQError: that a server does not answer is what a sample tells."""
        time_ms = self._clock.now_ms()
        try:
            sample = ClusterSample(time_ms=time_ms, brokers=tuple(await self._admin.brokers.list()))
        except MQError as error:
            sample = ClusterSample(time_ms=time_ms, problem=printable(str(error)))
        self._recent.append(sample)
        if not self._day or time_ms - self._day[-1].time_ms >= COARSE_MS:
            self._day.append(sample)
        return sample


def gaps(samples: Sequence[ClusterSample], every_ms: int = EVERY_MS) -> set[int]:
    """Times after which samples are missing: the console was down, or could not ask."""
    return {before.time_ms for before, after in pairwise(samples) if after.time_ms - before.time_ms > 4 * every_ms}
