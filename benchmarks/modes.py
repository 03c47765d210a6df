"""A benchmark of a client in both modes, with the compiled core and without: in processes of their own, in turns.

python -m benchmarks.modes producer        what one such process does, in the mode that its environment says
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

from benchmarks.measure import Row
from pyromq.compiled_core import SWITCH, core

ROUNDS = 2


def in_both_modes(name: str) -> list[Row]:
    """``rows_of_one_mode`` of ``benchmarks.bench_<name>``: the best round of each line, with the core and without."""
    modes = {"core": "", "pure": "1"} if core is not None else {"pure": "1"}
    best: dict[tuple[str, str], Row] = {}
    for _ in range(ROUNDS):
        for mode, switch in modes.items():
            for row in _child(name, switch):
                known = best.get((row.name, mode))
                best[row.name, mode] = row if known is None or row.cpu_us < known.cpu_us else known
    lines = dict.fromkeys(line for line, _ in best)
    return [best[line, mode]._replace(name=f"{line}, {mode}") for line in lines for mode in modes]


def _child(name: str, switch: str) -> list[Row]:
    command = [sys.executable, "-m", "benchmarks.modes", name]
    environment = {**os.environ, SWITCH: switch}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [Row(*row) for row in json.loads(done.stdout.splitlines()[-1])]


if __name__ == "__main__":
    print(json.dumps(importlib.import_module(f"benchmarks.bench_{sys.argv[1]}").rows_of_one_mode()))
