"""``make sim``: one seed, a range of seeds, or as many as fit into some minutes; exit code 1 when a seed fails."""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import SystemRandom

from tests.sim.patches import require_fixed_hashes

_LINES: int = 60  # of the history, when a single seed fails


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run one seed, and tell what happened when it fails")
    parser.add_argument("--seeds", help="a range such as 100..149, both ends included")
    parser.add_argument("--minutes", type=float, help="run new seeds for so long")
    parser.add_argument("--mode", choices=("safety", "liveness"), default="", help="overrules what the seed says")
    parser.add_argument("--without", default="", help="faults and clients to leave out, such as f3,f4,c1")
    parser.add_argument("--lie", default="", help="plant a mistake, by its name in tests/sim/lies.py")
    parser.add_argument("--repeat", type=int, default=1, help="run each seed so often; its hash must stay the same")
    parser.add_argument("--shrink", action="store_true", help="leave out what is not needed for the failure of --seed")
    parser.add_argument("--lines", type=int, default=_LINES, help="lines of the history to show for a failure")
    parser.add_argument("--stop", action="store_true", help="end with the first seed that fails")
    return parser


def _seeds(given: argparse.Namespace) -> tuple[str, Iterator[int]]:
    if given.seed is not None:
        return f"seed {given.seed}", iter([given.seed])
    if given.seeds:
        first, _, last = given.seeds.partition("..")
        return f"seeds {given.seeds}", iter(range(int(first), int(last or first) + 1))
    first = SystemRandom().randrange(1_000_000, 1_000_000_000)
    return f"seeds from {first} on", _until(first, time.monotonic() + 60 * (given.minutes or 1.0))


def _until(first: int, until_s: float) -> Iterator[int]:
    seed = first
    while time.monotonic() < until_s:
        yield seed
        seed += 1


def _command(given: argparse.Namespace, seed: int, mode: str, dropped: tuple[str, ...]) -> str:
    parts = ["make sim", f"SEED={seed}"]
    more = [f"--mode {mode}"] if given.mode else []
    more += [f"--without {','.join(dropped)}"] if dropped else []
    more += [f"--lie '{given.lie}'"] if given.lie else []
    return " ".join([*parts, *([f'ARGUMENTS="{" ".join(more)}"'] if more else [])])


def main() -> int:
    given = _parser().parse_args()
    require_fixed_hashes(["-m", "tests.sim", *sys.argv[1:]])
    from tests.sim.lies import BY_NAME, planted
    from tests.sim.plan import make_plan
    from tests.sim.run import Outcome, run
    from tests.sim.shrink import shrink

    name, seeds = _seeds(given)
    failed: list[int] = []
    totals: Counter[str] = Counter()
    count, simulated_s, cpu_s = 0, 0.0, 0.0
    is_single = given.seed is not None and given.repeat == 1
    outcome: Outcome | None = None
    for seed in seeds:
        plan = make_plan(seed, given.mode).without(tuple(each for each in given.without.split(",") if each))
        if given.lie and given.seed is None and not BY_NAME[given.lie].may_show(plan):
            continue
        hashes = set()
        for _ in range(given.repeat):
            with planted(given.lie):
                outcome = run(plan)
            hashes.add(outcome.hash)
            simulated_s += outcome.simulated_s
            cpu_s += outcome.cpu_s
        assert outcome is not None
        if len(hashes) > 1:
            outcome.verdict.fail(f"{given.repeat} runs have {len(hashes)} hashes")
        count += 1
        totals.update(outcome.counts)
        if outcome.is_ok and not is_single:
            continue
        if not outcome.is_ok:
            failed.append(seed)
            if is_single:
                if given.shrink:
                    with planted(given.lie):
                        outcome = shrink(outcome)
                print(*outcome.lines[-given.lines :], sep="\n")
            for text in outcome.verdict.failures:
                print(f"  seed {seed}: {text}")
            print(f"  repeat: {_command(given, seed, outcome.plan.mode, outcome.plan.dropped)}")
        if not is_single:
            print(outcome.line(), flush=True)
        if failed and given.stop:
            break
    if is_single and outcome is not None:
        print(outcome.line())
        return bool(failed)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    pace = f"{simulated_s:.0f} simulated s in {cpu_s:.0f} s of CPU ({simulated_s / max(cpu_s, 0.01):.0f} to 1)"
    load = f"acknowledged {totals['acknowledged']}, read {totals['got']}, faults {totals['fault']}"
    print(f"{name}: {count} seeds, {pace}, {load}, peak {peak_mb} MB, failed {len(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
