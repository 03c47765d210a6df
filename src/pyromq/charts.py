"""Charts as SVG text: lines over time, bars, columns, sparklines; for the console, the report page and terminals. Pure.

Colours are classes (``s0`` … ``s5``) that the page's style sheet gives a colour, because the console's policy allows no
style attributes. Everything returned is escaped; templates take it as it is (``__html__``).

Line and column charts fill their card: places are shares of its width and height, so that letters and strokes keep
their size. The style sheet gives them room for labels (``.chart.lines``). A line chart carries its points in
``data-chart``, from which a script shows values under the pointer; times carry milliseconds (``data-ms``), so that a
script can show them in the reader's zone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

import msgspec

COLOURS: Final = 6
PALETTE_LIGHT: Final = ("#c2570c", "#0072b2", "#0e9e8d", "#6a1664", "#635434", "#1d1d1d")
PALETTE_DARK: Final = ("#f0884a", "#56b4e9", "#7fe3c4", "#c065b0", "#e4d996", "#98989e")
"""Colours that people who see no red or no green tell apart, after Okabe and Ito."""
WIDTH: Final = 720
_PLOT: Final = 1000  # units across a plot that is stretched to its card
_TOP, _BOTTOM = 12, 24
_UNIT_TOP: Final = 14  # room for the unit above the axis
_DIVISIONS_MAX: Final = 4
_TICKS_MAX: Final = 6
_STEPS_MS: Final = (
    *(100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000),
    *(3_600_000, 2 * 3_600_000, 6 * 3_600_000, 12 * 3_600_000, 86_400_000),
)
_ZONE: Final = '<tspan class="zone">time in UTC</tspan>'  # a script says another one
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
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

    @property
    def values(self) -> list[float]:
        """Its values without the gaps."""
        return [value for _, value in self.points if value is not None]

    def since(self, begin_ms: int | None) -> Series:
        """The line without what is older; None keeps all of it."""
        return self if begin_ms is None else Series(self.name, [each for each in self.points if each[0] >= begin_ms])


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar or a column; of several ``values``, smallest first, each is drawn from 0, the smaller over the larger.

    A column with ``href`` is a link to it.
    """

    name: str
    values: Sequence[float]
    shown: str = ""
    colour: int = 0
    href: str = ""

    @property
    def highest(self) -> float:
        """The largest of its values; 0 without any."""
        return max(self.values, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """How a line chart is scaled: ``unit`` in words ("messages a second"; "bytes" counts in powers of 1024), the time
    that it shows where that is not its points' own (what is missing is a gap), and its height in pixels.
    """

    unit: str = ""
    begin_ms: int | None = None
    end_ms: int | None = None
    height: int = 180


@dataclass(frozen=True, slots=True)
class _Plot:
    """The area between the axes: where a time and a value lie in it."""

    height: int
    begin: int
    end: int
    ticks: Sequence[float]
    unit: str = ""
    is_timed: bool = True

    @property
    def margin(self) -> int:
        return _TOP + (_UNIT_TOP if self.is_timed else 0)

    @property
    def floor(self) -> int:
        return self.height - _BOTTOM

    def share(self, time_ms: int) -> float:
        """How far across a time is, from 0 to 1."""
        return (time_ms - self.begin) / (self.end - self.begin)

    def y(self, value: float) -> float:
        return self.floor - (self.floor - self.margin) * value / self.ticks[-1]

    def down(self, y: float) -> str:
        """How far down a place is, as a share of the height."""
        return f"{y / self.height:.2%}"

    def grid(self) -> str:
        parts = []
        for value in self.ticks:
            y = self.down(self.y(value))
            parts.append(f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
            parts.append(f'<text x="-6" y="{y}" dy="4" text-anchor="end">{tick_label(value, self.unit)}</text>')
        if self.is_timed:
            unit = f"{escape(self.unit)}, " if self.unit else ""
            parts.append(f'<text x="-6" y="{_UNIT_TOP}" class="unit">{unit}{_ZONE}</text>')
        return "".join(parts)

    def times(self) -> str:
        """Labels of the time axis that have room: those at the edges would be cut."""
        ticks = time_ticks(self.begin, self.end)
        step = ticks[1] - ticks[0] if ticks[1:] else self.end - self.begin
        return "".join(
            f'<text class="tick" x="{self.share(at):.2%}" y="{self.down(self.floor)}" dy="16" text-anchor="middle" '
            f'data-ms="{at}" data-step="{step}">{_time_label(at, step)}</text>'
            for at in ticks
            if 0.02 < self.share(at) < 0.98 or len(ticks) == 1
        )

    def line(self, stretch: Sequence[tuple[int, float]], colour: int) -> str:
        places = [(_PLOT * self.share(at), self.y(value)) for at, value in stretch]
        if len(places) == 1:  # a line of one point would not be seen
            x, y = places[0]
            places = [(max(0.0, x - 2), y), (min(_PLOT, x + 2), y)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        below = f"{places[-1][0]:.1f},{self.floor} {places[0][0]:.1f},{self.floor}"
        area = f'<polygon class="area s{colour}" points="{path} {below}"/>'
        return f'{area}<polyline class="line s{colour}" vector-effect="non-scaling-stroke" points="{path}"/>'


def line_chart(lines: Sequence[Series], title: str, axes: Axes | None = None) -> Svg:
    """Lines over the same time with the area below each, and a legend; empty without points."""
    axes = axes or Axes()
    drawn = [line for each in lines if (line := each.since(axes.begin_ms)).values]
    if not drawn:
        return Svg()
    times = [at for line in drawn for at, _ in line.points]
    begin = min(times) if axes.begin_ms is None else axes.begin_ms
    end = max(max(times), axes.end_ms or 0, begin + 1)
    ticks = round_ticks(max(max(line.values) for line in drawn), axes.unit)
    plot = _Plot(axes.height, begin, end, ticks, axes.unit)
    inner = "".join(
        plot.line(stretch, number % COLOURS) for number, line in enumerate(drawn) for stretch in _stretches(line.points)
    )
    box = f'viewBox="0 0 {_PLOT} {axes.height}" width="100%" height="100%" preserveAspectRatio="none"'
    parts = [plot.grid(), plot.times(), f'<svg class="plot" {box}>{inner}</svg>']
    said = f"{title}: {', '.join(_in_words(line, axes.unit) for line in drawn)}"
    data = escape(msgspec.json.encode(_chart_data(drawn, plot)).decode())
    head = f'height="{axes.height}" tabindex="0" data-chart="{data}"'
    chart = _svg(head, said, parts, "chart lines")
    return Svg(chart + legend([line.name for line in drawn])) if len(lines) > 1 else chart


def _chart_data(lines: Sequence[Series], plot: _Plot) -> dict[str, object]:
    """What the pointer shows: times since the begin, so that numbers are short, and values to four digits."""
    series = [
        {
            "name": line.name,
            "points": [
                (at - plot.begin, None if value is None else float(f"{value:.4g}")) for at, value in line.points
            ],
        }
        for line in lines
    ]
    box = {"begin": plot.begin, "end": plot.end, "unit": plot.unit, "series": series}
    return {**box, "ceiling": plot.down(plot.margin), "floor": plot.down(plot.floor)}


def _in_words(line: Series, unit: str) -> str:
    """The line for whoever does not see it."""
    return f"{line.name} {tick_label(line.values[-1], unit)} at last, {tick_label(max(line.values), unit)} at most"


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
    return _svg(f'viewBox="0 0 {WIDTH} {len(bars) * _ROW + 8}"', title, parts) if bars else Svg()


def column_chart(columns: Sequence[Bar], title: str, *, height: int = 180, names_max: int = 12) -> Svg:
    """Columns beside each other, some of their names below; empty without any."""
    if not columns:
        return Svg()
    plot = _Plot(height, 0, 1, round_ticks(max(column.highest for column in columns)), is_timed=False)
    step = 100 / len(columns)
    named = -(-len(columns) // names_max)
    parts = [plot.grid()]
    for number, column in enumerate(columns):
        x, y = number * step, plot.y(column.highest)
        tall = plot.down(plot.floor - y)
        place = f'x="{x + step * 0.1:.2f}%" y="{plot.down(y)}" width="{step * 0.8:.2f}%" height="{tall}" rx="2"'
        hint = _hint(f"{column.name}: {column.shown or short_number(column.highest)}")
        drawn = f'<rect class="bar s{column.colour % COLOURS}" {place}>{hint}</rect>'
        if column.href:  # the whole height can be hit, however small the column is
            hit = f'<rect class="hit" x="{x:.2f}%" y="0" width="{step:.2f}%" height="100%">{hint}</rect>'
            label = escape(f"{column.name}: {column.shown or short_number(column.highest)}")
            drawn = f'<a href="{escape(column.href)}" aria-label="{label}">{hit}{drawn}</a>'
        parts.append(drawn)
        if number % named == 0:
            place = f'x="{x + step / 2:.2f}%" y="{plot.down(plot.floor)}" dy="16" text-anchor="middle"'
            parts.append(f"<text {place}>{escape(column.name)}</text>")
    role = "group" if any(column.href for column in columns) else "img"
    return _svg(f'height="{height}"', title, parts, "chart lines columns", role)


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
    return _svg(f'viewBox="0 0 {width} {height}"', title, [line], "chart spark")


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


_SMALLEST: Final = 1e-9  # highest value that an axis is made for; a smaller one lies on its bottom


def round_ticks(highest: float, unit: str = "") -> list[float]:
    """Round values of an axis from 0 to at least ``highest``, at most five: steps of 1, 2 or 5 and a power of ten, of
    bytes also of 1024.
    """
    base = 1024.0 ** _power(highest) if unit == "bytes" else 1.0
    raw = max(highest / base or 1, _SMALLEST) / _DIVISIONS_MAX
    scale = math.pow(10, math.floor(math.log10(raw)))
    step = next(size * scale for size in (1, 2, 5, 10) if size * scale >= raw * (1 - 1e-9))
    count = max(1, math.ceil(highest / base / step - 1e-9))
    return [float(f"{number * step:.12g}") * base for number in range(count + 1)]


def tick_label(value: float, unit: str = "") -> str:
    """A value beside an axis: short, in units of 1024 for bytes."""
    if unit != "bytes":
        return short_number(value)
    power = _power(value)
    return f"{value / 1024**power:.3g} {_SIZES[power]}"


def _power(value: float) -> int:
    return 0 if value < 1024 else min(int(math.log(value, 1024)), len(_SIZES) - 1)


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


def _svg(head: str, title: str, parts: Sequence[str], classes: str = "chart", role: str = "img") -> Svg:
    return Svg(f'<svg class="{classes}" {head} role="{role}" aria-label="{escape(title)}">{"".join(parts)}</svg>')
