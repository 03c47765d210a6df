"""The long form of the rounds; prints the tables of docs/reliability.md.

python -m tests.faults [--seed N] [--kills N] [--rounds N] [--only TEXT]     a master and its replica
python -m tests.faults --three [--seed N] [--rounds N] [--only TEXT]        three members under agents, with times
python -m tests.faults --three --secured                                    the same with TLS and access control
python -m tests.faults --jepsen [--seed N] [--rounds N] [--only TEXT]       Jepsen's list for NATS 2.12, three members

Rows of three members that are done are kept in a folder: a run that was ended goes on where it was, ``--again`` begins
anew, and ``--list`` shows the names. ``--record docs/reliability.md`` puts the table into that page.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import uvloop

from pyromq.replication.settings import Role
from tests.faults.agent_faults import AGENT_FAULTS
from tests.faults.agents import ManagedCluster, managed
from tests.faults.cluster import Cluster, two_processes
from tests.faults.forgetful.mount import keep_mounts_private, why_not
from tests.faults.jepsen import trials as jepsen
from tests.faults.kinds_of_faults import FAULTS, POWER_CUTS
from tests.faults.lease_servers import LEASE_SERVERS, is_installed
from tests.faults.power import two_machines
from tests.faults.rounds import Outcome, run_rounds
from tests.faults.three import rows as three
from tests.faults.three.record import SECURED, circumstances, put_into

MOST = "master killed"  # has rounds of its own number
COLUMNS = (
    *("fault", "role", "rounds", "messages", "lost", "passed over", "duplicates"),
    *("not replicated, as told", "of these lost", "lag, bytes"),
)
KEPT = Path(".cache") / "faults"


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--three", action="store_true", help="rows with three members, agents and real lease stores")
    parser.add_argument("--jepsen", action="store_true", help="power of all, flipped bits, truncated files, pauses")
    parser.add_argument("--secured", action="store_true", help="three members with TLS and access control")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=50, help=f"rounds of {MOST!r} with a sync master")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of every other fault: 3, or what its row says")
    parser.add_argument("--only", default="", help="faults whose names have this in them")
    parser.add_argument("--role", choices=[Role.SYNC_MASTER.value, Role.ASYNC_MASTER.value])
    parser.add_argument("--folder", type=Path, help="where brokers keep their files, which stay then")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where rows that are done are kept")
    parser.add_argument("--again", action="store_true", help="run what is done, too")
    parser.add_argument("--record", type=Path, help="a page that gets the table of three members, between its comments")
    parser.add_argument("--list", action="store_true", help="show the names of the rows with three members")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given.list:
        print(
            "\n".join([each.fault for each in jepsen.ROWS] if given.jepsen else [each.name for each in rows_of(given)])
        )
        return 0
    if given.jepsen:
        return await jepsen_rounds(given)
    with tempfile.TemporaryDirectory(prefix="pyromq-faults-") as scratch:
        folder = given.folder or Path(scratch)
        outcomes = await (three_members(folder, given) if given.three else two_members(folder, given))
    for each in outcomes:
        for problem in each.problems:
            print(f"PROBLEM {each.fault}, {each.role}: {problem}")
    return any(outcome.problems for outcome in outcomes)


async def three_members(folder: Path, given: argparse.Namespace) -> list[Outcome]:
    done: list[tuple[three.Row, Outcome]] = []
    loads = [os.getloadavg()[0]]
    for number, row in enumerate(rows_of(given)):
        rounds = given.rounds or row.rounds
        file = three.kept_file(given.kept, row, rounds, given.seed)
        outcome = None if given.again else three.kept(file)
        if outcome is None:
            outcome = await three.run_row(row, folder / f"row-{number}", rounds=rounds, seed=given.seed, tell=tell)
            three.keep(file, outcome)
            loads.append(os.getloadavg()[0])
        done.append((row, outcome))
    text = f"{circumstances(loads, given.seed, three.DEFAULT.lease_s)}\n\n{three.table(done)}"
    print(text)
    if given.record:
        given.record.write_text(put_into(given.record.read_text(), text, *(SECURED if given.secured else ())))
    return [outcome for _, outcome in done]


async def two_members(folder: Path, given: argparse.Namespace) -> list[Outcome]:
    roles = [Role(given.role)] if given.role else [Role.SYNC_MASTER, Role.ASYNC_MASTER]
    outcomes: list[Outcome] = []
    names = [*FAULTS, *POWER_CUTS, *(AGENT_FAULTS if is_installed(three.ETCD) else ())]
    with ExitStack() as stack:
        leases = stack.enter_context(LEASE_SERVERS[three.ETCD](folder)) if is_installed(three.ETCD) else None
        for role in roles:
            for name in (name for name in names if given.only in name):
                rounds = given.kills if name == MOST and role is Role.SYNC_MASTER else given.rounds or 3
                fault = (FAULTS | POWER_CUTS | AGENT_FAULTS)[name]

                def cluster(number: int, role: Role = role, name: str = name) -> Cluster:
                    place = folder / role.value / f"{name} {number}".replace(" ", "-").replace(",", "")
                    if name in POWER_CUTS:
                        return Cluster(two_machines(place, f"{given.seed} {name} {number}"), role)
                    if name in AGENT_FAULTS:
                        assert leases is not None
                        return ManagedCluster(managed(place, leases), role, leases)
                    return Cluster(two_processes(place), role)

                outcomes.append(await run_rounds(cluster, name, fault, rounds=rounds, seed=given.seed, tell=tell))
    print_table(outcomes, given.seed)
    return outcomes


async def jepsen_rounds(given: argparse.Namespace) -> int:
    """Rows that need a forgetful mount are named at the end where this machine has none."""
    keep_mounts_private()
    reason, done, skipped = why_not(), [], []
    loads = [os.getloadavg()[0]]
    for row in (each for each in jepsen.ROWS if given.only in each.fault):
        if row.is_mounted and reason:
            skipped.append(f"not tried, {reason}: {row.fault}")
            continue
        with tempfile.TemporaryDirectory(prefix="pyromq-jepsen-") as scratch:
            found = await jepsen.run_trials(row, Path(scratch), given.rounds or jepsen.ROUNDS, given.seed, tell)
        done.append((row, found))
        loads.append(os.getloadavg()[0])
    text = f"{circumstances(loads, given.seed, three.DEFAULT.lease_s)}\n\n{jepsen.table(done)}"
    print("\n".join([text, *skipped]))
    if given.record:
        page = given.record.read_text()
        given.record.write_text(put_into(page, "\n\n".join([text, *skipped]), jepsen.BEGIN, jepsen.END))
    for row, outcome in done:
        for problem in outcome.problems:
            print(f"PROBLEM {row.fault}: {problem}")
    return any(outcome.problems for _, outcome in done)


def rows_of(given: argparse.Namespace) -> list[three.Row]:
    """Chosen rows of three members, as they are or secured."""
    found = three.chosen(given.only)
    return [replace(row, is_secured=True) for row in found if not row.powered] if given.secured else found


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def print_table(outcomes: list[Outcome], seed: int) -> None:
    print(f"seed {seed}")
    print(f"| {' | '.join(COLUMNS)} |")
    print("|---" * len(COLUMNS) + "|")
    for each in outcomes:
        counts = (
            *(each.rounds, each.promised, each.lost, each.skipped, each.duplicates),
            *(each.apart, each.apart_lost, each.lag_bytes),
        )
        print(f"| {each.fault} | {each.role} | " + " | ".join(f"{count:,}" for count in counts) + " |")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(main()))
