"""Whatever is paused, cut off or killed: one master at a time, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import os

import pytest

from pyromq.failover import next_record
from pyromq.failover.agent import AgentState
from pyromq.failover.record import BrokerStatus, LeaseRecord, MemberStatus
from pyromq.failover.sight import Timing
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


class LostDisks(Group):
    """Disks are replaced by empty ones, often the master's, while another member in sync has everything."""

    lost = 0

    def _something_happens(self) -> None:
        record = self.store.record
        if record is not None and not record.renewals:
            return  # a change to a member that is not in sync is refused: the first lease is written to by nobody else
        if record is None or self.chance.random() < 0.7:
            super()._something_happens()
            return
        name = record.holder if self.chance.random() < 0.5 else self.chance.choice(self.nodes).name
        others = [self.brokers[each] for each in record.in_sync if each != name]
        if any(each.log_number == record.number and set(self.acknowledged) <= set(each.log) for each in others):
            self.lost += 1
            self.crash(self.brokers[name].node)
            self.brokers[name].lose_disk()
            self.brokers[name].node.is_alive = self.chance.random() < 0.6


class FirstSeconds(Group):
    """The machine of the first master dies within the first seconds, and comes back."""

    turn = 0

    def pause_s(self) -> float:
        return self.chance.uniform(0.2, 3.0)

    def _something_happens(self) -> None:
        self.turn += 1
        if self.turn == 1:
            self.crash(self.nodes[0])
        elif self.turn == 2:
            self.nodes[0].is_alive = True


def test_a_disk_that_is_replaced_takes_nothing_with_it_and_needs_no_operator() -> None:
    lost = 0
    for members in (2, 3):
        for seed in range(SEEDS):
            print(f"members={members} seed={seed}")
            lost += run(seed, members=members, kind=LostDisks, for_s=200).lost  # type: ignore[attr-defined]
    assert lost > 2 * SEEDS


def test_a_set_whose_first_master_is_killed_in_its_first_seconds_goes_on() -> None:
    for members in (2, 3):
        for seed in range(27, 30):
            print(f"members={members} seed={seed}")
            run(seed, members=members, kind=FirstSeconds, for_s=12)


def is_found(timing: Timing | None = None, kind: type[Group] = Group) -> bool:
    """Whether one of a few simulations fails."""
    for seed in range(180, 215):
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

    monkeypatch.setattr(next_record, "_may_join", too_early)
    monkeypatch.setattr(
        next_record, "_confirmed", lowered
    )  # else those that lack something may be named, and not take over
    monkeypatch.setattr(AgentState, "note_positions", all_are_young)  # else one that is behind is not named for that
    assert is_found(kind=Adversary)


def test_a_grant_that_is_too_long_is_found() -> None:
    assert is_found(Timing(margin_s=-3.0))
