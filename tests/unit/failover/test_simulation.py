"""Whatever is paused, cut off or killed: one master at a time, and nothing acknowledged is lost."""

from __future__ import annotations

import os

import pytest

from pyromq.failover import rules
from pyromq.failover.record import BrokerStatus, MemberStatus
from pyromq.failover.rules import Timing
from tests.unit.failover.simulation import Group, simulate

SEEDS = int(os.environ.get("PYROMQ_FAILOVER_SEEDS", "8"))


def run(seed: int, *, members: int = 3, timing: Timing | None = None, for_s: float = 300) -> Group:
    async def work() -> Group:
        group = Group(seed, members=members, timing=timing)
        await group.run(for_s)
        return group

    return simulate(work)


@pytest.mark.parametrize("members", [2, 3, 4])
def test_one_master_at_a_time_and_nothing_acknowledged_is_lost(members: int) -> None:
    acknowledged = changes = 0
    for seed in range(SEEDS):
        print(f"seed={seed}")
        group = run(seed, members=members)
        acknowledged += len(group.acknowledged)
        changes += group.promotions
    assert acknowledged > 50 * SEEDS and changes > SEEDS  # the runs were no idle ones


def is_found(timing: Timing | None = None) -> bool:
    """Whether one of a few simulations fails."""
    for seed in range(25, 60):
        try:
            run(seed, timing=timing)
        except AssertionError:
            return True
    return False


def test_a_rule_that_names_members_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_early(broker: BrokerStatus, member: MemberStatus) -> bool:
        return True

    monkeypatch.setattr(rules, "_may_join", too_early)
    assert is_found()


def test_a_grant_that_is_too_long_is_found() -> None:
    assert is_found(Timing(margin_s=-6.0))
