"""Tables, charts, streams, caches, formatting, command lines: pieces that pages are made of."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.charts import Bar, Series, bar_chart, column_chart, line_chart, spark
from pyromq.console.caches import Cache
from pyromq.console.settings import ConsoleSettings
from pyromq.console.web.commands import command_line
from pyromq.console.web.formatting import link, number, percent, rate, size, span, time
from pyromq.console.web.pages import Nav
from pyromq.console.web.problems import TooManyError
from pyromq.console.web.streams import Event, Events, stream_response
from pyromq.console.web.tables import TableQuery
from pyromq.testing import ManualClock
from tests.unit.console.rig import XSS

# --- tables ---


@given(
    query=st.dictionaries(st.sampled_from(["page", "size", "sort", "order", "q", "kind"]), st.text()),
    rows=st.integers(0, 400),
)
def test_any_query_string_gives_a_page_that_exists(query: dict[str, str], rows: int) -> None:
    asked = TableQuery.of(query, sorts=("name", "lag"), kept=("kind",))
    page = asked.cut(range(rows))
    assert 1 <= page.query.page <= page.pages
    assert len(page.rows) <= asked.size
    assert page.rows == list(range(rows))[max(0, page.first - 1) : page.last]


def test_links_of_a_table_change_one_thing_and_keep_the_rest() -> None:
    query = TableQuery.of({"q": "a&b", "page": "3", "kind": "all"}, sorts=("name", "lag"), kept=("kind",))
    assert query.href(page=4) == "?kind=all&q=a%26b&sort=name&page=4"
    assert query.sort_href("lag") == "?kind=all&q=a%26b&sort=lag", "another order begins at page 1"
    assert query.sort_href("name").endswith("sort=name&order=desc")
    assert query.keeping("kind", "retry") == "?kind=retry&q=a%26b&sort=name"


def test_search_does_not_mind_the_case() -> None:
    assert TableQuery(search="ORD").found(["orders", "Border", "x"]) == ["orders", "Border"]


# --- words ---


def test_numbers_are_read_easily() -> None:
    assert [number(each) for each in (0, 7, 1234, 1234567.0, 12.34, 99.96, None)] == [
        "0", "7", "1\u2009234", "1\u2009234\u2009567", "12.3", "100.0", "–",
    ]  # fmt: skip
    assert [size(each) for each in (0, 1023, 1536, 5 << 30, 1 << 60, None)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 GiB", "1024 PiB", "–",
    ]  # fmt: skip
    assert (rate(None), percent(None), time(None), time(0), span(None)) == ("–",) * 5
    assert (rate(2.5), percent(33.3), span(61_000)) == ("2.5/s", "33 %", "1 min 1 s")


def test_links_quote_what_names_hold() -> None:
    assert link("topics", "%RETRY%a|b") == "/topics/%25RETRY%25a%7Cb"
    assert link("a", "../../b", q="x y", empty="", none=None) == "/a/..%2F..%2Fb?q=x+y"


def test_commands_can_be_pasted_into_a_shell() -> None:
    assert command_line("topic", "ls") == "pyromq topic ls"
    assert command_line("topic", "ls", nameservers="127.0.0.1:9876") == "pyromq topic ls"
    line = command_line("send", "a", "it's; rm -rf /", nameservers="h:1;i:2")
    assert line == """pyromq send a 'it'"'"'s; rm -rf /' -n 'h:1;i:2'"""


def test_the_navigation_has_the_sections_it_has() -> None:
    with pytest.raises(ValueError, match="no section 'Elsewhere'"):
        Nav("Elsewhere", order=1)


# --- charts ---


def test_charts_are_empty_without_data_and_escape_names() -> None:
    assert (
        line_chart([], "x") == line_chart([Series("a", [])], "x") == bar_chart([], "x") == column_chart([], "x") == ""
    )
    assert spark([1], "x") == ""
    for chart in (
        line_chart([Series(XSS, [(0, 1.0), (1, 2.0)]), Series("b", [(0, 1.0)])], XSS),
        bar_chart([Bar(XSS, [1], XSS)], XSS),
        column_chart([Bar(XSS, [1], XSS)], XSS),
        spark([1, 2], XSS),
    ):
        assert "<script" not in chart and "<img" not in chart
        assert "style=" not in chart


@given(st.lists(st.tuples(st.integers(0, 10**13), st.none() | st.floats(0, 1e12)), max_size=50))
def test_any_values_make_a_chart_whose_numbers_are_numbers(points: list[tuple[int, float | None]]) -> None:
    drawn = line_chart([Series("a", sorted(points, key=lambda each: each[0]))], "a")
    for place in re.findall(r'points="([^"]*)"', drawn):
        assert all(-1 <= float(each) <= 1_000 for each in re.split(r"[ ,]", place))


# --- caches ---


async def test_many_who_ask_at_once_ask_once_and_age_counts() -> None:
    clock, loads = ManualClock(), 0

    async def load() -> int:
        nonlocal loads
        loads += 1
        await asyncio.sleep(0)
        return loads

    cache = Cache(clock)
    assert await asyncio.gather(*(cache.get("a", 100, load) for _ in range(5))) == [1] * 5
    clock.advance_ms(99)
    assert await cache.get("a", 100, load) == 1
    clock.advance_ms(1)
    assert await cache.get("a", 100, load) == 2
    cache.forget("a")
    assert await cache.get("a", 100, load) == 3


async def test_a_failure_is_raised_to_all_who_wait_and_not_kept() -> None:
    outcomes: list[Any] = [ValueError("once"), 7]

    async def load() -> int:
        await asyncio.sleep(0)
        found = outcomes.pop(0)
        if isinstance(found, Exception):
            raise found
        return int(found)

    cache = Cache(ManualClock())
    found = await asyncio.gather(*(cache.get("a", 100, load) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(each, ValueError) for each in found)
    assert await cache.get("a", 100, load) == 7


async def test_one_who_gives_up_waiting_does_not_stop_the_load() -> None:
    gate = asyncio.Event()

    async def load() -> int:
        await gate.wait()
        return 7

    cache = Cache(ManualClock())
    assert await cache.get_soon("a", 100, load, wait_s=0) is None
    gate.set()
    assert await cache.get("a", 100, load) == 7
    cache.forget_all()
    await cache.close()


async def test_a_change_while_loading_is_not_hidden_by_the_old_value() -> None:
    gate, values = asyncio.Event(), [1, 2]

    async def load() -> int:
        value = values.pop(0)
        if value == 1:
            await gate.wait()
        return value

    cache = Cache(ManualClock())
    early = asyncio.ensure_future(cache.get("a", 1_000, load))
    await asyncio.sleep(0)
    cache.forget("a")
    assert await cache.get("a", 1_000, load) == 2
    gate.set()
    assert await early == 1
    assert await cache.get("a", 1_000, load) == 2, "the older load came later, and does not count"


# --- streams ---


def test_events_cannot_be_forged_by_their_data() -> None:
    assert Event("a", "x\r\nevent: b\rdata: y\n\nz", id="7").encoded() == (
        b"event: a\nid: 7\ndata: x\ndata: event: b\ndata: data: y\ndata: \ndata: z\n\n"
    )


def desk_of(streams_max: int = 2) -> Any:
    return SimpleNamespace(settings=ConsoleSettings(streams_max=streams_max), streams_open=0, closing=asyncio.Event())


async def test_a_stream_ends_with_its_source_and_counts_itself_out() -> None:
    async def source() -> AsyncIterator[Event]:
        yield Event("a", "1")
        yield Event("a", "2")

    desk = desk_of()
    response = stream_response(Events(source()), desk, lambda: True)
    sent = [part async for part in response.body_iterator]
    assert sent[1:] == [b"event: a\ndata: 1\n\n", b"event: a\ndata: 2\n\n"]
    assert desk.streams_open == 0


async def test_a_stream_ends_when_its_session_does_and_closes_its_source() -> None:
    closed = []

    async def source() -> AsyncIterator[Event]:
        try:
            while True:
                yield Event("a", "1")
        finally:
            closed.append(True)

    welcome = iter([True, True, False])
    desk = desk_of()
    response = stream_response(Events(source()), desk, lambda: next(welcome))
    assert len([part async for part in response.body_iterator]) == 3
    assert closed == [True]
    assert desk.streams_open == 0


async def test_a_stream_in_which_nothing_happens_ends_with_the_console() -> None:
    async def source() -> AsyncIterator[Event]:
        await asyncio.Event().wait()
        yield Event("never", "")

    desk = desk_of()
    parts = stream_response(Events(source()), desk, lambda: True).body_iterator
    await anext(aiter(parts))
    desk.closing.set()
    assert [part async for part in parts] in ([], [b": beat\n\n"])
    assert desk.streams_open == 0


async def test_too_many_streams_are_refused() -> None:
    async def source() -> AsyncIterator[Event]:
        yield Event("a", "1")

    with pytest.raises(TooManyError, match="0 streams are open"):
        stream_response(Events(source()), desk_of(streams_max=0), lambda: True)
