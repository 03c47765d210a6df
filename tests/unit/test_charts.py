"""Charts: well formed, with axes that end at round numbers."""

from __future__ import annotations

from xml.etree import ElementTree

import msgspec
import pytest

from pyromq.charts import Bar, Series, bar_chart, largest, line_chart, nice_top, short_number, sparkline, time_ticks
from pyromq.pipeline.jobs.reporting.page import page
from tests.unit.pipeline.jobs.reporting.reports import a_report


def test_charts_are_xml_and_stay_within_their_box() -> None:
    lines = line_chart([Series("a & b", [(0, 0), (5_000, 10)]), Series("none", [])], "x")
    svg = ElementTree.fromstring(lines.partition("<ul")[0])
    places = [tuple(map(float, place.split(","))) for place in svg.findall("polyline")[0].attrib["points"].split()]
    assert places == [(52.0, 156.0), (708.0, 12.0)]
    bars = ElementTree.fromstring(bar_chart([Bar("x", (1, 2, 4), "four"), Bar("y", (0,), "none")], "bars"))
    assert [float(rect.attrib["width"]) for rect in bars.findall("rect")] == [300.0, 150.0, 75.0, 0.0]
    assert line_chart([], "x") == bar_chart([], "x") == ""


def test_a_chart_has_no_more_lines_than_colours() -> None:
    heights = (3, 9, 1, 8, 2, 7, 6, 5, 4)
    lines = [Series(f"{height}", [(0, height), (1, 0)]) for height in heights]
    assert [line.name for line in largest(lines)] == ["9", "8", "7", "6", "5", "4"]
    assert largest(lines[:6]) == lines[:6]
    topics = tuple(msgspec.structs.replace(a_report().throughput[0], topic=f"topic-{number}") for number in range(7))
    assert "The chart has the 6 largest." in page(msgspec.structs.replace(a_report(), throughput=topics))


def test_a_single_point_is_drawn_as_a_line() -> None:
    assert "51.0,12.0 52.0,12.0" in line_chart([Series("a", [(0, 1)])], "x")


@pytest.mark.parametrize(("value", "top"), [(0, 1), (1, 1), (3, 5), (21, 25), (99, 100), (100, 100), (101, 200)])
def test_axes_end_at_round_numbers(value: float, top: float) -> None:
    assert nice_top(value) == top


@pytest.mark.parametrize(
    ("begin", "end", "ticks"),
    [
        (50, 450, [100, 200, 300, 400]),
        (0, 3_000, [0, 500, 1_000, 1_500, 2_000, 2_500, 3_000]),
        (59_000, 240_000, [60_000, 120_000, 180_000, 240_000]),
        (5, 6, [5]),
    ],
)
def test_times_of_an_axis_are_round(begin: int, end: int, ticks: list[int]) -> None:
    assert time_ticks(begin, end) == ticks


def test_an_axis_of_years_has_few_times() -> None:
    assert 1 < len(time_ticks(0, 10 * 365 * 86_400_000)) <= 7


def test_labels_of_an_axis_differ() -> None:
    chart = line_chart([Series("a", [(0, 1), (900, 2)])], "x", unit="messages a second")
    labels = [text.text for text in ElementTree.fromstring(chart.partition("<ul")[0]).findall("text")]
    assert {"00:00.2", "00:00.8", "messages a second, time in UTC"} <= set(labels)


def test_a_terminal_gets_a_line_of_blocks() -> None:
    assert sparkline([0, 1, 7, 14]) == "▁▂▅█" and sparkline([]) == "" and sparkline([0, 0]) == "▁▁"
    assert len(sparkline(range(1_000), width=40)) == 40


def test_numbers_are_short() -> None:
    assert [short_number(value) for value in (0, 2.5, 999, 1_500, 2_000_000)] == ["0", "2.5", "999", "1.5k", "2M"]
