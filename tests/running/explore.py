"""Explore: property tests, store lives, simulations, lanes and fuzzers with new seeds, round after round, for a time.

    python -m tests.running.explore --minutes 60 [--seed FIRST]      make explore MINUTES=10

Every round has a seed, which is printed; every other round does without the compiled core. What fails is told with the
command that repeats it, and stands in ``.cache/explore/failures.txt``; failing examples of Hypothesis are saved beside
it, and tried first by the next run.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from types import MappingProxyType
from typing import NamedTuple

FOLDER = Path(__file__).parents[2] / ".cache" / "explore"
EXAMPLES = FOLDER / "examples"
FAILURES = FOLDER / "failures.txt"
TESTS = ("tests/unit", "tests/crash")
COUNTS = {"PYROMQ_LIVES": "1000", "PYROMQ_FAILOVER_SEEDS": "10", "PYROMQ_TRUTH_SEEDS": "20"}
FUZZED = 20_000


class Expedition(NamedTuple):
    """One command of a round."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = MappingProxyType({})

    def line(self) -> str:
        """How to repeat it in a shell."""
        settings = [f"{name}={value}" for name, value in self.environment.items()]
        return shlex.join([*settings, "python", *self.command])


def round_of(number: int, seed: int) -> list[Expedition]:
    """What is tried in a round; all of it follows from the seed."""
    mode = {"PYROMQ_PURE": "1"} if number % 2 else {}
    chosen = ("-n", "auto", "-q", "-m", "hypothesis or seeded", "-p", "no:cacheprovider")
    seeded = ("--hypothesis-profile", "explore", "--hypothesis-seed", str(seed))
    acl = ("--acl",) if number % 2 else ()
    return [
        Expedition(
            "properties, lives, simulations, lanes",
            ("-m", "pytest", *TESTS, *chosen, *seeded),
            {"PYROMQ_EXPLORE_SEED": str(seed), **COUNTS, **mode},
        ),
        Expedition(
            "hostile requests", ("-m", "tests.hostile.fuzz", "--requests", str(FUZZED), "--seed", str(seed), *acl), mode
        ),
    ]


def go(expedition: Expedition) -> bool:
    """Whether nothing was found."""
    print(f"--- {expedition.name} ---", flush=True)
    command = [sys.executable, *expedition.command]
    return subprocess.run(command, env={**os.environ, **expedition.environment}, check=False).returncode == 0


def explore(seconds: float, first: int | None) -> list[Expedition]:
    """Rounds until the time is over; those under way come to their end. Returns what failed."""
    began, number, failed = time.monotonic(), 0, list[Expedition]()
    while number == 0 or time.monotonic() - began < seconds:
        seed = SystemRandom().randrange(1 << 31) if first is None else first + number
        print(f"\n=== round {number + 1}, seed {seed} ===", flush=True)
        for expedition in round_of(number, seed):
            if not go(expedition):
                failed.append(expedition)
                with FAILURES.open("a", encoding="utf-8") as file:
                    file.write(expedition.line() + "\n")
        number += 1
    print(f"\n{number} rounds in {(time.monotonic() - began) / 60:.0f} minutes, {len(failed)} with a failure")
    return failed


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.running.explore")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, help="of the first round; random without it")
    given = parser.parse_args(arguments)
    FOLDER.mkdir(parents=True, exist_ok=True)
    failed = explore(60 * given.minutes, given.seed)
    for expedition in failed:
        print(f"FAILED: {expedition.line()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
