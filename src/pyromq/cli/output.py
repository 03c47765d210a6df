"""How commands answer: a table for people, JSON and CSV for programs, from the same rows.

``table`` is the default on a terminal, ``jsonl`` (one object a line) in a pipe. Values keep their types in JSON; in
tables and CSV a missing value is empty. Text from files and networks cannot move the cursor: tables show control
characters escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple, TextIO

import typer

Row = Mapping[str, object]

_PLAIN_WIDTH = 10_000  # without a terminal nobody needs lines to be broken


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class Column(NamedTuple):
    """One column: the key of its value in a row, what a table writes above it, and how it shows special values."""

    key: str
    title: str
    right: bool = False
    styles: Mapping[str, str] = {}  # rich styles by shown text


FormOption = Annotated[
    Form | None, typer.Option("--output", "-o", help="Form of the answer; table on a terminal, else jsonl.")
]


def form_for(asked: Form | None, out: TextIO) -> Form:
    if asked is not None:
        return asked
    return Form.TABLE if out.isatty() else Form.JSONL


def write_rows(out: TextIO, form: Form, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Write rows in the form; JSON gets every value of a row, tables and CSV the columns."""
    match form:
        case Form.TABLE:
            _write_table(out, columns, rows)
        case Form.CSV:
            _write_csv(out, columns, rows)
        case Form.JSONL:
            for row in rows:
                write_json(out, row)
        case Form.JSON:
            write_json(out, list(rows), indent=2)


def write_json(out: TextIO, value: object, *, indent: int = 0) -> None:
    """One JSON value and a line end."""
    import msgspec

    text = msgspec.json.encode(value)
    out.write((msgspec.json.format(text, indent=indent) if indent else text).decode() + "\n")


def shown(value: object) -> str:
    """A value as text that a terminal only prints."""
    text = "" if value is None else str(value)
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _write_csv(out: TextIO, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    import csv

    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.key for column in columns])
    writer.writerows([["" if row.get(c.key) is None else row[c.key] for c in columns] for row in rows])


def _write_table(out: TextIO, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        cells = [(shown(row.get(column.key)), column.styles) for column in columns]
        table.add_row(*(Text(text, styles.get(text, "")) for text, styles in cells))
    if out.isatty():
        Console(file=out, highlight=False).print(table)
        return
    buffer = StringIO()
    Console(file=buffer, width=_PLAIN_WIDTH, color_system=None).print(table)
    out.writelines(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())
