"""One frame of ``pyromq top``: brokers in a line, groups, topics, and what keys do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

from pyromq.cli.nouns.listing import show_broadcasting, show_count, show_paused, show_rate
from pyromq.cli.output.tables import Column, Form, shown, table_of, write_rows
from pyromq.cli.top.state import HELP, TopState
from pyromq.wording import counted, shown_time

if TYPE_CHECKING:
    from rich.console import Group

    from pyromq.operate.lists import GroupPage, TopicPage

_BARS: Final = " ▁▂▃▄▅▆▇█"
_SAMPLES_MAX: Final = 16
_LINES_BESIDE_ROWS: Final = 8  # the line of brokers, two headings with their titles, blanks, keys
_ROWS_LEAST: Final = 3

GROUP_COLUMNS = (
    Column("group", "group"),
    Column("is_paused", "state", styles={"paused": "bold red"}, optional=True, show=show_paused),
    Column("is_broadcasting", "model", optional=True, show=show_broadcasting),
    Column("members", "members", right=True, styles={"0": "yellow"}),
    Column("get_rate", "out/s", right=True, show=show_rate),
    Column("lag", "lag", right=True),
    Column("trend", "trend", whole=True, optional=True),
    Column("dead_letters", "dead", right=True),
)
TOPIC_COLUMNS = (
    Column("topic", "topic"),
    Column("queues", "queues", right=True),
    Column("put_rate", "in/s", right=True, show=show_rate),
    Column("get_rate", "out/s", right=True, show=show_rate),
    Column("groups", "groups", right=True, show=show_count),
    Column("lag", "lag", right=True),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What the cluster said at one moment."""

    at_ms: int
    brokers: int
    in_per_s: float
    out_per_s: float
    topics: TopicPage
    groups: GroupPage


class LagHistory:
    """The lag of each group in the last samples; groups that are gone are forgotten."""

    def __init__(self) -> None:
        self._lags: dict[str, list[int]] = {}

    def add(self, groups: GroupPage) -> None:
        self._lags = {
            row.group: [*self._lags.get(row.group, []), row.lag][-_SAMPLES_MAX:]
            for row in groups.rows
            if row.lag is not None
        }

    def trend(self, group: str) -> str:
        """A line of bars: the highest is the largest lag of these samples; empty for one sample, or none but zeros."""
        lags = self._lags.get(group, [])
        largest = max(lags, default=0)
        if len(lags) < 2 or not largest:
            return ""
        return "".join(_BARS[-(-each * (len(_BARS) - 1) // largest)] for each in lags)


def rows_that_fit(height: int) -> int:
    """Rows of each of the two tables on a terminal of that many lines."""
    return max(_ROWS_LEAST, (height - _LINES_BESIDE_ROWS) // 2)


def group_rows(sample: Sample, history: LagHistory | None = None) -> list[dict[str, Any]]:
    trend = history.trend if history else lambda group: ""
    import msgspec

    return [{**msgspec.structs.asdict(row), "trend": trend(row.group)} for row in sample.groups.rows]


def topic_rows(sample: Sample) -> list[dict[str, Any]]:
    import msgspec

    return [msgspec.structs.asdict(row) for row in sample.topics.rows]


def headline(sample: Sample) -> str:
    rates = f"{show_rate(sample.in_per_s)} in/s, {show_rate(sample.out_per_s)} out/s"
    return f"{shown_time(sample.at_ms)}  {counted(sample.brokers, 'broker')}, {rates}"


def footline(state: TopState, problem: str) -> str:
    if state.is_typing:
        return f"filter: {state.pattern}▏  Enter keeps it, Esc clears it"
    marks = [f"sorted by {state.sort}"]
    marks += [f"filter {state.pattern}"] if state.pattern else []
    marks += ["paused"] if state.is_paused else []
    marks += [shown(problem)] if problem else []
    return f"{HELP}   ({', '.join(marks)})"


def frame(sample: Sample, state: TopState, history: LagHistory, *, width: int, problem: str = "") -> Group:
    """Draw what the terminal shows."""
    from rich.console import Group
    from rich.text import Text

    return Group(
        Text(headline(sample), "bold", no_wrap=True, overflow="ellipsis"),
        Text(),
        Text(_title("groups", len(sample.groups.rows), sample.groups.found), "dim"),
        table_of(GROUP_COLUMNS, group_rows(sample, history), width=width),
        Text(),
        Text(_title("topics", len(sample.topics.rows), sample.topics.found), "dim"),
        table_of(TOPIC_COLUMNS, topic_rows(sample), width=width),
        Text(footline(state, problem or _first_problem(sample)), "dim", no_wrap=True, overflow="ellipsis"),
    )


def write_once(out: TextIO, sample: Sample) -> None:
    """Write one sample as plain text."""
    out.write(f"{headline(sample)}\n\n")
    if sample.groups.rows:
        write_rows(out, Form.TABLE, GROUP_COLUMNS, group_rows(sample))
        out.write("\n")
    if sample.topics.rows:
        write_rows(out, Form.TABLE, TOPIC_COLUMNS, topic_rows(sample))


def _title(what: str, count: int, found: int) -> str:
    return f"{what}: {count} of {found}" if count < found else f"{what}: {found}"


def _first_problem(sample: Sample) -> str:
    return next(iter((*sample.groups.problems, *sample.topics.problems)), "")
