"""Samples of all brokers over time: what live charts and forecasts are made of.

Every few seconds one request to each broker. The last one is kept whole, its numbers go to the history.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import msgspec

from pyromq.aio import Admin
from pyromq.clock import Clock
from pyromq.console.history.keeper import History
from pyromq.console.history.names import CLUSTER_IN, CLUSTER_OUT, broker_number
from pyromq.errors import MQError, printable
from pyromq.operate.brokers import BrokerRow, cluster_rates

logger = logging.getLogger(__name__)

EVERY_MS: Final = 5_000


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
        return cluster_rates(self.brokers)[0]

    @property
    def get_rate(self) -> float:
        return cluster_rates(self.brokers)[1]


class Sampler:
    """``take`` asks now, ``run`` again and again; ``last`` is the newest, the history has the numbers of all."""

    def __init__(self, admin: Admin, clock: Clock, history: History) -> None:
        self._admin, self._clock, self._history = admin, clock, history
        self.last: ClusterSample | None = None

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
        self.last = sample
        self._history.add(numbers_of(sample))
        return sample


def numbers_of(sample: ClusterSample) -> dict[str, float]:
    """What the history keeps of a sample; brokers that did not answer leave a gap."""
    found: dict[str, float] = {}
    for each in sample.brokers:
        if not each.problem:
            found[broker_number(each.key, "in")] = each.put_rate
            found[broker_number(each.key, "out")] = each.get_rate
            if each.disk_total:
                found[broker_number(each.key, "free")] = each.disk_free
                found[broker_number(each.key, "total")] = each.disk_total
    if found:
        found |= {CLUSTER_IN: sample.put_rate, CLUSTER_OUT: sample.get_rate}
    return found
