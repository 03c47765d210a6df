"""What a run found, as ``docs/compatibility.md``: one row per case, one column per pairing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

_HEAD: Final = """# Compatibility

Written by `make interop`, which runs the real Apache RocketMQ {version} beside PyroMQ on one machine; do not edit.

*ok*: as expected. *differs*: works, but not the same. *lacks*: not there yet. *deliberate*: decided otherwise.
*fails*: went wrong in this run. *loses*: an acknowledged message can be lost by it. –: this client offers no such
thing. Numbers lead to the reasons below a table.
"""
_NAMES: Final = {
    **{"java": "Java", "python": "Python", "go": "Go", "node": "Node.js", "rust": "Rust"},
    **{"pyromq": "PyroMQ", "apache": "Apache", "": "result"},
}
_CLIENTS: Final = ("Java", "Python", "Go", "Node.js", "Rust", "PyroMQ")
COLUMNS: Final = (
    *(f"{client} → {server}" for client in _CLIENTS for server in ("Apache", "PyroMQ")),
    *("Apache", "PyroMQ", "result"),
)


def column(client: str, server: str) -> str:
    """The column of a pairing; some cases are about a server alone."""
    return f"{_NAMES[client]} → {_NAMES[server]}" if client else _NAMES[server]


@dataclass(frozen=True, slots=True)
class Case:
    """One row's cell; ``order`` is where the row stands."""

    section: str
    name: str
    column: str
    outcome: str = "ok"
    reasons: list[str] = field(default_factory=list)
    order: tuple[int, int] = (0, 0)


class Report:
    """Collects cases, in any order."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, str, str], Case] = {}

    def __len__(self) -> int:
        return len(self._cells)

    def add(self, case: Case) -> None:
        assert case.column in COLUMNS, f"no table has a column {case.column!r}: {case.section}, {case.name}"
        self._cells[case.section, case.name, case.column] = case

    def write(self, path: Path, version: str, *, keep: bool = False) -> None:
        """``keep``: sections, and cells of sections, that this run has nothing for stay as they are."""
        sections = _sections(path.read_text(encoding="utf-8")) if keep and path.exists() else {}
        for section in {case.section for case in self._cells.values()} & sections.keys():
            self._keep(section, sections[section])
        cases = sorted(self._cells.values(), key=lambda case: case.order)
        for section in dict.fromkeys(case.section for case in cases):
            sections[section] = self._section(section, [case for case in cases if case.section == section])
        lines = [_HEAD.format(version=version), *_totals(sections.values())]
        for section in sections.values():
            lines += section
        path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")

    def _keep(self, section: str, lines: Sequence[str]) -> None:
        """Add the cells of an earlier run; its rows come first, in their order."""
        rows = [[cell.strip() for cell in _cells(line)] for line in lines if line.startswith("|")]
        reasons = dict(line.replace("\\|", "|").split(". ", 1) for line in lines if line.split(". ")[0].isdigit())
        columns, *named = [rows[0], *rows[2:]]
        for number, row in enumerate(named):
            for column, cell in zip(columns[1:], row[1:], strict=True):
                key = (section, row[0], column)
                outcome, _, notes = cell.partition(" (")
                known = [reasons[note] for note in notes.rstrip(")").split(", ") if note]
                order = (number - len(named), 0)
                if key in self._cells:
                    self._cells[key] = replace(self._cells[key], order=order)
                elif outcome:
                    self._cells[key] = Case(*key, outcome, known, order)

    def _section(self, section: str, cases: Sequence[Case]) -> list[str]:
        columns = [each for each in COLUMNS if any(case.column == each for case in cases)]
        numbers: dict[str, int] = {}
        for case in cases:
            for reason in case.reasons:
                numbers.setdefault(_flat(reason), len(numbers) + 1)
        lines = [f"## {section}", "", f"| case | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        for name in dict.fromkeys(case.name for case in cases):
            row = [_cell(self._cells.get((section, name, each)), numbers) for each in columns]
            lines.append(f"| {name} | {' | '.join(row)} |")
        notes = [f"{number}. {reason}" for reason, number in numbers.items()]
        return [*lines, "", *(notes and [*notes, ""])]


def _sections(text: str) -> dict[str, list[str]]:
    """The lines of a file that was written before, by heading."""
    _, *parts = text.split("\n## ")
    return {part.partition("\n")[0]: [*f"## {part}".rstrip().splitlines(), ""] for part in parts}


def _cells(row: str) -> list[str]:
    """The cells of a row; a bar of the text is escaped."""
    return [cell.replace("\0", "\\|") for cell in row.strip().strip("|").replace("\\|", "\0").split("|")]


def _totals(sections: Iterable[Sequence[str]]) -> list[str]:
    counts: dict[str, int] = {}
    for lines in sections:
        _, _, *rows = (line for line in lines if line.startswith("|"))
        for row in rows:
            _, *cells = _cells(row)
            for cell in filter(None, map(str.strip, cells)):
                counts[cell.split()[0]] = counts.get(cell.split()[0], 0) + 1
    return ["In this run: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) + ".", ""]


def _cell(case: Case | None, numbers: dict[str, int]) -> str:
    if case is None:
        return ""
    notes = ", ".join(str(numbers[_flat(reason)]) for reason in case.reasons)
    return f"{case.outcome} ({notes})" if notes else case.outcome


def _flat(reason: str) -> str:
    return " ".join(reason.replace("|", "\\|").split())
