"""What a run found, as ``docs/compatibility.md``: one row per case, one column per pairing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_HEAD: Final = """# Compatibility

Written by `make interop`, which runs the real Apache RocketMQ {version} beside PyroMQ on one machine; do not edit.

*ok*: as expected. *differs*: works, but not the same; the reason follows. *fails*: does not work today.
*expected*: known and deliberate, or not there yet, see the note.
"""


@dataclass(slots=True)
class Case:
    """One row's cell."""

    section: str
    name: str
    pairing: str
    outcome: str = "ok"
    notes: list[str] = field(default_factory=list)


class Report:
    """Collects cases in the order of the run."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def add(self, case: Case) -> None:
        self.cases.append(case)

    def write(self, path: Path, version: str) -> None:
        lines = [_HEAD.format(version=version)]
        for section in dict.fromkeys(case.section for case in self.cases):
            lines += self._section(section, [case for case in self.cases if case.section == section])
        path.write_text("\n".join(lines).rstrip() + "\n")

    @staticmethod
    def _section(section: str, cases: Sequence[Case]) -> list[str]:
        pairings = sorted({case.pairing for case in cases})
        cells = {(case.name, case.pairing): case for case in cases}
        lines = [f"## {section}", "", f"| case | {' | '.join(pairings)} |", "|---" * (len(pairings) + 1) + "|"]
        for name in dict.fromkeys(case.name for case in cases):
            row = [_cell(cells.get((name, pairing))) for pairing in pairings]
            lines.append(f"| {name} | {' | '.join(row)} |")
        return [*lines, ""]


def _cell(case: Case | None) -> str:
    if case is None:
        return ""
    notes = "; ".join(note.replace("|", "\\|").replace("\n", " ") for note in case.notes)
    return f"{case.outcome}: {notes}" if notes else case.outcome
