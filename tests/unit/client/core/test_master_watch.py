"""Looking for masters: often at first, and not for ever."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, cast

import pytest

from pyromq.client.core.master_watch import LOOK_FOR_MS, MasterWatch
from pyromq.client.core.tasks import TaskOwner
from pyromq.model.route import BrokerData, TopicRoute

MASTER, OTHER = "127.0.0.1:10911", "127.0.0.1:10921"


def route_of(master: str) -> TopicRoute:
    broker = BrokerData(cluster="c", broker_name="broker-a", broker_addrs={0: master})
    return TopicRoute(broker_datas=(broker,), queue_datas=())


class Routes:
    """One topic, whose broker has another master after so many questions."""

    def __init__(self, moved_after: int) -> None:
        self.asked, self._moved_after = 0, moved_after

    def topics(self) -> list[str]:
        return ["orders"]

    def known(self, topic: str) -> TopicRoute:
        return route_of(MASTER if self.asked < self._moved_after else OTHER)

    async def refresh(self, topic: str, *, timeout_ms: int) -> None:
        self.asked += 1
        assert self.asked < 10_000, "it would never end"


@pytest.fixture
def slept_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return slept


async def look(routes: Routes, times: int = 1) -> None:
    tasks = TaskOwner("test")
    watch = MasterWatch(
        cast(Any, routes), tasks, Random(1), timeout_ms=3_000, is_silent=lambda address: address == MASTER
    )
    for _ in range(times):
        watch.look()
        await tasks.drained()


async def test_another_master_is_looked_for_until_it_is_there(slept_s: list[float]) -> None:
    routes = Routes(moved_after=20)
    await look(routes)
    assert routes.asked == 20 and max(slept_s) <= 1


async def test_the_end_of_a_planned_change_is_not_slept_through(slept_s: list[float]) -> None:
    await look(Routes(moved_after=20))
    assert max(slept_s[:8]) <= 0.2 and sum(slept_s[:8]) >= 0.8, "it takes half a second"
    assert max(slept_s) > 0.2, "a failover takes longer, and name servers have other clients, too"


async def test_a_broker_that_is_gone_for_good_is_left_to_the_polls_of_routes(slept_s: list[float]) -> None:
    routes = Routes(moved_after=1 << 30)
    await look(routes)
    assert LOOK_FOR_MS / 1000 <= sum(slept_s) <= LOOK_FOR_MS / 1000 + 1
    await look(routes, times=2)
    assert sum(slept_s) >= 3 * LOOK_FOR_MS / 1000, (
        "a route that changes, or the next broker that is silent, begins it anew"
    )
