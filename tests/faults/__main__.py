"""The long form: ``python -m tests.faults [--seed N] [--kills N] [--rounds N] [--only TEXT]``; prints the table."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

import uvloop

from pyromq.replication.settings import Role
from tests.faults.cluster import Member, two_processes
from tests.faults.kinds_of_faults import FAULTS, POWER_CUTS
from tests.faults.power import two_machines
from tests.faults.rounds import Outcome, run_rounds

MOST = "master killed"  # has rounds of its own number
COLUMNS = (
    *("fault", "role", "rounds", "messages", "lost", "duplicates"),
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
    with tempfile.TemporaryDirectory(prefix="pyromq-faults-") as scratch:
        folder = given.folder or Path(scratch)
        for role in roles:
            for name in (name for name in (*FAULTS, *POWER_CUTS) if given.only in name):
                rounds = given.kills if name == MOST and role is Role.SYNC_MASTER else given.rounds
                outcomes.append(await many(folder / role.value, role, name, rounds, given.seed))
    print_table(outcomes, given.seed)
    return any(outcome.problems for outcome in outcomes)


async def many(folder: Path, role: Role, name: str, rounds: int, seed: int) -> Outcome:
    def members(number: int) -> list[Member]:
        place = folder / f"{name} {number}".replace(" ", "-").replace(",", "")
        return two_machines(place, f"{seed} {name} {number}") if name in POWER_CUTS else two_processes(place)

    fault = FAULTS.get(name) or POWER_CUTS[name]
    return await run_rounds(members, role, name, fault, rounds=rounds, seed=seed, tell=tell)


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def print_table(outcomes: list[Outcome], seed: int) -> None:
    print(f"seed {seed}")
    print(f"| {' | '.join(COLUMNS)} |")
    print("|---" * len(COLUMNS) + "|")
    for each in outcomes:
        counts = (each.rounds, each.promised, each.lost, each.duplicates, each.apart, each.apart_lost, each.lag_bytes)
        print(f"| {each.fault} | {each.role} | " + " | ".join(f"{count:,}" for count in counts) + " |")
    for each in outcomes:
        for problem in each.problems:
            print(f"PROBLEM {each.fault}, {each.role}: {problem}")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(main()))
