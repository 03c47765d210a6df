"""Memory, descriptors, latencies and disk over the hours of all runs, as one SVG file that needs no style sheet."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from pyromq.charts import PALETTE_LIGHT, Axes, Series, line_chart
from tests.soak.report import SoakReport
from tests.soak.samples import Sample

_WIDTH, _HEIGHT, _PANEL, _LEFT, _RIGHT = 960, 180, 236, 76, 20
_POINTS: Final = 240  # of a line, over all runs
_GAP_S: Final = 120.0  # between two runs
_PROCESSES: Final = {
    "clients": "clients (all of them, proxies, ledger)",
    "member-0": "member 0 (never killed)",
    "member-1": "member 1",
    "member-2": "member 2",
    "name server": "name server",
    "member-0 agent": "agent of member 0",
}
_DISKS: Final = ("member-0", "member-1", "member-2")
Reading = Callable[[Sample], float | None]


def _process(name: str, of: str) -> Reading:
    def read(sample: Sample) -> float | None:
        found = sample.processes.get(name)
        return float(getattr(found, of)) if found else None

    return read


def _disk(name: str) -> Reading:
    return lambda sample: sample.disk.get(name)


def _panels() -> list[tuple[str, str, list[tuple[str, Reading]]]]:
    memory = [(text, _process(name, "memory")) for name, text in _PROCESSES.items()]
    descriptors = [(text, _process(name, "descriptors")) for name, text in _PROCESSES.items()]
    times: list[tuple[str, Reading]] = [
        ("send, p50", lambda sample: sample.send_ms[0]),
        ("acknowledged to delivered, p50", lambda sample: sample.wait_ms[0]),
    ]
    slow: list[tuple[str, Reading]] = [
        ("slowest send", lambda sample: sample.send_ms[2] / 1000),
        ("send, p99", lambda sample: sample.send_ms[1] / 1000),
    ]
    return [
        ("Memory of each process", "bytes", memory),
        ("Descriptors of each process", "", descriptors),
        ("Time of sends and deliveries", "ms", times),
        ("Slow sends: a fault every few minutes", "s", slow),
        ("Disk of each member, kept for 20 minutes", "bytes", [(name, _disk(name)) for name in _DISKS]),
    ]


def picture(reports: Sequence[SoakReport]) -> str:
    """Times are those of load: runs stand one behind the other, with a gap in between."""
    panels = [_panel(number, *panel, reports=reports) for number, panel in enumerate(_panels())]
    height = _PANEL * len(panels) + 24
    hours = sum(report.hours for report in reports)
    style = (
        "text{fill:#6b6b70;font:12px system-ui,'Segoe UI','DejaVu Sans',sans-serif}.head{font-weight:600;fill:#3c3c40}"
        ".grid{stroke:#d9d9de}.line{fill:none;stroke-width:1.6;stroke-linejoin:round}.area{fill:none;stroke:none}"
        + "".join(f".s{number}{{stroke:{colour}}}" for number, colour in enumerate(PALETTE_LIGHT))
        + "".join(f"rect.s{number}{{fill:{colour};stroke:none}}" for number, colour in enumerate(PALETTE_LIGHT))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">'
        f"<title>{hours:.1f} hours of make soak</title><style>{style}</style>"
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>{"".join(panels)}</svg>\n'
    )


def _panel(
    number: int, title: str, unit: str, lines: Sequence[tuple[str, Reading]], *, reports: Sequence[SoakReport]
) -> str:
    series = [Series(name, _points(reports, reading)) for name, reading in lines]
    top = number * _PANEL
    chart = str(line_chart(series, title, Axes(unit=unit, begin_ms=0, height=_HEIGHT)))
    chart = chart[: chart.rindex("</svg>") + len("</svg>")]
    place = f'x="{_LEFT}" y="{top + 44}" width="{_WIDTH - _LEFT - _RIGHT}" height="{_HEIGHT}" overflow="visible"'
    chart = re.sub(r"^<svg [^>]*>", f"<svg {place}>", chart)
    chart = re.sub(r'<polygon class="area[^>]*/>', "", chart)
    chart = chart.replace("time in UTC", "hours of load")
    head = f'<text class="head" x="{_LEFT}" y="{top + 22}">{escape(title)}</text>'
    return head + _legend([name for name, _ in lines], top + 42) + chart


def _legend(names: Sequence[str], y: int) -> str:
    parts, x = [], _LEFT
    for number, name in enumerate(names):
        parts.append(f'<rect class="s{number}" x="{x}" y="{y - 9}" width="10" height="10"/>')
        parts.append(f'<text x="{x + 14}" y="{y}">{escape(name)}</text>')
        x += 30 + round(6.4 * len(name))
    return "".join(parts)


def _points(reports: Sequence[SoakReport], reading: Reading) -> list[tuple[int, float | None]]:
    """The highest of each stretch of samples: a peak of one sample is seen."""
    total = sum(len(report.samples) for report in reports)
    step, begin_s = max(1, -(-total // _POINTS)), 0.0
    found: list[tuple[int, float | None]] = []
    for report in reports:
        for start in range(0, len(report.samples), step):
            piece = report.samples[start : start + step]
            values = [value for each in piece if (value := reading(each)) is not None]
            found.append((round((begin_s + piece[0].elapsed_s) * 1000), max(values, default=None)))
        begin_s += report.samples[-1].elapsed_s + _GAP_S
        found.append((round((begin_s - _GAP_S / 2) * 1000), None))
    return found
