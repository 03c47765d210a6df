"""Planted mistakes of machines that are suspended, and of disks that were copied from another member."""

from __future__ import annotations

import time
from typing import Final

from pyromq.broker.base import steady_clock
from pyromq.broker.base.lease import Lease, LeaseState
from tests.sim.lie import Lie, replaced
from tests.sim.plan import SEED, SLEEP

MACHINE_LIES: Final = (
    Lie(
        "delays stand still",
        "the clock of delayed messages does not count while the machine sleeps",
        replaced(steady_clock, "machine_ms", lambda: time.monotonic_ns() // 1_000_000),
        710_026,
        kinds=(SLEEP,),
        clients=("delayed",),
    ),
    Lie(
        "grants stand still",
        "a broker counts the time of its lease by a clock that does not go on while its machine sleeps",
        replaced(Lease.__init__, "__defaults__", (lambda: time.monotonic(), None)),
        710_008,
        kinds=(SLEEP,),
        is_of_sets=True,
    ),
    Lie(
        "copies are masters",
        "a broker takes the lease that it finds on a copy of another member's disk for its own",
        replaced(LeaseState, "copied_by", lambda self, address: self),
        710_162,
        kinds=(SEED,),
        is_of_sets=True,
    ),
)
