"""Trends: charts of the history, for any page: numbers over the span that a visitor chose, gaps included."""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.charts import Axes, Series, Svg, line_chart
from pyromq.console.desk import Desk
from pyromq.console.history.spans import TimeSpan


def trend_chart(desk: Desk, span: TimeSpan, title: str, names: Mapping[str, str], unit: str = "") -> Svg:
    """Lines of numbers (label → name in the history) over a span; empty until one has two samples."""
    now_ms = desk.clock.now_ms()
    lines = [Series(label, desk.history.points(name, span)) for label, name in names.items()]
    if not any(len(line.values) > 1 for line in lines):
        return Svg()
    begin_ms = span.begin_ms(now_ms, min(line.points[0][0] for line in lines if line.points))
    return line_chart(lines, title, Axes(unit=unit, begin_ms=begin_ms, end_ms=now_ms))
