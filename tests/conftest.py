"""What every test shares: counts of the crash suite are shown above pytest's summary."""

from __future__ import annotations

import pytest

SHOWN = (
    "crash points tried",
    "operations that failed",
    "processes killed",
    "bits flipped",
    "mutations tried",
    "records found again",
    "acknowledged records checked",
    "damaged records found",
    "damaged records served",
    "acknowledged records lost",
)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what tests recorded with ``record_property``."""
    totals: dict[str, int] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in report.user_properties:
                if name in SHOWN:
                    totals[name] = totals.get(name, 0) + int(value)
    if totals:
        terminalreporter.section("counts")
        for name in SHOWN:
            if name in totals:
                terminalreporter.write_line(f"{name + ':':34} {totals[name]:>10,}")
