"""Planted mistakes of what members keep of leases, and of disks that were replaced."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from pyromq.broker.base.lease import LeaseState
from pyromq.failover import rules
from tests.sim.lie import Lie, replaced, wrapped
from tests.sim.plan import DISK


def _whatever_it_has(plain: Any) -> Any:
    def hold_on(sight: Any, broker: Any, record: Any) -> Any:
        return plain(sight, broker, replace(record, forced=True))

    return hold_on


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
        300_429,
        kinds=("old lease", "leases set back", "leases emptied"),
        is_of_sets=True,
    ),
)
