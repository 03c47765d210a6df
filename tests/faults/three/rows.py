"""Rows of the table: a fault, a lease store, how many rounds, and what it may take."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from pyromq.replication.settings import Role
from tests.faults import agent_faults
from tests.faults.agents import BRISK, DEFAULT, ManagedCluster, Pace, managed
from tests.faults.cluster import Cluster
from tests.faults.lease_servers import LEASE_SERVERS, is_installed
from tests.faults.rounds import Fault, Outcome, run_rounds
from tests.faults.secured import secured, secured_members
from tests.faults.three import bit_faults, faults, retry_faults, store_faults
from tests.faults.times import PLANNED, UNPLANNED, Goal, meets

ETCD, ETCD_3, POSTGRESQL = "etcd", "etcd of three", "PostgreSQL"
COLUMNS: Final = (
    *("fault", "lease store", "rounds", "messages", "lost", "duplicates", "delayed twice", "one copy, as told"),
    *(
        "producers p50 / max, s",
        "consumers p50 / max, s",
        "goal, s",
        "failed sends",
        "ordered, unknown",
        "slowest send, s",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. Without a goal, times are shown and judged by nobody."""

    fault: str
    happens: Fault
    store: str = ETCD
    rounds: int = 2
    goal: Goal | None = None
    powered: bool = False
    role: Role = Role.SYNC_MASTER
    pace: Pace = DEFAULT
    is_secured: bool = False  # TLS and access control everywhere

    @property
    def name(self) -> str:
        return f"{self.fault}, {self.store}{', secured' if self.is_secured else ''}"


def _rows() -> list[Row]:
    unplanned: dict[str, Fault] = {
        "master killed": faults.master_killed,
        "master hangs": faults.master_hangs,
        "master isolated": faults.master_isolated,
    }
    store_rows: dict[str, Fault] = {
        "lease store away longer than a lease": agent_faults.leases_away,
        "lease store lost, old master first": store_faults.store_lost,
        "lease store set back, old master first": store_faults.store_set_back,
        "lease store lost while all run": store_faults.store_lost_meanwhile,
        "lease store set back while all run": store_faults.store_set_back_meanwhile,
    }
    return [
        *(
            Row(fault=name, happens=fault, store=store, rounds=rounds, goal=UNPLANNED)
            for store, rounds in ((ETCD_3, 5), (POSTGRESQL, 2))
            for name, fault in unplanned.items()
        ),
        Row(
            fault="power fails at the master", happens=faults.master_loses_power, rounds=4, goal=UNPLANNED, powered=True
        ),
        Row(fault="master of an async set killed", happens=faults.master_of_async_set_killed, role=Role.ASYNC_MASTER),
        Row(fault="power fails at all", happens=faults.all_lose_power, powered=True),
        Row(fault="planned switches", happens=faults.switched, store=ETCD_3, rounds=4, goal=PLANNED),
        Row(fault="planned switches", happens=faults.switched, store=POSTGRESQL, goal=PLANNED),
        Row(
            fault="master cut off from the lease store",
            happens=faults.master_cut_off_from_leases,
            store=ETCD_3,
            rounds=3,
            goal=UNPLANNED,
        ),
        Row(fault="master cut off from its replicas", happens=faults.master_cut_off_from_replicas, goal=UNPLANNED),
        Row(fault="master cut off from clients for 4 s", happens=faults.master_cut_off_from_clients),
        Row(fault="a replica hangs for 25 s", happens=faults.replica_hangs, rounds=1, goal=UNPLANNED),
        Row(fault="replicas unheard for 25 s", happens=faults.replicas_unheard, rounds=1, goal=UNPLANNED),
        Row(fault="disk of the master full", happens=faults.disk_full, goal=UNPLANNED),
        Row(fault="disk of the master fails", happens=faults.disk_failing, goal=UNPLANNED),
        Row(fault="delayed over switches and power cuts", happens=faults.delayed_over_changes, rounds=1, powered=True),
        Row(fault="a bit of a replica's log flipped", happens=bit_faults.bit_flipped, rounds=1),
        Row(fault="retries without a replica in sync", happens=retry_faults.retries_without_replicas, rounds=1),
        *(
            Row(fault=name, happens=fault, store=store, rounds=1)
            for store in (ETCD_3, POSTGRESQL)
            for name, fault in store_rows.items()
        ),
    ]


ROWS: Final = _rows()


def chosen(only: str) -> list[Row]:
    """Rows that this machine can run, and whose names have this in them."""
    return [row for row in ROWS if only in row.name and is_installed(row.store)]


async def run_row(
    row: Row, folder: Path, *, rounds: int = 0, seed: int = 1, tell: Callable[[str], None] = lambda line: None
) -> Outcome:
    """A life of three brokers and a lease store; a failed send is a problem where a goal is set."""
    with ExitStack() as stack:
        leases = stack.enter_context(LEASE_SERVERS[row.store](folder))
        security = stack.enter_context(secured(folder / "certificates")) if row.is_secured else None

        def cluster(number: int) -> Cluster:
            place = folder / f"life-{number}"
            if security is not None:
                return ManagedCluster(secured_members(place, leases, security, row.pace), row.role, leases)
            return ManagedCluster(managed(place, leases, count=3, pace=row.pace, powered=row.powered), row.role, leases)

        found = await run_rounds(
            cluster,
            row.name,
            row.happens,
            rounds=rounds or row.rounds,
            seed=seed,
            tell=tell,
            defaults=row.pace is not BRISK,
            names=security.nameserver() if security is not None else None,
        )
    if row.goal is not None:
        found.problems += [f"a send failed: {each}" for each in found.pauses.errors[:5]]
        if found.pauses.unknown and not row.goal.loses_responses:
            found.problems.append(f"{found.pauses.unknown} ordered sends lost their responses")
    return found


# --- what is kept between two runs, so that a run can go on ---


def kept_file(folder: Path, row: Row, rounds: int, seed: int) -> Path:
    """Of this row with the sources as they are committed: what others did says nothing."""
    name = hashlib.sha256(f"{_sources()} {row.name} {rounds} {seed}".encode()).hexdigest()[:16]
    return folder / f"{name}.json"


@cache
def _sources() -> str:
    asked = subprocess.run(["git", "rev-parse", "HEAD:src", "HEAD:tests/faults"], capture_output=True, text=True)
    return asked.stdout


def kept(file: Path) -> Outcome | None:
    return msgspec.json.decode(file.read_bytes(), type=Outcome) if file.exists() else None


def keep(file: Path, outcome: Outcome) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.encode(outcome))


# --- the table ---


def table(found: Iterable[tuple[Row, Outcome]]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(_cells(row, outcome))} |" for row, outcome in found)])


def _cells(row: Row, outcome: Outcome) -> list[str]:
    pauses = outcome.pauses
    goal = "" if row.goal is None else f"{row.goal}{'' if meets(pauses, row.goal) else ' MISSED'}"
    counts = (outcome.rounds, outcome.promised, outcome.lost, outcome.duplicates, outcome.delayed_twice, outcome.apart)
    return [
        *(row.fault, row.store, *(f"{each:,}" for each in counts)),
        *(f"{median(each):.1f} / {max(each):.1f}" if each else "" for each in (pauses.producers_s, pauses.consumers_s)),
        *(goal, f"{len(pauses.errors):,}", f"{pauses.unknown:,}", f"{pauses.slowest_send_s:.1f}"),
    ]
