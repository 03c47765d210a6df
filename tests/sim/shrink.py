"""The shrinker: leaves out faults and clients for as long as the plan still fails in the same way."""

from __future__ import annotations

import re

from tests.sim.plan import Plan
from tests.sim.run import Outcome, run


def kind_of(failure: str) -> str:
    """A failure without its numbers and names: what stays the same when less happens."""
    return re.sub(r"[0-9.]+|'[^']*'|\(.*\)", "", failure)[:40]


def shrink(failed: Outcome) -> Outcome:
    """The shortest failing outcome that was found; halves first, then one by one."""
    best, wanted = failed, {kind_of(each) for each in failed.verdict.failures}
    parts = _parts(best.plan)
    size = max(1, len(parts) // 2)
    while size:
        at = 0
        while at < len(parts):
            tried = run(_original(best.plan, [*best.plan.dropped, *parts[at : at + size]]))
            if wanted & {kind_of(each) for each in tried.verdict.failures}:
                best, parts = tried, parts[:at] + parts[at + size :]
            else:
                at += size
        size //= 2
    return best


def _parts(plan: Plan) -> list[str]:
    return [*(f"f{each.number}" for each in plan.faults), *(f"c{each.number}" for each in plan.clients)]


def _original(plan: Plan, dropped: list[str]) -> Plan:
    return plan.without(dropped)
