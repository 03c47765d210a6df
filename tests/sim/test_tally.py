"""Logs of many runs, added up."""

from __future__ import annotations

import json

from tests.sim.tally import last_runs, summary


def _line(seed: int, acknowledged: int, *failures: str) -> str:
    counts = {"acknowledged": acknowledged, "got": 2 * acknowledged, "fault": 3}
    return json.dumps({"seed": seed, "simulated_s": 100.0, "cpu_s": 2.0, "counts": counts, "failures": failures})


def test_a_seed_counts_once_as_it_was_run_last() -> None:
    lines = [_line(8, 10, "lost"), _line(7, 5), _line(8, 11), _line(9, 1)[:20]]
    found = summary(last_runs(lines))
    expected = "2 seeds, 200 simulated s in 4 s of CPU (50 to 1), acknowledged 16, read 32, faults 6, failed 0"
    assert found == expected


def test_seeds_that_failed_are_named() -> None:
    assert summary(last_runs([_line(8, 10, "lost"), _line(7, 5)])).endswith("failed 1: 8")
