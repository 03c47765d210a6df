"""Numbers to a page: whole, escaped, by itself."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
import pytest

from pyromq.pipeline.jobs.common.bars import numbers
from pyromq.pipeline.jobs.reporting.charts import (
    Bar,
    Line,
    bars_chart,
    largest,
    lines_chart,
    nice_top,
    short_number,
    sparkline,
    time_ticks,
)
from pyromq.pipeline.jobs.reporting.lags import lags_now
from pyromq.pipeline.jobs.reporting.numbers import (
    AttemptCount,
    DeadCause,
    Duplicate,
    HandledTwice,
    Latency,
    Point,
    Report,
    SlowKey,
    Throughput,
    bucket_width,
    filled,
    lag_of,
)
from pyromq.pipeline.jobs.reporting.page import page
from pyromq.pipeline.jobs.reporting.reading import Committed

EVIL = '<script>alert("x")</script>'


def a_report() -> Report:
    points = tuple(Point(1_000 * number, number % 3) for number in range(60))
    latency = {"topic": "orders", "group": EVIL, "count": 5, "p50_ms": 1, "p90_ms": 20, "p99_ms": 300, "max_ms": 70_000}
    return Report(
        made_ms=1_000,
        nameserver="127.0.0.1:9876",
        topics=("orders",),
        groups=("billing",),
        begin_ms=0,
        end_ms=60_000,
        bucket_ms=1_000,
        has_trace=True,
        took_s=1.5,
        throughput=(Throughput(topic="orders", messages=1_234, first_ms=0, last_ms=9, per_second=2, points=points),),
        latencies=(Latency(what="end to end", **latency),),  # type: ignore[arg-type]
        attempts=(AttemptCount(group="billing", attempt=2, count=17),),
        slow_keys=(SlowKey(group="billing", key=EVIL, count=1, avg_ms=1, max_ms=2),),
        duplicates=(Duplicate(topic="orders", key="order-1", count=3),),
        handled_twice=(HandledTwice(group="billing", topic="orders", messages=4),),
        dead=(DeadCause(group="billing", topic="orders", cause=EVIL, count=9, last_ms=1),),
        lags=(lag_of("billing", "orders", points, points),),
    )


class Tags(HTMLParser):
    """Every tag that is opened is closed, and nothing is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_well_formed_escaped_and_needs_nothing_from_elsewhere() -> None:
    html = page(a_report())
    tags = Tags()
    tags.feed(html)
    assert not tags.open and "script" not in tags.seen and "http" not in html.replace("<!doctype html>", "")
    assert "url(" not in html and "@import" not in html
    for text in ("1,234", "order-1", "end to end", "17", "1 min 10 s"):
        assert text in html
    assert EVIL not in html and "&lt;script&gt;" in html


def test_a_page_says_what_it_does_not_know() -> None:
    bare = Report(
        made_ms=0, nameserver="n", topics=("t",), groups=(), begin_ms=0, end_ms=0, bucket_ms=1, has_trace=False,
        took_s=0,
    )  # fmt: skip
    html = page(bare)
    assert "no messages" in html and "There is no trace topic" in html and "Nothing of the kind was found" in html


def test_bars_of_several_topics_can_be_told_apart() -> None:
    one = a_report()
    same = msgspec.structs.replace(one.latencies[0], topic="payments", group="billing")
    both = msgspec.structs.replace(one, latencies=(msgspec.structs.replace(same, topic="orders"), same))
    assert "end to end · billing · orders" in page(both) and "end to end · billing · payments" in page(both)
    assert "billing · orders<" not in page(msgspec.structs.replace(one, latencies=(same,), lags=()))


def test_a_page_says_how_many_keys_are_not_shown() -> None:
    assert "The most frequent of" not in page(a_report())
    assert "The most frequent of 1,234." in page(msgspec.structs.replace(a_report(), duplicate_keys=1_234))


def test_a_group_without_trace_has_its_lag_of_now() -> None:
    queues = [
        Committed(group="g", topic=topic, place=f"b:{number}", offset=5, behind=number)
        for topic in ("a", "b")
        for number in range(4)
    ]
    found = lags_now(queues)
    assert [(each.group, each.topic, each.last, each.max) for each in found] == [("g", "a", 6, 6), ("g", "b", 6, 6)]
    assert "<td>a</td>" in page(msgspec.structs.replace(a_report(), lags=found))


