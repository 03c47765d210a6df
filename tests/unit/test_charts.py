"""Charts: well formed, with axes that end at round numbers."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import msgspec
import pytest

from pyromq.charts import (
    PALETTE_DARK,
    PALETTE_LIGHT,
    Axes,
    Bar,
    Series,
    bar_chart,
    column_chart,
    largest,
    line_chart,
    round_ticks,
    short_number,
    sparkline,
    tick_label,
    time_ticks,
)
from pyromq.console.web.rendering import STATIC
from pyromq.pipeline.jobs.reporting.page import page
from tests.unit.pipeline.jobs.reporting.reports import a_report


def test_charts_are_xml_and_stay_within_their_box() -> None:
    lines = line_chart([Series("a & b", [(0, 0), (5_000, 10)]), Series("none", [])], "x")
    svg = ElementTree.fromstring(lines.partition("<ul")[0])
    (line,) = svg.findall("svg/polyline")
    places = [tuple(map(float, place.split(","))) for place in line.attrib["points"].split()]
    assert places == [(0.0, 156.0), (1000.0, 26.0)]
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
    assert 'points="0.0,26.0 2.0,26.0"' in line_chart([Series("a", [(0, 1)])], "x")


@pytest.mark.parametrize(
    ("value", "ticks"),
    [
        (0, [0, 0.5]),
        (0.05, [0, 0.02, 0.04, 0.06]),
        (1, [0, 0.5, 1]),
        (3, [0, 1, 2, 3]),
        (21, [0, 10, 20, 30]),
        (100, [0, 50, 100]),
        (101, [0, 50, 100, 150]),
        (80_000, [0, 20_000, 40_000, 60_000, 80_000]),
    ],
)
def test_axes_have_round_numbers_alone(value: float, ticks: list[float]) -> None:
    assert round_ticks(value) == ticks


def test_bytes_are_round_in_powers_of_1024() -> None:
    ticks = round_ticks(7.5 * 2**30, "bytes")
    assert [tick_label(tick, "bytes") for tick in ticks] == ["0 B", "2 GiB", "4 GiB", "6 GiB", "8 GiB"]


def test_a_gap_is_drawn_as_a_gap_and_the_asked_time_is_shown_whole() -> None:
    points = [(60_000, 1.0), (70_000, 2.0), (75_000, None), (90_000, 3.0), (95_000, 3.0)]
    chart = line_chart([Series("a", points)], "x", Axes(begin_ms=65_000, end_ms=165_000))
    svg = ElementTree.fromstring(chart)
    places = [line.attrib["points"] for line in svg.findall("svg/polyline")]
    assert [place.split(",")[0] for place in places] == ["48.0", "250.0"], "one point before the gap, two after it"
    data = msgspec.json.decode(svg.attrib["data-chart"])
    assert (data["begin"], data["end"]) == (65_000, 165_000)
    assert data["series"] == [{"name": "a", "points": [[5_000, 2.0], [10_000, None], [25_000, 3.0], [30_000, 3.0]]}]


def test_a_chart_says_in_words_what_it_shows() -> None:
    chart = line_chart([Series("in", [(0, 40.0), (1, 12.0)])], "Messages a second")
    assert 'aria-label="Messages a second: in 12 at last, 40 at most"' in chart


def test_a_column_can_be_a_link() -> None:
    svg = ElementTree.fromstring(column_chart([Bar("09:00", (3,), href="/delays?hour=9&x=1"), Bar("10:00", (0,))], "x"))
    (link,) = svg.findall("a")
    assert (link.attrib["href"], link.attrib["aria-label"]) == ("/delays?hour=9&x=1", "09:00: 3")
    assert svg.attrib["role"] == "group", "links in a picture could not be reached"


# What people see who lack one kind of cones, in linear light (Viénot, Brettel and Mollon, 1999).
_LACKING = {
    "nothing": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "red": ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0)),
    "green": ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0)),
}


def _seen(colour: str, matrix: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    """Lightness and opponent colours (CIELAB) of a colour."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    light = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    red, green, blue = (min(1.0, max(0.0, sum(a * b for a, b in zip(row, light, strict=True)))) for row in matrix)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    f = [value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


@pytest.mark.parametrize("lacking", _LACKING)
@pytest.mark.parametrize("palette", [PALETTE_LIGHT, PALETTE_DARK])
def test_lines_are_told_apart_by_people_who_see_fewer_colours(palette: tuple[str, ...], lacking: str) -> None:
    seen = [_seen(colour, _LACKING[lacking]) for colour in palette]
    near = {
        (palette[one], palette[other]): round(math.dist(seen[one], seen[other]))
        for one in range(len(seen))
        for other in range(one)
        if math.dist(seen[one], seen[other]) < 12
    }
    assert near == {}


def test_the_console_has_the_palette_of_charts() -> None:
    style = (STATIC / "app.css").read_text()
    for palette, times in ((PALETTE_LIGHT, 1), (PALETTE_DARK, 2)):
        for number, colour in enumerate(palette):
            assert style.count(f"--c{number}: {colour};") == times, f"c{number} {colour}"


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
    chart = line_chart([Series("a", [(0, 1), (900, 2)])], "x", Axes(unit="messages a second"))
    labels = [text.text for text in ElementTree.fromstring(chart.partition("<ul")[0]).findall("text")]
    assert {"00:00.2", "00:00.8", "messages a second, "} <= set(labels)


def test_a_terminal_gets_a_line_of_blocks() -> None:
    assert sparkline([0, 1, 7, 14]) == "▁▂▅█" and sparkline([]) == "" and sparkline([0, 0]) == "▁▁"
    assert len(sparkline(range(1_000), width=40)) == 40


def test_numbers_are_short() -> None:
    assert [short_number(value) for value in (0, 2.5, 999, 1_500, 2_000_000)] == ["0", "2.5", "999", "1.5k", "2M"]


def test_a_value_that_is_hardly_more_than_nothing_has_an_axis() -> None:
    assert round_ticks(5e-324)[0] == 0 < round_ticks(5e-324)[-1]
