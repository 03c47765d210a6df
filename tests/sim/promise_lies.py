"""Planted mistakes of what members keep of leases, and of disks that were replaced by empty ones or older copies."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from msgspec.structs import replace

from pyromq.broker.base.lease import LeaseState
from pyromq.failover import doubt, rules
from pyromq.failover.agent import Agent
from tests.sim.lie import Lie, both, replaced, wrapped
from tests.sim.plan import COPY, DISK


def _whatever_it_has(plain: Any) -> Any:
    def hold_on(sight: Any, broker: Any, record: Any) -> Any:
        return plain(sight, broker, replace(record, forced=True))

    return hold_on


def _taken_back(plain: Any) -> Any:
    async def write(self: Agent, record: Any, broker: Any) -> None:
        mine = self.state.mine
        await plain(self, record, broker)
        if record.holder != self.me and not record.handed:
            self.state.mine = mine

    return write


def _as_if_it_ran(plain: Any) -> Any:
    def written_again(sight: Any, broker: Any) -> Any:
        return plain(dataclasses.replace(sight, is_restarted=False), replace(broker, granted_s=1.0))

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
        "silence counts as consent, and a member follows a log without the lease that it acknowledged under",
        both(
            replaced(doubt, "lacks_answers", lambda *_, **__: ""),  # else hardly anybody is led there
            replaced(LeaseState, "broken_promise", lambda *_: None),
        ),
        54,
        kinds=("old lease", "leases set back", "leases emptied"),
        is_of_sets=True,
    ),
    Lie(
        "leases are taken back",
        "a master that gave its lease away, because its disk is an older copy, makes the next one",
        both(wrapped(Agent, "_write", _taken_back), wrapped(rules, "_written_again", _as_if_it_ran)),
        500_049,
        kinds=(COPY,),
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
