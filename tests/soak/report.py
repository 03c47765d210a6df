"""What runs say together: a row for each, faults by kind, and lines over the hours; read from their files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.soak.samples import RunFolder, Sample

COLUMNS: Final = (
    *("run (UTC)", "lease store", "hours", "faults", "acknowledged", "deliveries", "lost", "not delivered"),
    *("later than 5 min", "duplicates", "dead letters", "one copy, as told", "failed sends", "ordered, unknown"),
    *("send p50, ms", "CPU, % of a core", "first member, MB", "clients, MB", "descriptors of both", "problems"),
)
BEGIN: Final = "<!-- runs of make soak: python -m tests.soak --report --record docs/reliability.md -->"
END: Final = "<!-- end of runs of make soak -->"
_WARM_S: Final = 900.0  # caches, pools and files have their size by then
_MB: Final = 1 << 20


@dataclass(frozen=True)
class SoakReport:
    """Of one run, whether it has ended or not."""

    folder: RunFolder

    @cached_property
    def samples(self) -> list[Sample]:
        return self.folder.samples()

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        return self.folder.events()

    def _events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]

    @property
    def hours(self) -> float:
        return self.samples[-1].elapsed_s / 3600

    @property
    def lease_store(self) -> str:
        begun = self._events("begin")
        return begun[0]["plan"].split(", ")[-1] if begun else "unknown"

    @property
    def is_over(self) -> bool:
        return bool(self._events("end"))

    @property
    def problems(self) -> list[str]:
        return [event["text"] for event in self._events("problem")]

    def missing(self, how: str) -> int:
        return sum(text.startswith(how) for text in self.problems)

    def faults(self) -> list[tuple[str, float]]:
        """Each fault, with the longest time without an acknowledgement of some kind."""
        return [(event["name"], event["longest_gap_s"]) for event in self._events("fault")]

    def cpu_percent(self) -> float:
        """Of one core: everything but the lease store."""
        begun: dict[int, float] = {}
        ended: dict[int, float] = {}
        for sample in self.samples:
            for each in sample.processes.values():
                begun.setdefault(each.pid, each.cpu_s if sample is self.samples[0] else 0.0)
                ended[each.pid] = each.cpu_s
        return 100 * (sum(ended.values()) - sum(begun.values())) / max(1.0, self.samples[-1].elapsed_s)

    def warm_and_last(self, of: Callable[[Sample], float]) -> tuple[float, float]:
        """The middle value of five minutes around the moment when all is warm, and of the last five."""
        end_s = self.samples[-1].elapsed_s
        warm_s = min(_WARM_S, end_s / 2)
        warm = [of(each) for each in self.samples if abs(each.elapsed_s - warm_s) <= 150]
        last = [of(each) for each in self.samples if each.elapsed_s >= end_s - 300]
        return median(warm or last), median(last)

    def row(self) -> list[str]:
        last = self.samples[-1]
        first = f"{self.name}{'' if self.is_over else ', not over'}"
        sends = median(each.send_ms[0] for each in self.samples if each.send_ms[0]) if self.samples[1:] else 0.0
        counts = (last.late, last.duplicates, last.dead, last.one_copy, last.failed, last.unknown)
        return [
            *(first, self.lease_store, f"{self.hours:.2f}", f"{last.faults:,}"),
            *(f"{each:,}" for each in (last.acknowledged, last.deliveries)),
            *(f"{self.missing(how):,}" for how in ("LOST", "in the log, not delivered")),
            *(f"{each:,}" for each in counts),
            *(f"{sends:.1f}", f"{self.cpu_percent():.0f}"),
            *(self._change(partial(_memory, name=name)) for name in ("member-0", "clients")),
            self._change(lambda each: _descriptors(each, "member-0") + _descriptors(each, "clients")),
            f"{len(self.problems):,}",
        ]

    def _change(self, of: Callable[[Sample], float]) -> str:
        warm, last = self.warm_and_last(of)
        return f"{warm:.0f} → {last:.0f}"

    @property
    def name(self) -> str:
        moment = datetime.strptime(self.folder.name, "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        return moment.strftime("%Y-%m-%d %H:%M:%S")


def _memory(sample: Sample, *, name: str) -> float:
    found = sample.processes.get(name)
    return found.memory / _MB if found else 0.0


def _descriptors(sample: Sample, name: str) -> float:
    found = sample.processes.get(name)
    return found.descriptors if found else 0.0


def reports_in(folder: Path) -> list[SoakReport]:
    """The oldest first; runs that were ended before their first sample say nothing."""
    found = [SoakReport(RunFolder(each)) for each in sorted(folder.iterdir())] if folder.exists() else []
    return [each for each in found if each.samples]


# --- tables ---


def table(rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def faults_table(reports: Iterable[SoakReport]) -> str:
    gaps: dict[str, list[float]] = {}
    for report in reports:
        for name, gap_s in report.faults():
            gaps.setdefault(name, []).append(gap_s)
    lines = ["| fault | times | longest wait for an acknowledgement p50 / max, s |", "|---|---|---|"]
    for name, each in sorted(gaps.items(), key=lambda pair: -len(pair[1])):
        lines.append(f"| {name} | {len(each):,} | {median(each):.1f} / {max(each):.1f} |")
    return "\n".join(lines)


def rows_in(page: str) -> dict[str, list[str]]:
    """Rows of runs that a page has, by their first cell: those of another machine are kept."""
    between = page.partition(BEGIN)[2].partition(END)[0]
    found = [line.strip("|").split("|") for line in between.splitlines() if re.match(r"\| \d{4}-\d\d-\d\d ", line)]
    return {cells[0].strip(): [cell.strip() for cell in cells] for cells in found}


def put_into(page: str, reports: Sequence[SoakReport]) -> str:
    """The page with rows of these runs beside those that it has. Raises ValueError when it has no place for them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table: {BEGIN} … {END}")
    rows: Mapping[str, Sequence[str]] = rows_in(page) | {report.row()[0]: report.row() for report in reports}
    for report in reports:  # a run that was recorded while it went on has one row
        if report.is_over:
            rows = {name: row for name, row in rows.items() if name != f"{report.name}, not over"}
    text = f"{table(rows[name] for name in sorted(rows))}\n\n{faults_table(reports)}"
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