def test_charts_are_xml_and_stay_within_their_box() -> None:
    lines = lines_chart([Line("a & b", [Point(0, 0), Point(5_000, 10)]), Line("none", [])], "x")
    svg = ElementTree.fromstring(lines.partition("<ul")[0])
    places = [tuple(map(float, place.split(","))) for place in svg.findall("polyline")[0].attrib["points"].split()]
    assert places == [(56.0, 194.0), (704.0, 26.0)]
    bars = ElementTree.fromstring(bars_chart([Bar("x", (1, 2, 4), "four"), Bar("y", (0,), "none")], "bars"))
    assert [float(rect.attrib["width"]) for rect in bars.findall("rect")] == [300.0, 150.0, 75.0, 0.0]
    assert lines_chart([], "x") == bars_chart([], "x") == ""


def test_a_chart_has_no_more_lines_than_colours() -> None:
    heights = (3, 9, 1, 8, 2, 7, 6, 5, 4)
    lines = [Line(f"{height}", [Point(0, height), Point(1, 0)]) for height in heights]
    assert [line.name for line in largest(lines)] == ["9", "8", "7", "6", "5", "4"]
    assert largest(lines[:6]) == lines[:6]
    topics = tuple(msgspec.structs.replace(a_report().throughput[0], topic=f"topic-{number}") for number in range(7))
    assert "The chart has the 6 largest." in page(msgspec.structs.replace(a_report(), throughput=topics))


def test_a_single_point_is_drawn_as_a_line() -> None:
    assert "56.0,26.0 704.0,26.0" in lines_chart([Line("a", [Point(0, 1)])], "x")


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
    chart = lines_chart([Line("a", [Point(0, 1), Point(900, 2)])], "messages a second")
    labels = [text.text for text in ElementTree.fromstring(chart.partition("<ul")[0]).findall("text")]
    assert {"00:00.0", "00:00.2", "00:00.8", "messages a second", "time, UTC"} <= set(labels)


def test_a_terminal_gets_a_line_of_blocks() -> None:
    assert sparkline([0, 1, 7, 14]) == "▁▂▅█" and sparkline([]) == "" and sparkline([0, 0]) == "▁▁"
    assert len(sparkline(range(1_000), width=40)) == 40


def test_behind_a_bar_stands_what_is_known() -> None:
    assert numbers(0, None, None) == ""
    assert numbers(1_500, None, None) == "1,500" and numbers(2, 7, 0.4) == "2 of 7"
    assert numbers(1_500, 4_500, 100) == "1,500 of 4,500  100 a second  30 s left"


def test_numbers_are_short() -> None:
    assert [short_number(value) for value in (0, 2.5, 999, 1_500, 2_000_000)] == ["0", "2.5", "999", "1.5k", "2M"]


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("span_ms", "width"), [(0, 100), (12_001, 200), (120_000, 1_000), (120_001, 2_000), (86_400_000, 1_800_000)]
)
def test_buckets_are_few_and_round(span_ms: int, width: int) -> None:
    assert bucket_width(span_ms) == width


def test_a_very_long_span_still_has_few_buckets() -> None:
    span_ms = 10 * 365 * 86_400_000
    assert span_ms / bucket_width(span_ms) <= 120


def test_buckets_without_messages_are_there() -> None:
    assert filled({1_000: 2.0}, 500, 2_100, 1_000) == (Point(0, 0), Point(1_000, 2.0), Point(2_000, 0))


def test_lag_is_what_came_less_what_was_done_and_never_below_none() -> None:
    stored = [Point(at, value) for at, value in ((0, 5), (1, 0), (2, 3))]
    handled = [Point(at, value) for at, value in ((0, 1), (1, 6), (2, 1))]
    lag = lag_of("g", "t", stored, handled)
    assert [point.value for point in lag.points] == [4, 0, 2] and (lag.last, lag.max) == (2, 4)
