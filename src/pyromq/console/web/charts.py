"""Charts as SVG that a page holds: lines over time, bars beside names, columns, and sparks. Pure.

Colours are classes (``s0`` … ``s5``), because the pages' policy allows no style attributes; scales and ticks are those
of the report page. Everything returned is escaped and may be put into a template as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from pyromq.pipeline.jobs.reporting.charts import nice_top, short_number, time_ticks
from pyromq.wording import shown_time

COLOURS: Final = 6
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 44, 8, 10, 22
_DIVISIONS: Final = 4
_ROW: Final = 24
_LABEL: Final = 180
_SPARK: Final = (90, 22)


@dataclass(frozen=True, slots=True)
class Series:
    """A line: times in milliseconds and values, oldest first; None is a gap."""

    name: str
    points: Sequence[tuple[int, float | None]]


@dataclass(frozen=True, slots=True)
class Column:
    """A bar or a column: its name, its height, and what is written beside it."""

    name: str
    value: float
    shown: str = ""
    colour: int = 0


def line_chart(lines: Sequence[Series], title: str, *, height: int = 180) -> Markup:
    """Lines over the same time with a legend; empty without points."""
    times = [at for line in lines for at, value in line.points if value is not None]
    if not times:
        return Markup("")
    begin, end = min(times), max(max(times), min(times) + 1)
    top = nice_top(max(value for line in lines for _, value in line.points if value is not None))
    floor = height - _BOTTOM
    parts = [_grid(top, height), *_times(begin, end, floor)]
    for number, line in enumerate(lines):
        for stretch in _stretches(line.points):
            places = [(_x(at, begin, end), _y(value, top, height)) for at, value in stretch]
            if len(places) == 1:
                places = [(places[0][0] - 1, places[0][1]), places[0]]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            colour = f"s{number % COLOURS}"
            below = f"{places[-1][0]:.1f},{floor} {places[0][0]:.1f},{floor}"
            parts.append(f'<polygon class="area {colour}" points="{path} {below}"/>')
            parts.append(f'<polyline class="line {colour}" points="{path}"/>')
    drawn = _svg(_WIDTH, height, title, parts)
    return drawn + (legend([line.name for line in lines]) if len(lines) > 1 else Markup(""))


def bar_chart(bars: Sequence[Column], title: str) -> Markup:
    """One row for each, its name on the left; empty without any."""
    if not bars:
        return Markup("")
    top, room, parts = max(bar.value for bar in bars) or 1, _WIDTH - _LABEL - 90, []
    for number, bar in enumerate(bars):
        y, width = number * _ROW + 3, max(1.0, room * bar.value / top) if bar.value else 0
        name = bar.name if len(bar.name) <= 28 else f"{bar.name[:27]}…"
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 13}" text-anchor="end">{escape(name)}{_hint(bar.name)}</text>')
        place = f'x="{_LABEL}" y="{y}" width="{width:.1f}" height="18" rx="3"'
        parts.append(f'<rect class="bar s{bar.colour % COLOURS}" {place}/>')
        shown = escape(bar.shown or short_number(bar.value))
        parts.append(f'<text x="{_LABEL + width + 6:.1f}" y="{y + 13}">{shown}</text>')
    return _svg(_WIDTH, len(bars) * _ROW + 6, title, parts)


def column_chart(columns: Sequence[Column], title: str, *, height: int = 180, names_max: int = 12) -> Markup:
    """Columns beside each other, some of their names below; empty without any."""
    if not columns:
        return Markup("")
    top = nice_top(max(column.value for column in columns))
    step = (_WIDTH - _LEFT - _RIGHT) / len(columns)
    named = -(-len(columns) // names_max)
    parts = [_grid(top, height)]
    for number, column in enumerate(columns):
        x, y = _LEFT + number * step, _y(column.value, top, height)
        place = (
            f'x="{x + step * 0.1:.1f}" y="{y:.1f}" width="{step * 0.8:.1f}" height="{height - _BOTTOM - y:.1f}" rx="2"'
        )
        hint = _hint(f"{column.name}: {column.shown or short_number(column.value)}")
        parts.append(f'<rect class="bar s{column.colour % COLOURS}" {place}>{hint}</rect>')
        if number % named == 0:
            parts.append(
                f'<text x="{x + step / 2:.1f}" y="{height - 6}" text-anchor="middle">{escape(column.name)}</text>'
            )
    return _svg(_WIDTH, height, title, parts)


def spark(values: Sequence[float], title: str, *, colour: int = 0) -> Markup:
    """A small line for a table's cell; empty with fewer than two values."""
    if len(values) < 2:
        return Markup("")
    width, height = _SPARK
    top = max(*values, 1e-9)
    points = " ".join(
        f"{number * width / (len(values) - 1):.1f},{height - 2 - (height - 4) * max(0.0, value) / top:.1f}"
        for number, value in enumerate(values)
    )
    return _svg(
        width, height, title, [f'<polyline class="line s{colour % COLOURS}" points="{points}"/>'], "chart spark"
    )


def legend(names: Sequence[str]) -> Markup:
    items = (f'<li><i class="s{number % COLOURS}"></i>{escape(name)}</li>' for number, name in enumerate(names))
    return Markup(f'<ul class="legend">{"".join(items)}</ul>')


# --- pieces ---


def _stretches(points: Sequence[tuple[int, float | None]]) -> list[list[tuple[int, float]]]:
    found: list[list[tuple[int, float]]] = [[]]
    for at, value in points:
        if value is None:
            found.append([])
        else:
            found[-1].append((at, value))
    return [stretch for stretch in found if stretch]


def _grid(top: float, height: int) -> str:
    parts = []
    for number in range(_DIVISIONS + 1):
        value = top * number / _DIVISIONS
        y = _y(value, top, height)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short_number(value)}</text>')
    return "".join(parts)


def _times(begin: int, end: int, floor: int) -> list[str]:
    """Ticks whose labels have room: those at the edges would be cut."""
    ticks = [at for at in time_ticks(begin, end) if _LEFT + 16 < _x(at, begin, end) < _WIDTH - _RIGHT - 16]
    seconds = len(ticks) > 1 and (ticks[1] - ticks[0]) % 60_000
    days = end - begin > 2 * 86_400_000
    labels = [shown_time(at)[5:10] if days else shown_time(at)[11 : 19 if seconds else 16] for at in ticks]
    return [
        f'<text x="{_x(at, begin, end):.1f}" y="{floor + 15}" text-anchor="middle">{label}</text>'
        for at, label in zip(ticks, labels, strict=True)
    ]


def _hint(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _x(time_ms: int, begin: int, end: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (time_ms - begin) / (end - begin)


def _y(value: float, top: float, height: int) -> float:
    return height - _BOTTOM - (height - _TOP - _BOTTOM) * value / top


def _svg(width: int, height: int, title: str, parts: Sequence[str], classes: str = "chart") -> Markup:
    head = f'<svg class="{classes}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
    return Markup(f"{head}{''.join(parts)}</svg>")
