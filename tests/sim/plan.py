"""The plan of a simulation: everything that a seed decides before the first moment.

Swarm testing: a seed switches kinds of faults and clients off, so that what is left happens often and in combinations
that a run with everything at once would never reach. Faults and clients have numbers; ``without`` drops some of them
and changes nothing else, which is what the shrinker uses.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from pyromq.failover.sight import Timing
from pyromq.replication.settings import ReplicationSettings
from tests.sim.families import (
    COPIES_FROM,
    DISKS_FROM,
    RETENTION_FROM,
    SLEEPS_FROM,
    STANDBY_FROM,
    STOPS_FROM,
    TABLES_FROM,
    family_of,
)
from tests.sim.lease_models import EtcdModel, PostgresModel

SAFETY, LIVENESS = "safety", "liveness"
BEGIN_S: Final = 12.0  # the cluster is whole, topics are there: faults may begin

KINDS: Final = (
    "kill broker",
    "kill agent",
    "kill machine",
    "power",
    "power of all",
    "power at operation",
    "pause machine",
    "pause broker",
    "pause agent",
    "cut",
    "cut one way",
    "isolate",
    "bridge",
    "break",
    "slow",
    "leases away",
    "leases slow",
    "leases set back",
    "leases emptied",
    "disk full",
    "disk fails",
    "clock jumps",
    "kill client",
    "pause client",
    "kill names",
    "switch",
)
STORIES: Final = ("old lease", "strand")  # several faults in the order that hurts most; chosen by themselves
FLIP: Final = "flip"  # a bit on the disk of a replica; in safety runs, for no scrub comes round in a minute
_DENSER: Final = 4  # as much is sent in bursts of seeds that came later
_SHORT, _MEDIUM, _LONG = (0.05, 1.5), (1.5, 8.0), (8.0, 25.0)
PRODUCERS: Final = ("plain", "batch", "ordered", "delayed", "transactions", "outbox")
CONSUMERS: Final = ("push", "orderly", "pull", "broadcast")
POPS: Final = "pop"  # chosen by itself: it came later, and the plans of seeds stayed what they were
OPERATIONS: Final = ("reset", "redrive", "topics", "pause group")
DISK: Final = "replaced disk"  # a story, too
COPY: Final = "restored disk"  # from a backup
SEED: Final = "seeded disk"  # with that of another member
SLEEP: Final = "suspend machine"
STANDBY: Final = "leases fail over"  # to a standby that lacks the last moments, often a switch
SLOW_DISK: Final = "slow disk"
TABLE: Final = "damaged table"
STOPS: Final = ("stop broker", "stop machine", "stop client")  # in order, as a service manager does it
USERS: Final = "users"  # operators give rights and take them
DAMAGE: Final = "damaged message"  # a bit of a message that somebody waits for, on a replica that is made master
SHORT_DELAYS_S: Final = (1, 2, 4, *(5,) * 15)  # of delay levels
LONG_DELAYS_S: Final = (*SHORT_DELAYS_S[:9], 10, 30, 60, 120, 180, 240, 300, 420, 600)  # retries take the first ones
_GENTLE: Final = ("kill client", "pause client", "break", "slow", "kill names", "switch")
QUIET: Final = "q"
POPPERS: Final = ("popper", "popper5", "shared popper", "shared popper5")  # of ``pop_ledger`` alone
GRPC: Final = ("popper5", "shared popper5")


@dataclass(frozen=True, slots=True)
class Fault:
    number: int
    at_s: float  # since the first moment, or (of later bursts) since the quiet phase before its burst ended
    kind: str
    lasts_s: float
    luck: int  # which machines, how exactly
    burst: int = 0


@dataclass(frozen=True, slots=True)
class ClientPlan:
    number: int
    kind: str
    gap_s: float  # between two sends, on average

    @property
    def name(self) -> str:
        return f"{self.kind}{self.number}"


@dataclass(frozen=True, slots=True)
class Quiet:
    lasts_s: float
    burst_s: float  # of faults after it


@dataclass(frozen=True)
class Plan:
    seed: int
    mode: str
    names: int
    sets: dict[str, int]  # name of each broker set, and how many members it has
    lease_store: str
    timing: Timing
    kinds: tuple[str, ...]  # of faults that may happen
    faults: tuple[Fault, ...]
    clients: tuple[ClientPlan, ...]
    faults_end_s: float
    clocks: dict[str, tuple[float, int]]  # by machine: how fast, how wrong
    disk_ms: tuple[float, float]
    delay_ms: tuple[float, float]
    metadata_ms: int
    tick_s: float
    fail_percent: int  # of messages that listeners fail with at least once
    dropped: tuple[str, ...] = field(default=())
    pops_saved_ms: int = 30_000  # between two snapshots of what is in flight
    keeps_ms: int = 0  # files of the log, unless some group has not read them; 0: for longer than any seed lasts
    watch_s: float = 0.0  # after everything is consumed: nothing that was acknowledged may come again
    quiet: tuple[Quiet, ...] = ()  # phases of little traffic and no faults, each with a burst of faults after it
    is_usual: bool = False  # intervals are those that the product has by default; else they are short
    has_access: bool = False  # requests are signed, and rights decide
    batch: int = 3  # messages that are sent together
    delays_s: float = 0.0  # the longest that delayed messages wait; 0: five seconds
    is_prompt: bool = False  # times of the first burst count from when the cluster is whole

    @property
    def has_grpc(self) -> bool:
        return any(client.kind in GRPC for client in self.clients)

    def is_managed(self, set_name: str) -> bool:
        return self.sets[set_name] > 1

    def new_lease_model(self) -> Any:
        return EtcdModel() if self.lease_store == "etcd" else PostgresModel()

    def without(self, dropped: Collection[str]) -> Plan:
        """Less some faults (``f3``) and clients (``c2``), or all that came with quiet phases (``q``)."""
        plan = make_plan(self.seed, self.mode, is_quiet=False) if QUIET in dropped else self
        return replace(
            plan,
            faults=tuple(each for each in plan.faults if f"f{each.number}" not in dropped),
            clients=tuple(each for each in self.clients if f"c{each.number}" not in dropped),
            dropped=tuple(dropped),
        )

    def summary(self) -> str:
        sets = "+".join(str(size) for size in self.sets.values())
        quiet = f" quiet {len(self.quiet)}" if self.quiet else ""
        counts = f"clients {len(self.clients)} faults {len(self.faults)}{quiet}"
        return f"{self.mode} brokers {sets} {self.lease_store} {counts}"


def make_plan(seed: int, mode: str = "", *, is_quiet: bool = True) -> Plan:
    """The same for the same seed; ``mode`` overrules what the seed says, and quiet phases can be left out."""
    rng, family = Random(f"{seed}/plan"), family_of(seed)
    sets = {"a": rng.choice((1, 2, 2, 3, 3, 3, 3, 4, 5))}
    if sum(sets.values()) < 4 and rng.random() < 0.3:
        sets["b"] = rng.choice((1, 2)) if sets["a"] > 2 else rng.choice((1, 2, 3))
    chosen = rng.choice((SAFETY, LIVENESS, LIVENESS))
    duration_s = rng.choice((2.0, 4.0, 4.0, 8.0))
    timing = replace(
        Timing.of(duration_s, alone_s=rng.choice((3.0, 10.0, 30.0))), look_s=duration_s / rng.choice((6, 10))
    )
    kinds = tuple(each for each in KINDS if rng.random() < rng.choice((0.15, 0.35, 0.6)))
    if family.is_damaged:
        sets["a"], kinds = max(2, sets["a"]), tuple(each for each in kinds if each in _GENTLE)
    names = rng.choice((1, 2, 2))
    lasts_s = rng.uniform(*family.burst_s)
    faults = _faults(rng, kinds, lasts_s)
    stories, flips = tuple[Fault, ...](), tuple[Fault, ...]()
    if family.is_damaged:
        flips = _damages(Random(f"{seed}/damages"), lasts_s, len(faults))
    else:
        stories = _stories(Random(f"{seed}/stories"), sets, duration_s, lasts_s, len(faults))
        if (mode or chosen) == SAFETY:
            flips = _flips(Random(f"{seed}/flips"), lasts_s, len(faults) + len(stories))
    drifts = rng.random() < 0.3
    machines = [f"{name}{number}" for name, size in sets.items() for number in range(size)]
    clocks = {each: (rng.uniform(0.998, 1.002), rng.randint(-3_000, 3_000)) for each in machines} if drifts else {}
    plan = Plan(
        seed=seed,
        mode=mode or chosen,
        names=names,
        sets=sets,
        lease_store=rng.choice(("etcd", "postgresql")),
        timing=timing,
        kinds=kinds,
        faults=(*faults, *stories, *flips),
        clients=_clients(rng, Random(f"{seed}/pops")),
        faults_end_s=max([BEGIN_S + lasts_s, *(each.at_s + each.lasts_s + 1.0 for each in stories)]),
        clocks=clocks,
        disk_ms=rng.choice(((0.1, 0.5), (0.5, 5.0), (1.0, 40.0))),
        delay_ms=rng.choice(((0.1, 0.3), (0.2, 2.0), (1.0, 25.0))),
        metadata_ms=rng.choice((500, 1_000, 3_000)),
        tick_s=rng.choice((0.1, 0.25, 0.5)),
        fail_percent=rng.choice((0, 0, 10, 25)),
        is_prompt=family.is_prompt,
    )
    if not is_quiet or not family.sends_more:
        return plan
    plan = _with_quiet(plan, Random(f"{seed}/quiet"))
    if family.may_have_access:
        plan = _with_access(plan, Random(f"{seed}/access"))
    if seed >= STOPS_FROM and not family.is_damaged:
        plan = _with_stops(plan, Random(f"{seed}/stops"))
    if seed >= RETENTION_FROM and not family.is_damaged:
        plan = _with_retention(plan, Random(f"{seed}/retention"))
    if seed >= DISKS_FROM and family.may_lose_disks and plan.sets["a"] > 1:
        plan = _with_lost_disks(plan, Random(f"{seed}/lost disks"))
    if seed >= COPIES_FROM and not family.is_damaged:
        plan = _with_slow_disks(plan, Random(f"{seed}/slow disks"))
        plan = _with_restored_disks(plan, Random(f"{seed}/restored disks"))
    if seed >= TABLES_FROM and not family.is_damaged and plan.sets["a"] > 1:
        plan = _with_damaged_tables(plan, Random(f"{seed}/tables"))
    if seed >= SLEEPS_FROM and not family.is_damaged:
        plan = _with_sleep(plan, Random(f"{seed}/sleep"))
        plan = _with_seeded_disks(plan, Random(f"{seed}/seeded disks"))
    if seed >= STANDBY_FROM and not family.is_damaged:
        plan = replace(plan, delays_s=Random(f"{seed}/delays").choice((0.0, 30.0, 120.0, 600.0)))
        plan = _with_standby(plan, Random(f"{seed}/standby")) if plan.sets["a"] > 1 else plan
    return plan


def _with_access(plan: Plan, rng: Random) -> Plan:
    """In some seeds; never where a bit of a file with users may flip, which nobody would notice at once."""
    if rng.random() >= 0.4 or any(fault.kind == FLIP for fault in plan.faults):
        return plan
    found = [replace(each, lasts_s=0.0) for each in _in_all_bursts(plan, rng, (USERS,))]
    return replace(plan, faults=(*plan.faults, *found), has_access=True)


def _with_stops(plan: Plan, rng: Random) -> Plan:
    """In most seeds somebody deploys something."""
    kinds = tuple(each for each in STOPS if rng.random() < 0.5)
    return replace(plan, faults=(*plan.faults, *_in_all_bursts(plan, rng, kinds)))


def _with_retention(plan: Plan, rng: Random) -> Plan:
    """In some seeds. Brokers do not know how far a broadcasting consumer is, and a prepared message may be asked about
    for longer than a file is kept here: there are neither.

    One group stands still for long, and files wait for it. Nobody could say of a changed bit whom it hit.
    """
    left_out = (FLIP,) if plan.seed >= DISKS_FROM else (FLIP, "disk full")
    if rng.random() >= 0.4 or any(fault.kind in left_out for fault in plan.faults):
        return plan
    clients = tuple(each for each in plan.clients if each.kind not in ("broadcast", "transactions"))
    keeps_ms = rng.choice((12_000, 15_000, 20_000))
    waits = Fault(len(plan.faults), BEGIN_S + rng.uniform(0.0, 5.0), "pause group", 60.0, rng.getrandbits(32))
    return replace(plan, clients=clients, keeps_ms=keeps_ms, faults=(*plan.faults, waits))


def _in_all_bursts(plan: Plan, rng: Random, kinds: tuple[str, ...]) -> list[Fault]:
    """Numbered behind those of the plan."""
    found: list[Fault] = []
    ends_s = (plan.faults_end_s - BEGIN_S, *(each.burst_s for each in plan.quiet))
    for burst, end_s in enumerate(ends_s):
        begin_s = BEGIN_S if burst == 0 else 0.0
        for each in _faults(rng, kinds, end_s):
            at_s, number = round(each.at_s - BEGIN_S + begin_s, 4), len(plan.faults) + len(found)
            found.append(replace(each, number=number, at_s=at_s, burst=burst))
    return found


def _with_quiet(plan: Plan, rng: Random) -> Plan:
    """More is sent; many seeds go on for minutes in which little happens, and then fail again."""
    plan = replace(plan, clients=tuple(replace(each, gap_s=each.gap_s / _DENSER) for each in plan.clients))
    family = family_of(plan.seed)
    quiet = tuple(
        Quiet(round(rng.uniform(*family.quiet_s), 4), round(rng.uniform(8.0, 25.0), 4))
        for _ in range(rng.choice(family.quiet_counts))
    )
    plan = replace(plan, batch=family.batch)
    found = [*plan.faults, *_operations(plan)]
    found += _lost_disk(plan, len(found))
    if not quiet:
        return replace(plan, faults=tuple(found))
    for burst, each in enumerate(quiet, start=1):
        more = _faults(rng, plan.kinds, each.burst_s)
        found += [
            replace(fault, number=len(found) + at, at_s=round(fault.at_s - BEGIN_S, 4), burst=burst)
            for at, fault in enumerate(more)
        ]
    duration_s = rng.choice((4.0, 8.0, 15.0))
    timing = replace(Timing.of(duration_s, alone_s=plan.timing.alone_s), look_s=duration_s / 10)
    plan = replace(plan, metadata_ms=ReplicationSettings().metadata_interval_ms) if family.has_defaults else plan
    return replace(plan, faults=tuple(found), quiet=quiet, is_usual=True, timing=timing)


def _operations(plan: Plan) -> tuple[Fault, ...]:
    """What operators do in the first burst; numbered as faults are, behind them."""
    rng = Random(f"{plan.seed}/operations")
    kinds = tuple(each for each in OPERATIONS if rng.random() < 0.5)
    if not family_of(plan.seed).has_operators or not kinds:
        return ()
    found = _faults(rng, kinds, plan.faults_end_s - BEGIN_S)
    return tuple(replace(each, number=len(plan.faults) + each.number) for each in found)


def _lost_disk(plan: Plan, number: int) -> tuple[Fault, ...]:
    """At most one, in a set where somebody else has everything."""
    rng = Random(f"{plan.seed}/disks")
    if not family_of(plan.seed).may_lose_disks or plan.sets["a"] < 2 or rng.random() >= 0.35:
        return ()
    at_s = BEGIN_S + rng.uniform(2.0, plan.faults_end_s - BEGIN_S)
    length_s = 2 * plan.timing.duration_s + rng.uniform(0.0, 8.0)
    return (Fault(number, round(at_s, 4), DISK, round(length_s, 4), rng.getrandbits(32)),)


def _with_lost_disks(plan: Plan, rng: Random) -> Plan:
    """In half of the seeds, one or two in each burst; each only while another member in sync has everything."""
    return plan if rng.random() < 0.5 else _with_one_or_two(plan, rng, DISK, (0.5, 3.0))


def _with_restored_disks(plan: Plan, rng: Random) -> Plan:
    """In half of the seeds with several members. A copy is made when the fault begins, and is the disk a while later.

    Nobody could say of a changed bit whether the copy had it.
    """
    if plan.sets["a"] < 2 or rng.random() < 0.5 or any(fault.kind == FLIP for fault in plan.faults):
        return plan
    return _with_one_or_two(plan, rng, COPY, (3.0, 10.0))


def _with_slow_disks(plan: Plan, rng: Random) -> Plan:
    if rng.random() < 0.6:
        return plan
    return replace(plan, faults=(*plan.faults, *_in_all_bursts(plan, rng, (SLOW_DISK,))))


def _with_damaged_tables(plan: Plan, rng: Random) -> Plan:
    return plan if rng.random() < 0.5 else _with_one_or_two(plan, rng, TABLE, (0.1, 2.0))


def _with_sleep(plan: Plan, rng: Random) -> Plan:
    """In half of the seeds."""
    if rng.random() < 0.5:
        return plan
    return replace(plan, faults=(*plan.faults, *_in_all_bursts(plan, rng, (SLEEP,))))


def _with_seeded_disks(plan: Plan, rng: Random) -> Plan:
    """In half of the seeds with several members; nobody could say of a changed bit whether the copy had it."""
    if plan.sets["a"] < 2 or rng.random() < 0.5 or any(fault.kind == FLIP for fault in plan.faults):
        return plan
    return _with_one_or_two(plan, rng, SEED, (0.5, 3.0))


def _with_standby(plan: Plan, rng: Random) -> Plan:
    """In half of the seeds with several members."""
    return plan if rng.random() < 0.5 else _with_one_or_two(plan, rng, STANDBY, (0.02, 0.6))


def _with_one_or_two(plan: Plan, rng: Random, kind: str, lease_times: tuple[float, float]) -> Plan:
    """In each burst; they last for so many times that of a lease."""
    found: list[Fault] = []
    ends_s = (plan.faults_end_s - BEGIN_S, *(each.burst_s for each in plan.quiet))
    for burst, end_s in enumerate(ends_s):
        begin_s = BEGIN_S if burst == 0 else 0.0
        for _ in range(rng.choice((1, 2))):
            at_s, length_s = begin_s + rng.uniform(0.0, end_s), rng.uniform(*lease_times) * plan.timing.duration_s
            number = len(plan.faults) + len(found)
            found.append(Fault(number, round(at_s, 4), kind, round(length_s, 4), rng.getrandbits(32), burst=burst))
    return replace(plan, faults=(*plan.faults, *found))


def _damages(rng: Random, lasts_s: float, number: int) -> tuple[Fault, ...]:
    """One after the other, each with time to be found and mended."""
    count = 1 + int(lasts_s // 20)
    return tuple(
        Fault(number + at, round(BEGIN_S + (at + rng.uniform(0.1, 0.4)) * 20.0, 4), DAMAGE, 0.1, rng.getrandbits(32))
        for at in range(count)
    )


def _faults(rng: Random, kinds: tuple[str, ...], lasts_s: float) -> tuple[Fault, ...]:
    if not kinds:
        return ()
    gap_s = rng.choice((2.0, 4.0, 8.0))
    length = rng.choice(((_SHORT, _MEDIUM), (_SHORT, _MEDIUM, _LONG), (_MEDIUM, _LONG)))
    found: list[Fault] = []
    at_s = BEGIN_S + rng.uniform(0.0, gap_s)
    while at_s < BEGIN_S + lasts_s:
        lasts = rng.uniform(*rng.choice(length))
        found.append(Fault(len(found), round(at_s, 4), rng.choice(kinds), round(lasts, 4), rng.getrandbits(32)))
        at_s += rng.expovariate(1 / gap_s)
    return tuple(found)


def _stories(rng: Random, sets: dict[str, int], duration_s: float, lasts_s: float, number: int) -> tuple[Fault, ...]:
    """At most one, in sets that have a lease: long enough for two of them to end."""
    if rng.random() >= 0.3 or sets["a"] < 2:
        return ()
    at_s, length_s = BEGIN_S + rng.uniform(1.0, lasts_s / 2), 5 * duration_s + rng.uniform(0.0, 8.0)
    return (Fault(number, round(at_s, 4), rng.choice(STORIES), round(length_s, 4), rng.getrandbits(32)),)


def _flips(rng: Random, lasts_s: float, number: int) -> tuple[Fault, ...]:
    count = rng.choice((0, 0, 1, 3))
    times = sorted(round(BEGIN_S + rng.uniform(4.0, lasts_s), 4) for _ in range(count))
    return tuple(Fault(number + each, at_s, FLIP, 0.0, rng.getrandbits(32)) for each, at_s in enumerate(times))


def _clients(rng: Random, pops: Random) -> tuple[ClientPlan, ...]:
    wanted = ["plain", *(each for each in PRODUCERS[1:] if rng.random() < 0.45)]
    wanted += ["push", *(each for each in CONSUMERS if rng.random() < 0.4)]
    found = [ClientPlan(number, kind, rng.choice((0.4, 1.0, 2.0))) for number, kind in enumerate(wanted)]
    if pops.random() < 0.4:
        found.append(ClientPlan(len(found), POPS, 1.0))
    return tuple(found)
