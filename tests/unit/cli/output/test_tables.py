"""Output of commands in its forms."""

from __future__ import annotations

import io
import json
import re

import pytest

from pyromq.cli.output.tables import Column, Form, write_fields, write_rows

ROWS = [{"name": "a", "time_ms": 5, "note": None}, {"name": "b\x1b[2J", "time_ms": 0, "note": None}]
COLUMNS = (
    Column("name", "name"),
    Column("time_ms", "time", right=True, show=lambda value: f"<{value}>"),
    Column("note", "note", optional=True),
    Column("only_csv", "x", only=Form.CSV),
)


def written(form: Form) -> str:
    out = io.StringIO()
    write_rows(out, form, COLUMNS, ROWS)
    return out.getvalue()


def test_a_table_shows_values_for_people_and_leaves_out_what_no_row_has() -> None:
    assert written(Form.TABLE).splitlines() == ["name      time", "a          <5>", "b\\x1b[2J   <0>"]


def test_programs_get_the_values_themselves() -> None:
    assert [json.loads(line) for line in written(Form.JSONL).splitlines()] == ROWS
    assert json.loads(written(Form.JSON)) == ROWS
    assert written(Form.CSV).splitlines()[:2] == ["name,time_ms,note,only_csv", "a,5,,"]


def test_one_thing_is_a_list_of_its_values() -> None:
    out = io.StringIO()
    write_fields(out, Form.TABLE, COLUMNS, ROWS[0])
    assert out.getvalue().splitlines() == ["name  a", "time  <5>"]
    for form in (Form.JSON, Form.JSONL):
        out = io.StringIO()
        write_fields(out, form, COLUMNS, ROWS[0])
        assert json.loads(out.getvalue()) == ROWS[0]
    out = io.StringIO()
    write_fields(out, Form.CSV, COLUMNS, ROWS[0])
    assert out.getvalue() == "name,time_ms,note,only_csv\na,5,,\n"


def test_control_characters_do_not_reach_the_terminal() -> None:
    out = io.StringIO()
    write_rows(out, Form.TABLE, [Column("a", "a")], [{"a": "x\x1b[31my"}])
    assert "\x1b" not in out.getvalue() and "x\\x1b[31my" in out.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


TIMES = (
    Column("topic", "topic"),
    Column("stored_ms", "stored", show=lambda _: "absolute", roomy=lambda _: "absolute and relative", whole=True),
    Column("lag", "lag", right=True),
)
LONG = [{"topic": "orders-" + "x" * 90, "stored_ms": 1, "lag": 12}, {"topic": "a", "stored_ms": 2, "lag": None}]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            80,
            [
                "topic" + " " * 62 + "stored    lag",
                "orders-" + "x" * 58 + "  absolute   12",
                "x" * 32,
                "a" + " " * 66 + "absolute",
            ],
        ),
        (
            120,
            [
                "topic" + " " * 89 + "stored                 lag",
                "orders-" + "x" * 85 + "  absolute and relative   12",
                "xxxxx",
                "a" + " " * 93 + "absolute and relative",
            ],
        ),
    ],
)
def test_tables_fit_the_terminal_and_names_are_folded_not_cut(
    width: int, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")  # a dumb one has 80 columns, whatever else is said
    out = Terminal()
    write_rows(out, Form.TABLE, TIMES, LONG)
    found = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()]
    assert found == lines
    assert all(len(line) <= width for line in found)
