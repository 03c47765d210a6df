"""What logs of ``--log`` come to: ``python -m tests.sim.tally FILE…``; exit code 1 when a seed has failed.

A seed that was run again counts once, as it was run last.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def last_runs(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The last record of each seed; a line that was cut off by a kill is none."""
    found: dict[int, dict[str, Any]] = {}
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        found[record["seed"]] = record
    return [found[seed] for seed in sorted(found)]


def summary(records: list[dict[str, Any]]) -> str:
    simulated_s = sum(each["simulated_s"] for each in records)
    cpu_s = sum(each["cpu_s"] for each in records)
    counts: Counter[str] = Counter()
    for each in records:
        counts.update(each["counts"])
    pace = f"{simulated_s:.0f} simulated s in {cpu_s:.0f} s of CPU ({simulated_s / max(cpu_s, 0.01):.0f} to 1)"
    load = f"acknowledged {counts['acknowledged']}, read {counts['got']}, faults {counts['fault']}"
    failed = [each["seed"] for each in records if each["failures"]]
    names = f": {', '.join(map(str, failed))}" if failed else ""
    return f"{len(records)} seeds, {pace}, {load}, failed {len(failed)}{names}"


def main(files: list[str]) -> int:
    records = last_runs(line for each in files for line in Path(each).read_text().splitlines())
    print(summary(records))
    return any(each["failures"] for each in records)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
