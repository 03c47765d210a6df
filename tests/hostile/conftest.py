"""The table of attacks: printed at the end of a run, and written where PYROMQ_HOSTILE_TABLE says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = [
        json.loads(str(value))
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, value in report.user_properties
        if name == "hostile"
    ]
    if not rows:
        return
    lines = [
        "| attack | count | worst wait of an honest client, ms | memory before, MB | after, MB |",
        "|---|---|---|---|---|",
        *(f"| {name} | {count:,} | {worst} | {before} | {after} |" for name, count, worst, before, after in rows),
    ]
    terminalreporter.section("hostile clients")
    for line in lines:
        terminalreporter.write_line(line)
    if target := os.environ.get("PYROMQ_HOSTILE_TABLE"):
        Path(target).write_text("\n".join(lines) + "\n", encoding="utf-8")
