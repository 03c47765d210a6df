"""``make sim``: one seed, a range of seeds, or as many as fit into some minutes; exit code 1 when a seed fails."""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from tests.sim.children import Children
from tests.sim.commands import require_fixed_hashes
from tests.sim.families import NAMES, NEW_FROM, NEW_TO, family_of

if TYPE_CHECKING:
    from tests.sim.run import Outcome

_LINES: Final = 60  # of the history, when a single seed fails
_MANY: Final = 10  # seeds: more than that are worth a run that only makes the next ones faster
_FIRST_SEED: Final = 4  # a short one


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run one seed, and tell what happened when it fails")
    parser.add_argument("--seeds", help="a range such as 100..149, both ends included")
    parser.add_argument("--minutes", type=float, help="run new seeds for so long")
    parser.add_argument("--families", default="", help="of several seeds only those of families such as dense,damaged")
    parser.add_argument("--mode", choices=("safety", "liveness"), default="", help="overrules what the seed says")
    parser.add_argument("--pops", action="store_true", help="kills alone, and consumers that pop over both protocols")
    parser.add_argument("--without", default="", help="faults and clients to leave out, such as f3,f4,c1")
    parser.add_argument("--lie", default="", help="plant a mistake, by its name in tests/sim/lies.py")
    parser.add_argument("--repeat", type=int, default=1, help="run each seed so often; its hash must stay the same")
    parser.add_argument("--shrink", action="store_true", help="leave out what is not needed for the failure of --seed")
    parser.add_argument("--lines", type=int, default=_LINES, help="lines of the history to show for a failure")
    parser.add_argument("--stop", action="store_true", help="end with the first seed that fails")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="child processes at the same time")
    parser.add_argument("--each", type=int, default=1, help="seeds of one child")
    parser.add_argument("--log", type=Path, help="append a line of JSON for each run to this file")
    return parser


def _seeds(given: argparse.Namespace) -> tuple[str, Iterator[int]]:
    if given.seed is not None:
        return f"seed {given.seed}", iter([given.seed])
    if given.seeds:
        return f"seeds {given.seeds}", _of_families(given.families, _range(given.seeds))
    first = SystemRandom().randrange(NEW_FROM, NEW_TO)
    until_s = time.monotonic() + 60 * (given.minutes or 1.0)
    return f"seeds from {first} on", _of_families(given.families, _until(first, until_s))


def _of_families(names: str, seeds: Iterable[int]) -> Iterator[int]:
    wanted = names.split(",") if names else ()
    return (seed for seed in seeds if not wanted or family_of(seed).name in wanted)


def _range(seeds: str) -> range:
    first, _, last = seeds.partition("..")
    return range(int(first), int(last or first) + 1)


def _until(first: int, until_s: float) -> Iterator[int]:
    seed = first
    while time.monotonic() < until_s:
        yield seed
        seed += 1


def _command(given: argparse.Namespace, seed: int, mode: str, dropped: tuple[str, ...]) -> str:
    parts = ["make sim", f"SEED={seed}"]
    more = ["--pops"] if given.pops else []
    more += [f"--mode {mode}"] if given.mode else []
    more += [f"--without {','.join(dropped)}"] if dropped else []
    more += [f"--lie '{given.lie}'"] if given.lie else []
    return " ".join([*parts, *([f'ARGUMENTS="{" ".join(more)}"'] if more else [])])


@dataclass
class _Tally:
    """What all seeds of a run come to."""

    name: str
    count: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    totals: Counter[str] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)
    peak_mb: int = 0  # of the largest process

    def add(self, outcome: Outcome) -> None:
        self.count += 1
        self.simulated_s += outcome.simulated_s
        self.cpu_s += outcome.cpu_s
        self.totals.update(outcome.counts)
        self.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    def add_child(self, line: str) -> None:
        """The last line that a child printed. Raises ValueError."""
        child = _Tally(**json.loads(line))
        self.count += child.count
        self.simulated_s += child.simulated_s
        self.cpu_s += child.cpu_s
        self.totals.update(child.totals)
        self.failed += child.failed
        self.peak_mb = max(self.peak_mb, child.peak_mb)

    def line(self) -> str:
        ratio = self.simulated_s / max(self.cpu_s, 0.01)
        pace = f"{self.simulated_s:.0f} simulated s in {self.cpu_s:.0f} s of CPU ({ratio:.0f} to 1)"
        totals = self.totals
        load = f"acknowledged {totals['acknowledged']}, read {totals['got']}, faults {totals['fault']}"
        if stopped := totals["stopped in order"]:
            load += f", stopped in order {stopped}"
        if by_grpc := totals["acks confirmed, gRPC"]:
            alone, killed = totals["brokers killed alone"], totals["brokers killed"]
            load += f", brokers killed {killed} (alone {alone}, masters {totals['masters killed']})"
            load += f", acknowledgements of pops: remoting {totals['acks confirmed, remoting']}, gRPC {by_grpc}"
        return f"{self.name}: {self.count} runs, {pace}, {load}, peak {self.peak_mb} MB, failed {len(self.failed)}"


