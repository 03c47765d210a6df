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

from pyromq.pipeline.jobs.report_numbers import Point

WIDTH, HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 28
_COLOURS: Final = 6
_ROW: Final = 26
_LABEL: Final = 230


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
    """Lines over the same time; empty without points."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    begin = min(line.points[0].time_ms for line in drawn)
    end = max(max(line.points[-1].time_ms for line in drawn), begin + 1)
    top = nice_top(max(point.value for line in drawn for point in line.points))
    parts = [_grid(top, begin, end)]
    for number, line in enumerate(drawn):
        places = [(_x(point.time_ms, begin, end), _y(point.value, top)) for point in line.points]
        if len(places) == 1:  # a line of one point would not be seen
            places = [(_LEFT, places[0][1]), (WIDTH - _RIGHT, places[0][1])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour = f"var(--c{number % _COLOURS})"
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
    title = escape(f"{unit}: {', '.join(line.name for line in drawn)}")
    return _svg(WIDTH, HEIGHT, title, parts) + legend([line.name for line in drawn])


def bars_chart(bars: Sequence[Bar], title: str) -> str:
    """One row for each bar; empty without any."""
    if not bars:
        return ""
    top = max(max(bar.values, default=0) for bar in bars) or 1
    room = WIDTH - _LABEL - 190
    parts = []
    for number, bar in enumerate(bars):
        y = number * _ROW + 4
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 13}" text-anchor="end">{escape(_cut(bar.name))}</text>')
        shades = [0.25, 0.5, 1.0][-len(bar.values) :] if len(bar.values) <= 3 else [1.0] * len(bar.values)
        for value, shade in zip(reversed(bar.values), shades, strict=True):
            width = max(1.0, room * value / top) if value else 0
            place = f'x="{_LABEL}" y="{y}" width="{width:.1f}" height="18"'
            parts.append(f'<rect {place} rx="2" fill="var(--c0)" opacity="{shade}"/>')
        end = _LABEL + room * max(bar.values, default=0) / top
        parts.append(f'<text x="{end + 6:.1f}" y="{y + 13}" class="v">{escape(bar.shown)}</text>')
    return _svg(WIDTH, len(bars) * _ROW + 8, escape(title), parts)


def legend(names: Sequence[str]) -> str:
    items = (
        f'<li><span style="background:var(--c{number % _COLOURS})"></span>{escape(name)}</li>'
        for number, name in enumerate(names)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def nice_top(value: float) -> float:
    """The next of 1, 2, 2.5, 5, 10, … at or above a value; at least 1."""
    if value <= 1:
        return 1.0
    scale = math.pow(10, math.floor(math.log10(value)))
    return next(step * scale for step in (1, 2, 2.5, 5, 10) if step * scale >= value * (1 - 1e-9))


def short_number(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _grid(top: float, begin: int, end: int) -> str:
    parts = []
    for step in range(5):
        y = _y(top * step / 4, top)
        parts.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="g"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short_number(top * step / 4)}</text>')
    for step in range(5):
        at = begin + (end - begin) * step // 4
        anchor = ("start", "middle", "middle", "middle", "end")[step]
        label = _time_label(at, end - begin)
        parts.append(f'<text x="{_x(at, begin, end):.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{label}</text>')
    return "".join(parts)


def _time_label(time_ms: int, span_ms: int) -> str:
    when = datetime.fromtimestamp(time_ms / 1000, UTC)
    if span_ms > 2 * 86_400_000:
        return f"{when:%d %b}"
    return f"{when:%H:%M:%S}" if span_ms < 600_000 else f"{when:%H:%M}"


def _x(time_ms: int, begin: int, end: int) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * (time_ms - begin) / (end - begin)


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / top


def _cut(text: str, size: int = 34) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
    return f"{head}<title>{title}</title>{''.join(parts)}</svg>"
