"""Charts as SVG text that stands in a page by itself: lines over time, and horizontal bars. Pure.

Colours are CSS variables of the page (``--c0`` … ``--c5``), so that they follow light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

from pyromq.pipeline.jobs.reporting.numbers import Point

WIDTH, HEIGHT = 720, 232
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 26, 38
COLOURS: Final = 6
_DIVISIONS: Final = 5
_TICKS_MAX: Final = 6
_STEPS_MS: Final = (
    *(100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000),
    *(3_600_000, 2 * 3_600_000, 6 * 3_600_000, 12 * 3_600_000, 86_400_000),
)
_SHADES: Final = (0.25, 0.5, 1.0)
_ROW: Final = 26
_LABEL: Final = 230
_BLOCKS: Final = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Bar:
    """``values`` from the smallest to the largest: each is drawn from 0, the smaller ones over the larger."""

    name: str
    values: Sequence[float]
    shown: str


def lines_chart(lines: Sequence[Line], unit: str) -> str:
    """Lines over the same time, with the area below; empty without points."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    begin = min(line.points[0].time_ms for line in drawn)
    end = max(max(line.points[-1].time_ms for line in drawn), begin + 1)
    top = nice_top(max(point.value for line in drawn for point in line.points))
    parts = [_grid(top, begin, end), f'<text x="{_LEFT - 6}" y="14" class="u">{escape(unit)}</text>']
    for number, line in enumerate(drawn):
        places = [(_x(point.time_ms, begin, end), _y(point.value, top)) for point in line.points]
        if len(places) == 1:  # a line of one point would not be seen
            places = [(_LEFT, places[0][1]), (WIDTH - _RIGHT, places[0][1])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour = f"var(--c{number % COLOURS})"
        floor = f"{places[-1][0]:.1f},{_y(0, top):.1f} {places[0][0]:.1f},{_y(0, top):.1f}"
        parts.append(f'<polygon points="{path} {floor}" fill="{colour}" opacity="0.1"/>')
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
    title = escape(f"{unit}: {', '.join(line.name for line in drawn)}")
    return _svg(WIDTH, HEIGHT, title, parts) + legend([line.name for line in drawn])


def largest(lines: Sequence[Line]) -> list[Line]:
    """As many as there are colours, by their highest points, in the order they have."""
    if len(lines) <= COLOURS:
        return list(lines)
    heights = [max((point.value for point in line.points), default=0) for line in lines]
    chosen = sorted(range(len(lines)), key=lambda number: -heights[number])[:COLOURS]
    return [lines[number] for number in sorted(chosen)]


def bars_chart(bars: Sequence[Bar], title: str) -> str:
    """One row for each bar; empty without any."""
    if not bars:
        return ""
    top = max(max(bar.values, default=0) for bar in bars) or 1
    room = WIDTH - _LABEL - 190
    parts = []
    for number, bar in enumerate(bars):
        y = number * _ROW + 4
        label = f"{escape(_cut(bar.name))}<title>{escape(bar.name)}</title>"  # whole, for a mouse that rests on it
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 13}" text-anchor="end">{label}</text>')
        shades = _SHADES[-len(bar.values) :] if len(bar.values) <= len(_SHADES) else [1.0] * len(bar.values)
        for value, shade in zip(reversed(bar.values), shades, strict=True):
            width = max(1.0, room * value / top) if value else 0
            place = f'x="{_LABEL}" y="{y}" width="{width:.1f}" height="18"'
            parts.append(f'<rect {place} rx="2" fill="var(--c0)" opacity="{shade}"/>')
        end = _LABEL + room * max(bar.values, default=0) / top
        parts.append(f'<text x="{end + 6:.1f}" y="{y + 13}" class="v">{escape(bar.shown)}</text>')
    return _svg(WIDTH, len(bars) * _ROW + 8, escape(title), parts)


def shades_legend(names: Sequence[str]) -> str:
    """For bars with several values, the smallest first."""
    shades = reversed(_SHADES[-len(names) :])
    items = (_item(f"background:var(--c0);opacity:{shade}", name) for shade, name in zip(shades, names, strict=True))
    return f'<ul class="legend">{"".join(items)}</ul>'


def legend(names: Sequence[str]) -> str:
    items = (_item(f"background:var(--c{number % COLOURS})", name) for number, name in enumerate(names))
    return f'<ul class="legend">{"".join(items)}</ul>'


def _item(style: str, name: str) -> str:
    return f'<li><span style="{style}"></span>{escape(name)}</li>'


def nice_top(value: float) -> float:
    """The next of 1, 2, 2.5, 5, 10, … at or above a value; at least 1."""
    if value <= 1:
        return 1.0
    scale = math.pow(10, math.floor(math.log10(value)))
    return next(step * scale for step in (1, 2, 2.5, 5, 10) if step * scale >= value * (1 - 1e-9))


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """Values as a line of blocks, from 0 to the highest, for a terminal; neighbours share a block if there are many."""
    if not values:
        return ""
    size = -(-len(values) // width)
    drawn = [max(values[at : at + size]) for at in range(0, len(values), size)]
    top = max(drawn) or 1
    return "".join(_BLOCKS[math.ceil(value / top * (len(_BLOCKS) - 1))] for value in drawn)


def short_number(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def time_ticks(begin: int, end: int) -> list[int]:
    """Round times of [begin, end], few enough to be read."""
    longest = _STEPS_MS[-1] * max(1, -(-(end - begin) // (_STEPS_MS[-1] * _TICKS_MAX)))
    step = next((step for step in _STEPS_MS if (end - begin) / step <= _TICKS_MAX), longest)
    return list(range(-(-begin // step) * step, end + 1, step)) or [begin]


def _grid(top: float, begin: int, end: int) -> str:
    parts = []
    for number in range(_DIVISIONS + 1):
        value = top * number / _DIVISIONS
        y = _y(value, top)
        parts.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="g"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short_number(value)}</text>')
    ticks = time_ticks(begin, end)
    step = ticks[1] - ticks[0] if ticks[1:] else end - begin
    for at in ticks:
        x, floor = _x(at, begin, end), HEIGHT - _BOTTOM
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{floor}" y2="{floor + 4}" class="g"/>')
        parts.append(f'<text x="{x:.1f}" y="{floor + 16}" text-anchor="middle">{_time_label(at, step)}</text>')
    parts.append(f'<text x="{WIDTH - _RIGHT}" y="{HEIGHT - 6}" text-anchor="end" class="u">time, UTC</text>')
    return "".join(parts)


def _time_label(time_ms: int, step_ms: int) -> str:
    """As much of a time as tells two ticks apart."""
    when = datetime.fromtimestamp(time_ms / 1000, UTC)
    if step_ms >= 86_400_000:
        return f"{when:%d %b}"
    if step_ms >= 60_000:
        return f"{when:%H:%M}"
    return f"{when:%H:%M:%S}" if step_ms >= 1_000 else f"{when:%M:%S}.{time_ms % 1000 // 100}"


def _x(time_ms: int, begin: int, end: int) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * (time_ms - begin) / (end - begin)


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / top


def _cut(text: str, size: int = 34) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
    return f"{head}<title>{title}</title>{''.join(parts)}</svg>"