def _run_seed(given: argparse.Namespace, seed: int, tally: _Tally) -> Outcome | None:
    """The last of its runs; None when a planted mistake cannot show in its plan."""
    from tests.sim.lies import BY_NAME, planted
    from tests.sim.plan import make_plan
    from tests.sim.pop_ledger import make_pop_plan
    from tests.sim.run import run

    made = make_pop_plan(seed) if given.pops else make_plan(seed, given.mode)
    plan = made.without(tuple(each for each in given.without.split(",") if each))
    if given.lie and given.seed is None and not BY_NAME[given.lie].may_show(plan):
        return None
    outcomes = []
    is_last = given.seed is None and given.each == given.repeat == 1  # of its process
    for _ in range(given.repeat):
        with planted(given.lie):
            outcomes.append(run(plan, is_last=is_last))
        tally.add(outcomes[-1])
        if given.log:
            with given.log.open("a") as log:
                log.write(json.dumps(outcomes[-1].record()) + "\n")
    hashes = {each.hash for each in outcomes}
    if len(hashes) > 1:
        outcomes[-1].verdict.fail(f"{given.repeat} runs have {len(hashes)} hashes")
    if not outcomes[-1].is_ok:
        tally.failed.append(seed)
    return outcomes[-1]


def _tell_failure(given: argparse.Namespace, outcome: Outcome, *, is_single: bool) -> Outcome:
    """What happened, if it is the only seed; what is wrong, and how to repeat it."""
    from tests.sim.lies import planted
    from tests.sim.shrink import shrink

    seed = outcome.plan.seed
    if is_single and given.shrink:
        with planted(given.lie):
            outcome = shrink(outcome)
    if is_single and given.lines:
        print(*outcome.lines[-given.lines :], sep="\n")
    for text in outcome.verdict.failures:
        print(f"  seed {seed}: {text}")
    print(f"  repeat: {_command(given, seed, outcome.plan.mode, outcome.plan.dropped)}")
    return outcome


def _prepare(*, is_for_many: bool) -> None:
    """What every seed needs is made once, by a seed that nobody asked for: modules, caches, code that Python has seen.

    It lives as long as the process, and no collection looks at it again.
    """
    from tests.sim.plan import make_plan
    from tests.sim.run import run

    if is_for_many:
        run(make_plan(_FIRST_SEED))
    gc.collect()
    gc.freeze()


def _run_some(given: argparse.Namespace, seeds: Iterable[int], tally: _Tally) -> None:
    is_single = given.seed is not None and given.repeat == 1
    for seed in seeds:
        outcome = _run_seed(given, seed, tally)
        if outcome is None:
            continue
        if not outcome.is_ok:
            outcome = _tell_failure(given, outcome, is_single=is_single)
        if is_single or not outcome.is_ok:
            print(outcome.line(), flush=True)
        if tally.failed and given.stop:
            break


def _run_children(given: argparse.Namespace, seeds: Iterator[int], tally: _Tally) -> None:
    def work(few: list[int]) -> None:
        """Ends with the tally as a line of JSON."""
        own = _Tally(tally.name)
        _run_some(given, few, own)
        print(json.dumps(vars(own)))

    children = Children(work, given.jobs, given.each)
    with suppress(KeyboardInterrupt):
        for printed in children.run(seeds):
            *lines, last = printed.splitlines() or [""]
            print(*lines, sep="\n", end="\n" if lines else "", flush=True)
            try:
                tally.add_child(last)
            except ValueError:
                print(f"a child ended without its tally: {last}", flush=True)
                tally.failed.append(-1)
            if tally.failed and given.stop:
                break
    print(tally.line())


def main() -> int:
    parser = _parser()
    given = parser.parse_args()
    if unknown := [each for each in given.families.split(",") if each and each not in NAMES]:
        parser.error(f"no family {', '.join(unknown)}; there are {', '.join(NAMES)}")
    require_fixed_hashes(["-m", "tests.sim", *sys.argv[1:]])
    _prepare(is_for_many=given.seed is None and (not given.seeds or len(_range(given.seeds)) >= _MANY))
    name, seeds = _seeds(given)
    tally = _Tally(name)
    if given.seed is None:
        _run_children(given, seeds, tally)
    else:
        with suppress(KeyboardInterrupt):
            _run_some(given, seeds, tally)
        if given.repeat > 1:
            print(tally.line())
    return bool(tally.failed)


if __name__ == "__main__":
    sys.exit(main())
