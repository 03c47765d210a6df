"""The ledger of popped messages: plans in which brokers are killed all the time, and consumers of both protocols pop.

    odd seeds     a broker alone: it starts again with what its disk has
    even seeds    two or three members under agents: the next master goes on with the log that it has copied

Kills are those of processes (the disk keeps what was written), of power (it loses what was not synced) and of power in
the middle of a write. Consumers: two of each protocol in groups of their own, and one of each in a group that they
share; some of them are killed, too. ``python -m tests.sim --pops --seeds 1..40``.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from pyromq.failover.sight import Timing
from tests.sim.plan import BEGIN_S, LIVENESS, ClientPlan, Fault, Plan

_LASTS_S: Final = 150.0
_KILLS: Final = ("kill broker", "kill machine", "power", "power at operation", "kill broker", "power")
_CLIENTS: Final = (
    *("plain", "plain", "popper", "popper", "popper5", "popper5"),
    *("shared popper", "shared popper5"),
)
_CLIENT_KILLS: Final = 0.1  # of all faults
_WATCH_S: Final = 30.0  # three invisible times


def make_pop_plan(seed: int) -> Plan:
    """The same for the same seed."""
    rng = Random(f"{seed}/pop plan")
    size = 1 if seed % 2 else rng.choice((2, 3))
    duration_s = rng.choice((1.0, 2.0))
    timing = replace(Timing.of(duration_s, alone_s=3.0), look_s=duration_s / 8)
    return Plan(
        seed=seed,
        mode=LIVENESS,
        names=1,
        sets={"a": size},
        lease_store=rng.choice(("etcd", "postgresql")),
        timing=timing,
        kinds=_KILLS,
        faults=_faults(rng, 2.0 if size == 1 else 3.0),
        clients=tuple(ClientPlan(number, kind, 0.4) for number, kind in enumerate(_CLIENTS)),
        faults_end_s=BEGIN_S + _LASTS_S,
        clocks={},
        disk_ms=rng.choice(((0.1, 0.5), (0.5, 5.0), (1.0, 40.0))),
        delay_ms=rng.choice(((0.1, 0.3), (0.2, 2.0), (1.0, 25.0))),
        metadata_ms=rng.choice((500, 1_000, 3_000)),
        tick_s=rng.choice((0.1, 0.25)),
        fail_percent=0,
        pops_saved_ms=rng.choice((300, 1_000)),  # or no broker would live to save one
        watch_s=_WATCH_S,
    )


def _faults(rng: Random, gap_s: float) -> tuple[Fault, ...]:
    found: list[Fault] = []
    at_s = BEGIN_S + gap_s
    while at_s < BEGIN_S + _LASTS_S:
        kind = "kill client" if rng.random() < _CLIENT_KILLS else rng.choice(_KILLS)
        found.append(Fault(len(found), round(at_s, 4), kind, round(rng.uniform(0.05, 1.5), 4), rng.getrandbits(32)))
        at_s += 0.3 + rng.expovariate(1 / gap_s)
    return tuple(found)
