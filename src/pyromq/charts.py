"""Charts as SVG text: lines over time, bars, columns, sparklines; for the console, the report page and terminals. Pure.

Colours are classes (``s0`` … ``s5``) that the page's style sheet gives a colour, because the console's policy allows no
style attributes. Everything returned is escaped; templates take it as it is (``__html__``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

COLOURS: Final = 6
WIDTH: Final = 720
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 24
_UNIT_TOP: Final = 14  # room for the unit above the axis
_DIVISIONS: Final = 4
_TICKS_MAX: Final = 6
_STEPS_MS: Final = (
    *(100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000),
    *(3_600_000, 2 * 3_600_000, 6 * 3_600_000, 12 * 3_600_000, 86_400_000),
)
_ROW: Final = 26
_LABEL: Final = 230
_SPARK: Final = (90, 22)
_BLOCKS: Final = "▁▂▃▄▅▆▇█"


class Svg(str):
    """Markup that is escaped already: templates do not escape it again."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


@dataclass(frozen=True, slots=True)
class Series:
    """A line: times in milliseconds and values, oldest first; None is a gap."""

    name: str
    points: Sequence[tuple[int, float | None]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar or a column; of several ``values``, smallest first, each is drawn from 0, the smaller over the larger."""

    name: str
    values: Sequence[float]
    shown: str = ""
    colour: int = 0

    @property
    def highest(self) -> float:
        """The largest of its values; 0 without any."""
        return max(self.values, default=0)


@dataclass(frozen=True, slots=True)
class _Plot:
    """The area between the axes: where a time and a value lie in it."""

    height: int
    begin: int
    end: int
    top: float
    margin: int = _TOP

    def x(self, time_ms: int) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (time_ms - self.begin) / (self.end - self.begin)

    def y(self, value: float) -> float:
        return self.floor - (self.floor - self.margin) * value / self.top

    @property
    def floor(self) -> int:
        return self.height - _BOTTOM

    def grid(self) -> str:
        parts = []
        for number in range(_DIVISIONS + 1):
            value = self.top * number / _DIVISIONS
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short_number(value)}</text>')
        return "".join(parts)

    def times(self) -> str:
        """Labels of the time axis that have room: those at the edges would be cut."""
        ticks = time_ticks(self.begin, self.end)
        step = ticks[1] - ticks[0] if ticks[1:] else self.end - self.begin
        shown = [at for at in ticks if _LEFT + 16 < self.x(at) < WIDTH - _RIGHT - 16]
        return "".join(
            f'<text x="{self.x(at):.1f}" y="{self.floor + 16}" text-anchor="middle">{_time_label(at, step)}</text>'
            for at in shown
        )


def line_chart(lines: Sequence[Series], title: str, *, unit: str = "", height: int = 180) -> Svg:
    """Lines over the same time with the area below each, and a legend; empty without points."""
    drawn = [line for line in lines if any(value is not None for _, value in line.points)]
    if not drawn:
        return Svg()
    times = [at for line in drawn for at, value in line.points if value is not None]
    top = nice_top(max(value for line in drawn for _, value in line.points if value is not None))
    margin = _TOP + (_UNIT_TOP if unit else 0)
    plot = _Plot(height, min(times), max(max(times), min(times) + 1), top, margin)
    parts = [plot.grid(), plot.times()]
    if unit:
        parts.append(f'<text x="{_LEFT - 6}" y="{_UNIT_TOP}" class="unit">{escape(unit)}, time in UTC</text>')
    for number, line in enumerate(drawn):
        for stretch in _stretches(line.points):
            places = [(plot.x(at), plot.y(value)) for at, value in stretch]
            if len(places) == 1:  # a line of one point would not be seen
                places = [(places[0][0] - 1, places[0][1]), places[0]]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            below = f"{places[-1][0]:.1f},{plot.floor} {places[0][0]:.1f},{plot.floor}"
            parts.append(f'<polygon class="area s{number % COLOURS}" points="{path} {below}"/>')
            parts.append(f'<polyline class="line s{number % COLOURS}" points="{path}"/>')
    chart = _svg(WIDTH, height, title, parts)
    return Svg(chart + legend([line.name for line in drawn])) if len(lines) > 1 else chart


def largest(lines: Sequence[Series]) -> list[Series]:
    """Choose as many lines as there are colours, by their highest points, and keep their order."""
    if len(lines) <= COLOURS:
        return list(lines)
    heights = [max((value for _, value in line.points if value is not None), default=0) for line in lines]
    chosen = sorted(range(len(lines)), key=lambda number: -heights[number])[:COLOURS]
    return [lines[number] for number in sorted(chosen)]


def bar_chart(bars: Sequence[Bar], title: str) -> Svg:
    """One row for each bar, its name on the left; empty without any."""
    top, room, parts = max((bar.highest for bar in bars), default=0) or 1, WIDTH - _LABEL - 190, list[str]()
    for number, bar in enumerate(bars):
        y = number * _ROW + 4
        name = bar.name if len(bar.name) <= 34 else f"{bar.name[:33]}…"
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 13}" text-anchor="end">{escape(name)}{_hint(bar.name)}</text>')
        for shade, value in reversed(list(enumerate(bar.values))):
            width = max(1.0, room * value / top) if value else 0
            classes = f"bar s{bar.colour % COLOURS}" + (f" shade{shade}" if shade else "")
            parts.append(f'<rect class="{classes}" x="{_LABEL}" y="{y}" width="{width:.1f}" height="18" rx="2"/>')
        shown = escape(bar.shown or short_number(bar.highest))
        parts.append(f'<text x="{_LABEL + room * bar.highest / top + 6:.1f}" y="{y + 13}" class="value">{shown}</text>')
    return _svg(WIDTH, len(bars) * _ROW + 8, title, parts) if bars else Svg()


def column_chart(columns: Sequence[Bar], title: str, *, height: int = 180, names_max: int = 12) -> Svg:
    """Columns beside each other, some of their names below; empty without any."""
    if not columns:
        return Svg()
    plot = _Plot(height, 0, 1, nice_top(max(column.highest for column in columns)))
    step = (WIDTH - _LEFT - _RIGHT) / len(columns)
    named = -(-len(columns) // names_max)
    parts = [plot.grid()]
    for number, column in enumerate(columns):
        x, y = _LEFT + number * step, plot.y(column.highest)
        place = f'x="{x + step * 0.1:.1f}" y="{y:.1f}" width="{step * 0.8:.1f}" height="{plot.floor - y:.1f}" rx="2"'
        hint = _hint(f"{column.name}: {column.shown or short_number(column.highest)}")
        parts.append(f'<rect class="bar s{column.colour % COLOURS}" {place}>{hint}</rect>')
        if number % named == 0:
            parts.append(
                f'<text x="{x + step / 2:.1f}" y="{height - 6}" text-anchor="middle">{escape(column.name)}</text>'
            )
    return _svg(WIDTH, height, title, parts)


def spark(values: Sequence[float], title: str, *, colour: int = 0) -> Svg:
    """A small line for a table's cell; empty with fewer than two values."""
    if len(values) < 2:
        return Svg()
    width, height = _SPARK
    top = max(*values, 1e-9)
    points = " ".join(
        f"{number * width / (len(values) - 1):.1f},{height - 2 - (height - 4) * max(0.0, value) / top:.1f}"
        for number, value in enumerate(values)
    )
    line = f'<polyline class="line s{colour % COLOURS}" points="{points}"/>'
    return _svg(width, height, title, [line], "chart spark")


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """Values as a line of blocks, from 0 to the highest, for a terminal; neighbours share a block if there are many."""
    if not values:
        return ""
    size = -(-len(values) // width)
    drawn = [max(values[at : at + size]) for at in range(0, len(values), size)]
    top = max(drawn) or 1
    return "".join(_BLOCKS[math.ceil(value / top * (len(_BLOCKS) - 1))] for value in drawn)


def legend(names: Sequence[str]) -> Svg:
    """Names of lines beside their colours."""
    return _legend(f'<i class="s{number % COLOURS}"></i>{escape(name)}' for number, name in enumerate(names))


def shades_legend(names: Sequence[str]) -> Svg:
    """Names of the values of bars with several, the smallest first."""
    return _legend(f'<i class="s0 shade{number}"></i>{escape(name)}' for number, name in enumerate(names))


def nice_top(value: float) -> float:
    """The next of 1, 2, 2.5, 5, 10, … at or above a value; at least 1."""
    if value <= 1:
        return 1.0
    scale = math.pow(10, math.floor(math.log10(value)))
    return next(step * scale for step in (1, 2, 2.5, 5, 10) if step * scale >= value * (1 - 1e-9))


def short_number(value: float) -> str:
    """A number with three digits and k, M or G."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def time_ticks(begin: int, end: int) -> list[int]:
    """Round times of [begin, end], few enough to be read."""
    longest = _STEPS_MS[-1] * max(1, -(-(end - begin) // (_STEPS_MS[-1] * _TICKS_MAX)))
    step = next((step for step in _STEPS_MS if (end - begin) / step <= _TICKS_MAX), longest)
    return list(range(-(-begin // step) * step, end + 1, step)) or [begin]


def _time_label(time_ms: int, step_ms: int) -> str:
    """Format a time with just enough digits that two ticks differ."""
    when = datetime.fromtimestamp(time_ms / 1000, UTC)
    if step_ms >= 86_400_000:
        return f"{when:%d %b}"
    if step_ms >= 60_000:
        return f"{when:%H:%M}"
    return f"{when:%H:%M:%S}" if step_ms >= 1_000 else f"{when:%M:%S}.{time_ms % 1000 // 100}"


def _stretches(points: Sequence[tuple[int, float | None]]) -> list[list[tuple[int, float]]]:
    found: list[list[tuple[int, float]]] = [[]]
    for at, value in points:
        if value is None:
            found.append([])
        else:
            found[-1].append((at, value))
    return [stretch for stretch in found if stretch]


def _legend(items: Iterable[str]) -> Svg:
    return Svg(f'<ul class="legend">{"".join(f"<li>{item}</li>" for item in items)}</ul>')


def _hint(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _svg(width: int, height: int, title: str, parts: Sequence[str], classes: str = "chart") -> Svg:
    head = f'<svg class="{classes}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
    return Svg(f"{head}{''.join(parts)}</svg>")
