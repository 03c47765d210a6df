"""What a comparison prints: what ours is behind in first, then every line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """One number of both; a ratio above 1 means that ours is faster, smaller or sooner."""

    scenario: str
    unit: str
    ours: float
    theirs: float
    ratio: float


def more(scenario: str, unit: str, ours: float, theirs: float) -> Line:
    """Of which more is better."""
    return Line(scenario, unit, ours, theirs, ours / max(theirs, 1e-9))


def less(scenario: str, unit: str, ours: float, theirs: float) -> Line:
    """Of which less is better."""
    return Line(scenario, unit, ours, theirs, theirs / max(ours, 1e-9))


def print_lines(lines: Sequence[Line], ours: str, theirs: str) -> None:
    below = [f"{line.scenario}, {line.unit} ({line.ratio:.2f})" for line in lines if line.ratio < 1]
    print(f"\n{ours} is behind in: " + ("; ".join(below) or "nothing"))
    print(f"\n{'':44} {'':18} {ours:>11} {theirs:>10} {'ratio':>8}")
    before = ""
    for line in lines:
        shown, before = "" if line.scenario == before else line.scenario, line.scenario
        print(f"{shown:44} {line.unit:18} {_shown(line.ours):>11} {_shown(line.theirs):>10} {line.ratio:7.2f}×")


def _shown(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
