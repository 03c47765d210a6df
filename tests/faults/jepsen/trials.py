"""Rounds of the list, each with three new members; the table says what was acknowledged and what of it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Final

from pyromq.errors import MQError
from pyromq.replication.settings import Role
from pyromq.store.settings import StoreSettings
from tests.faults.agents import DEFAULT, ManagedCluster, ManagedMember, Pace, managed
from tests.faults.cluster import STORE, running_cluster
from tests.faults.forgetful.members import mounted
from tests.faults.jepsen import faults
from tests.faults.jepsen.elements import ElementLoad, FinalRead, read_all
from tests.faults.jepsen.faults import JepsenFault, Trial
from tests.faults.lease_servers import LEASE_SERVERS, LeaseServer, is_installed

COLUMNS: Final = (
    *("fault", "rounds", "acknowledged", "lost", "damaged bodies read", "not promised, as told"),
    *("handed over because of damage", "member stayed away, and said why", "problems"),
)
BEGIN: Final = "<!-- Jepsen's list: python -m tests.faults --jepsen --record docs/reliability.md -->"
END: Final = "<!-- end of Jepsen's list -->"
ROUNDS: Final = 4
_SEALS_MS: Final = (500, 60_000)  # what is sealed is scrubbed; what is not, recovery looks at
_AGAIN: Final = 30
_AGAIN_S: Final = 1.0
_READS: Final = 4
_HANDS_OVER_S: Final = 6.0


@dataclass(frozen=True, slots=True)
class JepsenRow:
    """One line of the table; ``is_mounted``: on forgetful mounts, which need /dev/fuse."""

    fault: str
    happens: JepsenFault
    is_mounted: bool = False
    scrubs: bool = True  # False: only who reads damage can find it


ROWS: Final = (
    JepsenRow("power of all members fails, three times", faults.all_lose_power, is_mounted=True),
    JepsenRow(
        "power of the master fails, a replica is cut off", faults.master_loses_power_replica_is_cut_off, is_mounted=True
    ),
    JepsenRow("one bit flipped in the log of one member", faults.bit_of_log_flipped),
    JepsenRow("one bit flipped in the old log of one member, no scrub", faults.bit_of_old_log_flipped, scrubs=False),
    JepsenRow("one bit flipped in another file of one member", faults.bit_of_other_file_flipped),
    JepsenRow("log of one member truncated", faults.log_truncated),
    JepsenRow("another file of one member truncated", faults.other_file_truncated),
    JepsenRow("master and a replica paused, master cut off", faults.paused_while_cut_off),
)


@dataclass
class JepsenOutcome:
    """Of one round, or the sum of several."""

    rounds: int = 0
    acknowledged: int = 0
    lost: int = 0
    damaged: int = 0
    unpromised: int = 0
    handed_over: int = 0  # masters that came upon damage
    stayed_away: int = 0  # members that did not start with what they found
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, other: JepsenOutcome) -> None:
        for name in ("rounds", "acknowledged", "lost", "damaged", "unpromised", "handed_over", "stayed_away", "notes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.problems += other.problems


@asynccontextmanager
async def _cluster(
    row: JepsenRow, folder: Path, leases: LeaseServer, pace: Pace, store: StoreSettings
) -> AsyncIterator[ManagedCluster]:
    async def run(members: list[ManagedMember]) -> AsyncIterator[ManagedCluster]:
        async with running_cluster(ManagedCluster(members, Role.SYNC_MASTER, leases)) as cluster:
            assert isinstance(cluster, ManagedCluster)
            yield cluster

    if row.is_mounted:
        with mounted(folder, leases, pace=pace, store=store) as members:
            async for each in run(members):
                yield each
    else:
        async for each in run(managed(folder, leases, count=3, pace=pace, store=store)):
            yield each


async def run_trial(
    row: JepsenRow, folder: Path, seed: str, *, store: str = "etcd", pace: Pace = DEFAULT
) -> JepsenOutcome:
    """One round: elements, the fault, then all members are read, one after the other."""
    found, rng = JepsenOutcome(rounds=1), Random(seed)
    sealing = replace(STORE, seal_interval_ms=rng.choice(_SEALS_MS))
    if not row.scrubs:
        sealing = replace(STORE, seal_interval_ms=_SEALS_MS[0], scrub_bytes_s=0)
    with LEASE_SERVERS[store](folder / "leases") as leases:
        async with _cluster(row, folder, leases, pace, sealing) as cluster:
            load = ElementLoad(cluster.nameserver)
            this = Trial(cluster, load, rng)
            try:
                async with load.running():
                    await row.happens(this)
                    await load.stop()
                judge(load.acknowledged, [each async for each in _final_reads(this)], found)
                found.handed_over = this.handed_over
            except (AssertionError, TimeoutError, MQError) as error:
                found.problems.append(f"{seed}: not over: {error!r}")
            found.problems += this.problems + cluster.tracebacks()
            found.notes += this.notes
            found.stayed_away = this.stayed_away
            found.acknowledged, found.unpromised = len(load.acknowledged), load.unpromised
    return found


def judge(acknowledged: set[int], reads: Iterable[FinalRead], into: JepsenOutcome) -> None:
    """Lost is what any member lacked when it was the master."""
    lost: set[int] = set()
    for read in reads:
        lacking = read.lacks(acknowledged)
        lost |= lacking
        into.damaged += read.damaged
        if read.error:
            into.problems.append(f"{read.member} cannot be read: {read.error}")
        if lacking:
            into.problems.append(f"{read.member} lacks {len(lacking)} of {len(acknowledged)}: {sorted(lacking)[:5]}")
    into.lost += len(lost)


async def _final_reads(this: Trial) -> AsyncIterator[FinalRead]:
    """The master that there is, then each of the others that runs, as the master."""
    cluster = this.cluster
    for member in [cluster.leader, *(each for each in cluster.followers if each.is_running)]:
        yield await _read_as_master(this, member)


async def _read_as_master(this: Trial, member: ManagedMember) -> FinalRead:
    """A master that comes upon damage hands over, and is read again when it has mended itself."""
    cluster = this.cluster
    for _ in range(_READS):
        await _made_master(cluster, member)
        read = await read_all(cluster.nameserver, member.name)
        if not read.lacks(this.load.acknowledged) and not read.error:
            break
        await asyncio.sleep(_HANDS_OVER_S)
        await cluster.sort()
        if cluster.leader is member:
            break
        this.handed_over += 1
    return read


async def _made_master(cluster: ManagedCluster, member: ManagedMember) -> None:
    running = sum(each.is_running for each in cluster.machines)
    for attempt in range(_AGAIN):
        await cluster.in_sync(running)
        await cluster.sort()
        try:
            if cluster.leader is not member:
                await cluster.switch_to(member)
        except MQError:
            if attempt == _AGAIN - 1:
                raise
            await asyncio.sleep(_AGAIN_S)
        if cluster.leader is member:
            return


async def run_trials(
    row: JepsenRow, folder: Path, rounds: int, seed: int, tell: Callable[[str], None] = lambda line: None
) -> JepsenOutcome:
    """With etcd where it is installed, else with PostgreSQL."""
    total, store = JepsenOutcome(), "etcd" if is_installed("etcd") else "PostgreSQL"
    for number in range(rounds):
        text = f"{seed} {row.fault} {number}"
        found = await run_trial(row, folder / f"round-{number}", text, store=store)
        total.add(found)
        tell(f"{text}: {found}")
    return total


def table(found: Iterable[tuple[JepsenRow, JepsenOutcome]]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for row, outcome in found:
        counts = (
            *(outcome.rounds, outcome.acknowledged, outcome.lost, outcome.damaged, outcome.unpromised),
            *(outcome.handed_over, outcome.stayed_away),
        )
        cells = [row.fault, *(f"{each:,}" for each in counts), f"{len(outcome.problems):,}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
