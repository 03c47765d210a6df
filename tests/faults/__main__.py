"""The long form: ``python -m tests.faults [--seed N] [--kills N] [--rounds N] [--only TEXT]``; prints the table."""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import uvloop

from pyromq.replication.settings import Role
from tests.faults.agents import AGENT_FAULTS, ManagedCluster, two_managed
from tests.faults.cluster import Cluster, two_processes
from tests.faults.kinds_of_faults import FAULTS, POWER_CUTS
from tests.faults.power import two_machines
from tests.faults.rounds import Outcome, run_rounds
from tests.integration.lease_stores import etcd

MOST = "master killed"  # has rounds of its own number
COLUMNS = (
    *("fault", "role", "rounds", "messages", "lost", "passed over", "duplicates"),
    *("not replicated, as told", "of these lost", "lag, bytes"),
)


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=50, help=f"rounds of {MOST!r} with a sync master")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of every other fault, and with an async master")
    parser.add_argument("--only", default="", help="faults whose names have this in them")
    parser.add_argument("--role", choices=[Role.SYNC_MASTER.value, Role.ASYNC_MASTER.value])
    parser.add_argument("--folder", type=Path, help="where brokers keep their files, which stay then")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    roles = [Role(given.role)] if given.role else [Role.SYNC_MASTER, Role.ASYNC_MASTER]
    outcomes: list[Outcome] = []
    names = [*FAULTS, *POWER_CUTS, *(AGENT_FAULTS if shutil.which("etcd") else ())]
    with tempfile.TemporaryDirectory(prefix="pyromq-faults-") as scratch, ExitStack() as stack:
        given.lease_store = stack.enter_context(etcd()) if shutil.which("etcd") else ""
        folder = given.folder or Path(scratch)
        for role in roles:
            for name in (name for name in names if given.only in name):
                rounds = given.kills if name == MOST and role is Role.SYNC_MASTER else given.rounds
                outcomes.append(await many(folder / role.value, role, name, rounds, given))
    print_table(outcomes, given.seed)
    return any(outcome.problems for outcome in outcomes)


async def many(folder: Path, role: Role, name: str, rounds: int, given: argparse.Namespace) -> Outcome:
    fault = (FAULTS | POWER_CUTS | AGENT_FAULTS)[name]

    def cluster(number: int) -> Cluster:
        place = folder / f"{name} {number}".replace(" ", "-").replace(",", "")
        if name in POWER_CUTS:
            return Cluster(two_machines(place, f"{given.seed} {name} {number}"), role)
        if name in AGENT_FAULTS:
            return ManagedCluster(two_managed(place, given.lease_store), role)
        return Cluster(two_processes(place), role)

    return await run_rounds(cluster, name, fault, rounds=rounds, seed=given.seed, tell=tell)


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
    for each in outcomes:
        for problem in each.problems:
            print(f"PROBLEM {each.fault}, {each.role}: {problem}")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(main()))
