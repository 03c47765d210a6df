"""Planted mistakes of what members keep of leases, and of disks that were replaced by empty ones or older copies."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from pyromq.broker.base.lease import LeaseState
from pyromq.failover import rules
from pyromq.failover.agent import Agent
from tests.sim.lie import Lie, replaced, wrapped
from tests.sim.plan import COPY, DISK, STANDBY


def _whatever_it_has(plain: Any) -> Any:
    def hold_on(sight: Any, broker: Any, record: Any) -> Any:
        return plain(sight, broker, replace(record, forced=True))

    return hold_on


def _taken_back(plain: Any) -> Any:
    async def write(self: Agent, record: Any, broker: Any) -> None:
        mine = self.state.mine
        await plain(self, record, broker)
        if record.holder != self.me:
            self.state.mine = mine

    return write


def _as_if_it_ran(plain: Any) -> Any:
    def written_again(sight: Any, broker: Any) -> Any:
        return plain(sight, replace(broker, granted_s=1.0))

    return written_again


PROMISE_LIES: Final = (
    Lie(
        "new disks hold on",
        "a holder goes on with whatever its disk has",
        wrapped(rules, "_hold_on", _whatever_it_has),
        300_676,
        kinds=(DISK,),
        is_of_sets=True,
    ),
    Lie(
        "acknowledged is cut",
        "a member follows a log that was never written under the lease that it acknowledged under",
        replaced(LeaseState, "broken_promise", lambda *_: None),
        21_717,
        kinds=("old lease", "leases set back", "leases emptied"),
        is_of_sets=True,
    ),
    Lie(
        "leases are taken back",
        "a master that handed its lease over makes it again when the store has lost that",
        wrapped(Agent, "_write", _taken_back),
        800_297,
        kinds=(STANDBY,),
        is_of_sets=True,
    ),
    Lie(
        "leases of others are written over",
        "a broker that was started anew counts as the master that it was, whoever has its lease by now",
        wrapped(rules, "_written_again", _as_if_it_ran),
        720_122,
        kinds=("leases set back",),
        is_of_sets=True,
    ),
    Lie(
        "older disks go on",
        "a master that is started with less than it had goes on with that",
        replaced(rules, "_without_its_end", lambda *_: None),
        500_049,
        kinds=(COPY,),
        is_of_sets=True,
    ),
)
