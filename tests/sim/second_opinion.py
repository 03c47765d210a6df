"""``make porcupine``: Porcupine and the simulator's own check judge the same histories, good ones and spoiled ones.

seeds ─▶ histories of queues ─┬─ as they are          ─▶ both must say that each is one log
                              └─ each spoiled by seed ─▶ both must say that it is not
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from tests.sim.commands import require_fixed_hashes
from tests.sim.histories import NEVER, Operation, is_one_log

CHECKER: Final = Path(__file__).parent / "porcupine"
_SET_BACK: Final = {"leases set back", "leases emptied", "old lease"}  # what was never promised may be replaced then
_LEAST: Final = 6  # operations of a history that is worth a look

Spoil = Callable[[list[Operation], Random], list[Operation] | None]


def other_message(operations: list[Operation], rng: Random) -> list[Operation] | None:
    """A consumer reads another message at an offset than the one that was acknowledged there."""
    reads = [at for at, each in enumerate(operations) if each.kind == "read"]
    if not reads:
        return None
    at = rng.choice(reads)
    return [*operations[:at], msgspec.structs.replace(operations[at], key="another"), *operations[at + 1 :]]


def doubled_offset(operations: list[Operation], rng: Random) -> list[Operation] | None:
    """An offset is given to two messages."""
    appends = [each for each in operations if each.kind == "append"]
    if len(appends) < 2:
        return None
    one, other = rng.sample(appends, 2)
    return [*operations, msgspec.structs.replace(one, offset=other.offset)]


def read_before(operations: list[Operation], rng: Random) -> list[Operation] | None:
    """A message is read before it was sent."""
    appends = [each for each in operations if each.kind == "append" and each.begin > 0]
    if not appends:
        return None
    one = rng.choice(appends)
    return [*operations, Operation(2, "read", one.key, one.offset, one.begin - 1, one.begin - 1)]


def wrong_order(operations: list[Operation], rng: Random) -> list[Operation] | None:
    """What was sent later, after the response to the other, lies before it. Nobody has read the two."""
    read = {each.offset for each in operations if each.kind == "read"}
    rest = [each for each in operations if each.kind == "append" and each.offset not in read and each.end != NEVER]
    pairs = [(one, other) for one in rest for other in rest if one.end < other.begin]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    swapped = {one.offset: other.offset, other.offset: one.offset}
    return [msgspec.structs.replace(each, offset=swapped.get(each.offset, each.offset)) for each in operations]


SPOILS: Final[tuple[Spoil, ...]] = (other_message, doubled_offset, read_before, wrong_order)


def histories_of(seed: int) -> dict[str, list[Operation]]:
    from tests.sim.plan import make_plan
    from tests.sim.run import run

    plan = make_plan(seed)
    if _SET_BACK & {fault.kind for fault in plan.faults}:
        return {}
    return {f"{seed}-{name}": each for name, each in run(plan).queues.items() if len(each) >= _LEAST}


def spoiled(good: dict[str, list[Operation]]) -> dict[str, list[Operation]]:
    found = {}
    for name, operations in good.items():
        rng = Random(name)
        spoil = rng.choice(SPOILS)
        if (bad := spoil(operations, rng)) is not None:
            found[f"{name}-{spoil.__name__}"] = bad
    return found


def ask_porcupine(histories: dict[str, list[Operation]]) -> dict[str, bool]:
    """What it says of each. Raises OSError, CalledProcessError when there is no Go, or no such module."""
    with tempfile.TemporaryDirectory() as folder:
        checker = Path(folder) / "check"
        subprocess.run(["go", "build", "-o", str(checker), "."], cwd=CHECKER, check=True)
        for name, operations in histories.items():
            (Path(folder) / f"{name}.json").write_bytes(msgspec.json.encode(operations))
        paths = [str(Path(folder) / f"{name}.json") for name in histories]
        done = subprocess.run([str(checker), *paths], capture_output=True, text=True, check=False)
    words = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
    return {Path(path).stem: word == "ok" for path, word in words if word != "unknown"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.second_opinion", description=__doc__)
    parser.add_argument("--seeds", default="1..20", help="a range, both ends included")
    given = parser.parse_args()
    require_fixed_hashes(["-m", "tests.sim.second_opinion", *sys.argv[1:]])
    first, _, last = given.seeds.partition("..")
    good: dict[str, list[Operation]] = {}
    for seed in range(int(first), int(last or first) + 1):
        good |= histories_of(seed)
    bad = spoiled(good)
    both = good | bad
    theirs, ours = ask_porcupine(both), {name: is_one_log(each) for name, each in both.items()}
    wrong = [name for name in both if not (theirs.get(name) is ours[name] is (name in good))]
    for name in wrong:
        print(f"{name}: Porcupine says {theirs.get(name)}, is_one_log {ours[name]}, it is {name in good}")
    count = sum(map(len, good.values()))
    print(f"seeds {given.seeds}: {len(good)} histories with {count} operations, {len(bad)} spoiled, wrong {len(wrong)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
