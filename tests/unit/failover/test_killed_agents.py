"""An agent that is killed at any of its steps leaves nothing that its successor, or the others, cannot go on from."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pyromq.failover.agent import Agent
from tests.unit.failover.simulation import Group, Node, SimulatedPeers, StoreDoor, now_s, simulate

EVERY = 1 if "PYROMQ_FAILOVER_SEEDS" in os.environ else 7  # n-th step
CALLS = ("read", "write", "status", "grant", "promote", "follow", "hold", "release", "note")


class Mortal:
    """Calls through to a store or a broker; at the n-th call of all it kills the agent, before or after it."""

    def __init__(self, inner: Any, deaths: Deaths) -> None:
        self._inner, self._deaths = inner, deaths

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        call = getattr(self._inner, name)

        async def called(*args: Any) -> Any:
            self._deaths.step(name, is_before=True)
            answer = await call(*args)
            self._deaths.step(name, is_before=False)
            return answer

        return called


class Deaths:
    """One, at the n-th call of a kind that changes something."""

    def __init__(self, at: int, *, is_before: bool) -> None:
        self._at, self._is_before = at, is_before
        self.calls = 0
        self.died = ""

    def step(self, name: str, *, is_before: bool) -> None:
        assert name in CALLS
        if name in ("read", "status", "note"):
            return
        self.calls += is_before
        if self.calls == self._at and is_before == self._is_before and not self.died:
            self.died = name
            raise asyncio.CancelledError


class MortalGroup(Group):
    deaths: Deaths

    def new_agent(self, node: Node) -> Agent:
        door, broker = Mortal(StoreDoor(node, self.store), self.deaths), Mortal(self.brokers[node.name], self.deaths)
        return Agent(node.name, door, broker, SimulatedPeers(self, node), timing=self.timing, now_s=now_s)


def life(deaths: Deaths) -> MortalGroup:
    """A planned change, then the new master dies, then it comes back."""

    async def work() -> MortalGroup:
        MortalGroup.deaths = deaths
        group = MortalGroup(7, members=3)

        async def script() -> None:
            await asyncio.sleep(12)
            assert group.store.record is not None
            wanted = next(each for each in group.store.record.in_sync if each != group.store.record.holder)
            record = group.store.record
            group.store.put(replace(record, wanted=wanted, renewals=record.renewals + 1))
            await asyncio.sleep(12)
            master = next(node for node in group.nodes if node.name == group.store.record.holder)
            master.is_alive = False
            await asyncio.sleep(25)
            master.is_alive = True

        running = asyncio.create_task(script())
        await group.run(70, faults=False)
        await running
        return group

    return simulate(work)


def test_a_life_without_deaths_changes_masters_twice() -> None:
    deaths = Deaths(0, is_before=True)
    group = life(deaths)
    assert group.last_number >= 3 and not group.killed and len(group.acknowledged) > 50
    assert deaths.calls > 20


@pytest.mark.parametrize("is_before", [True, False])
def test_killed_at_any_step(is_before: bool) -> None:
    killed = 0
    for at in range(1 + is_before, 60, EVERY):
        deaths = Deaths(at, is_before=is_before)
        group = life(deaths)
        killed += bool(deaths.died)
        assert len(group.acknowledged) > 50, f"call {at}: {deaths.died}"
    assert killed > 40 // EVERY
