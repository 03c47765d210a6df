"""Frames of ``pyromq top``, with and without a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pyromq.cli.top.state import TopState
from pyromq.cli.top.view import LagHistory, Sample, frame, rows_that_fit, write_once
from pyromq.operate.lists import GroupPage, GroupRow, TopicGroupLag, TopicPage, TopicRow

BILLING = TopicGroupLag(group="billing", lag=1200)
GROUPS = GroupPage(
    rows=(
        GroupRow(group="billing", members=2, get_rate=12.5, lag=1200, dead_letters=3),
        GroupRow(group="mail\x1b[2J", members=0, is_broadcasting=True, get_rate=0.0, dead_letters=0),
        GroupRow(group="stopped", members=0, is_paused=True, get_rate=0.0, lag=0, dead_letters=0),
    ),
    found=40,
)
TOPICS = TopicPage(
    rows=(
        TopicRow(
            topic="orders",
            queues=8,
            put_rate=1234.5,
            get_rate=12.5,
            groups=(BILLING,),
            lag=1200,
        ),
    ),
    found=1,
    problems=("broker broker-b is missing: away",),
)
SAMPLE = Sample(1_700_000_000_000, 2, 1234.5, 12.5, TOPICS, GROUPS)


def drawn(width: int, state: TopState | None = None, problem: str = "", history: LagHistory | None = None) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    console.print(frame(SAMPLE, state or TopState(), history or LagHistory(), width=width, problem=problem))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


@pytest.mark.parametrize("width", [80, 120])
def test_a_frame_has_brokers_groups_topics_and_keys(width: int) -> None:
    lines = drawn(width).splitlines()
    assert lines[0] == "2023-11-14 22:13:20Z  2 brokers, 1,234 in/s, 12.5 out/s"
    assert lines[2:7] == [
        "groups: 3 of 40",
        "group        state   model         members  out/s   lag  dead",
        "billing                                  2   12.5  1200     3",
        "mail\\x1b[2J          broadcasting        0      0           0",
        "stopped      paused                      0      0     0     0",
    ]
    assert lines[8:11] == [
        "topics: 1",
        "topic   queues   in/s  out/s  groups   lag",
        "orders       8  1,234   12.5       1  1200",
    ]
    assert lines[11].startswith("q quit   s sort   / filter   p pause   a all   r refresh")
    assert all(len(line) <= width for line in lines)


def test_the_last_line_says_what_is_going_on() -> None:
    assert "sorted by lag, broker broker-b is missing: away" in drawn(140)
    assert "sorted by rate, filter or, paused, gone" in drawn(140, TopState("rate", "or", is_paused=True), "gone")
    assert drawn(80, TopState(pattern="or", is_typing=True)).splitlines()[-1].startswith("filter: or▏")


def test_a_trend_shows_how_the_lag_went() -> None:
    history = LagHistory()
    for lag in (0, 10, 50, 100):
        history.add(GroupPage(rows=(GroupRow(group="billing", lag=lag),), found=1))
    assert history.trend("billing") == " ▁▄█"
    history.add(GroupPage(rows=(), found=0))
    assert history.trend("billing") == "", "a group that is gone is forgotten"
    for _ in range(50):
        history.add(GroupPage(rows=(GroupRow(group="a", lag=0), GroupRow(group="b", lag=7)), found=2))
    assert (history.trend("a"), history.trend("b")) == ("", "█" * 16)


@pytest.mark.parametrize(("height", "rows"), [(24, 8), (50, 21), (3, 3), (0, 3)])
def test_rows_fit_the_terminal(height: int, rows: int) -> None:
    assert rows_that_fit(height) == rows
    if height > 14:
        assert 2 * rows + 8 <= height


def test_one_frame_as_plain_text() -> None:
    out = io.StringIO()
    write_once(out, SAMPLE)
    assert "\x1b" not in out.getvalue()
    assert out.getvalue().splitlines()[2:4] == [
        "group        state   model         members  out/s   lag  dead",
        "billing                                  2   12.5  1200     3",
    ]
    out = io.StringIO()
    write_once(out, Sample(0, 1, 0.0, 0.0, TopicPage(rows=(), found=0), GroupPage(rows=(), found=0)))
    assert len(out.getvalue().splitlines()) == 2
