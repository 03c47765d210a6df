"""Whatever is paused, cut off or killed: one master at a time, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import os

import pytest

from pyromq.failover import rules
from pyromq.failover.agent import AgentState
from pyromq.failover.record import BrokerStatus, LeaseRecord, MemberStatus
from pyromq.failover.rules import Timing
from tests.running.seeds import seeds
from tests.unit.failover.simulation import Group, Node, simulate

SEEDS = int(os.environ.get("PYROMQ_FAILOVER_SEEDS", "5"))


def run(
    seed: int, *, members: int = 3, timing: Timing | None = None, for_s: float = 300, kind: type[Group] = Group
) -> Group:
    async def work() -> Group:
        group = kind(seed, members=members, timing=timing)
        await group.run(for_s)
        return group

    return simulate(work)


@pytest.mark.seeded
@pytest.mark.parametrize("members", [2, 3, 4])
def test_one_master_at_a_time_and_nothing_acknowledged_is_lost(members: int) -> None:
    acknowledged = changes = 0
    for seed in seeds(SEEDS):
        print(f"seed={seed}")
        group = run(seed, members=members)
        acknowledged += len(group.acknowledged)
        changes += group.promotions
    assert acknowledged > 50 * SEEDS and changes > SEEDS  # the runs were no idle ones


class Adversary(Group):
    """Replicas are cut off for a while; when one is back and still behind, the master dies."""

    turn = 0

    def _something_happens(self) -> None:
        self.turn += 1
        holder = self.store.record.holder if self.store.record is not None else ""
        others = [node for node in self.nodes if node.name != holder]
        if self.turn % 4 == 1:
            for node in others:
                node.cut_off = {holder}
        elif self.turn % 4 == 3:
            self.chance.choice(others).cut_off = set()
            master = next((node for node in self.nodes if node.name == holder), others[0])
            asyncio.get_running_loop().call_later(self.chance.uniform(0.6, 1.4), self.kill, master)
        elif self.turn % 4 == 0:
            for node in self.nodes:
                node.is_alive, node.cut_off = True, set()

    def kill(self, node: Node) -> None:
        node.is_alive = self.is_over


@pytest.mark.seeded
def test_a_master_that_dies_when_a_replica_has_just_come_back_loses_nothing() -> None:
    for seed in seeds(SEEDS):
        run(seed, kind=Adversary)


def is_found(timing: Timing | None = None, kind: type[Group] = Group) -> bool:
    """Whether one of a few simulations fails."""
    for seed in range(115, 150):
        try:
            run(seed, timing=timing, kind=kind)
        except AssertionError:
            return True
    return False


def test_a_rule_that_names_members_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_early(broker: BrokerStatus, member: MemberStatus) -> bool:
        return True

    def all_are_young(state: AgentState, broker: BrokerStatus, now_s: float, absent_s: float) -> None:
        state.heard_s |= {each.address: now_s for each in broker.replicas}

    def lowered(broker: BrokerStatus, others: list[MemberStatus], record: LeaseRecord) -> int:
        return min([broker.end, *(each.position for each in others)])

    monkeypatch.setattr(rules, "_may_join", too_early)
    monkeypatch.setattr(rules, "_confirmed", lowered)  # else those that lack something may be named, and not take over
    monkeypatch.setattr(AgentState, "note_positions", all_are_young)  # else one that is behind is not named for that
    assert is_found(kind=Adversary)


def test_a_grant_that_is_too_long_is_found() -> None:
    assert is_found(Timing(margin_s=-3.0))
