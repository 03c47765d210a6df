"""Output of commands in its forms."""

from __future__ import annotations

import io
import json

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
