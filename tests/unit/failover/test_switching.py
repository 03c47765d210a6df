"""Who is chosen in a planned change, and what is said when it cannot be."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyromq.errors import ConfigError
from pyromq.failover.record import LeaseError
from pyromq.failover.rules import asked_to_hand_over, decide
from pyromq.failover.sight import KeepWaiting, Timing
from pyromq.failover.switching import SwitchGivenUpError, choose, current, switch
from tests.unit.failover.simulation import Group, Node, StoreDoor, simulate
from tests.unit.failover.test_rules import MASTER, RECORD, A, B, C, sight


def test_the_only_other_member_is_meant_or_the_one_that_is_named() -> None:
    assert choose(RECORD, "") == B and choose(RECORD, C) == C
    with pytest.raises(LeaseError, match="--to"):
        choose(replace(RECORD, in_sync=(A, B, C)), "")
    with pytest.raises(LeaseError, match="no replica"):
        choose(replace(RECORD, in_sync=(A,)), "")


def test_who_lacks_something_or_is_master_is_not_asked_for() -> None:
    assert asked_to_hand_over(RECORD, B).wanted == B
    for to, why in ((A, "already"), (C, "may lack")):
        with pytest.raises(LeaseError, match=why):
            asked_to_hand_over(RECORD, to)


def test_an_old_master_waits_with_its_sends_until_the_new_one_serves() -> None:
    handed = replace(RECORD, holder=B, number=4, handed=True)
    held = replace(MASTER, held=True)
    assert isinstance(decide(sight(A, held, handed, held_s=99.0)), KeepWaiting)
    assert not isinstance(decide(sight(A, held, handed, held_s=90.0)), KeepWaiting), "but not for ever"
    assert not isinstance(decide(sight(A, held, replace(handed, handed=False), held_s=99.0)), KeepWaiting)


@pytest.mark.parametrize("duration_s", [0.0, 0.5, 301.0, float("nan")])
def test_a_lease_has_bounds(duration_s: float) -> None:
    with pytest.raises(ConfigError):
        Timing.of(duration_s)
    assert Timing.of(4.0) == Timing()


def test_without_a_lease_it_is_said_what_to_do() -> None:
    async def work() -> None:
        group = Group(1)
        store = StoreDoor(Node("somebody", group.chance), group.store)
        with pytest.raises(LeaseError, match="pyromq failover"):
            await current(store)
        group.store.record, group.store.version = RECORD, 1
        told = []
        with pytest.raises(SwitchGivenUpError, match="goes on as master"):
            async for step in switch(store, _nobody, B):
                told.append(step)
                group.store.record = replace(RECORD, wanted="")
        assert told == [f"asked {A} to hand over to {B}"]

    simulate(work)


async def _nobody(address: str) -> None:
    return None
