"""Output of commands: a table for people, JSON and CSV for programs, from the same rows.

``table`` is the default on a terminal, ``jsonl`` (one object a line) in a pipe. Values keep their types in JSON; in
tables and CSV a missing value is empty. Text from files and networks cannot move the cursor: tables show control
characters escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TextIO

from pyromq.cli.declared import Option

if TYPE_CHECKING:
    from rich.table import Table

Row = Mapping[str, object]

_PLAIN_WIDTH = 10_000  # without a terminal lines are not broken
_ROOMY_WIDTH = 120


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class Column(NamedTuple):
    """One column: the key of its value in a row, what a table writes above it, and how it shows values."""

    key: str
    title: str
    right: bool = False
    styles: Mapping[str, str] = {}  # rich styles by shown text
    show: Callable[[Any], str] | None = None  # of a table alone: programs get the value itself
    whole: bool = False  # a table never breaks it: a time, a number
    optional: bool = False  # a table leaves it out when no row has it
    only: Form | None = None  # the form it is for, if it is not for all
    roomy: Callable[[Any], str] | None = None  # in place of ``show`` where lines are long: a time, and how long ago


FormOption = Annotated[
    Form | None, Option("--output", "-o", help="Output format; by default table on a terminal, else jsonl.")
]


def form_for(asked: Form | None, out: TextIO) -> Form:
    if asked is not None:
        return asked
    return Form.TABLE if out.isatty() else Form.JSONL


def write_rows(out: TextIO, form: Form, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Write rows in the form; JSON gets every value of a row, tables and CSV the columns. No table without rows."""
    columns = [column for column in columns if column.only in (None, form)]
    match form:
        case Form.TABLE:
            if found := list(rows):
                _write_table(out, columns, found)
        case Form.CSV:
            _write_csv(out, columns, rows)
        case Form.JSONL:
            for row in rows:
                write_json(out, row)
        case Form.JSON:
            write_json(out, list(rows), indent=2)


def write_structs(out: TextIO, form: Form, columns: Sequence[Column], structs: Iterable[Any]) -> None:
    """Write frozen rows: JSON has their fields under their own names, as the HTTP API has them."""
    import msgspec

    write_rows(out, form, columns, (msgspec.to_builtins(each) for each in structs))


def write_json(out: TextIO, value: object, *, indent: int = 0) -> None:
    """One JSON value and a line end."""
    import msgspec

    text = msgspec.json.encode(value)
    out.write((msgspec.json.format(text, indent=indent) if indent else text).decode() + "\n")


def write_fields(out: TextIO, form: Form, columns: Sequence[Column], row: Row) -> None:
    """One row: a table has a line for each value that is not empty, JSON is an object."""
    if form is Form.TABLE:
        cells = [(each.title, _cell(row, each, is_roomy=True)) for each in columns]
        lines = [{"name": name, "value": value} for name, value in cells if value]
        _write_table(out, (Column("name", "", whole=True), Column("value", "")), lines, header=False)
    elif form is Form.CSV:
        _write_csv(out, columns, [row])
    else:
        write_json(out, row, indent=2 if form is Form.JSON else 0)


def write_text(out: TextIO, text: str) -> None:
    """A paragraph, broken at words where the terminal ends."""
    from rich.console import Console

    if out.isatty():
        Console(file=out, highlight=False, markup=False).print(shown(text))
    else:
        out.write(shown(text) + "\n")


def write_block(out: TextIO, title: str, text: str) -> None:
    """A title after an empty line, and lines as they are."""
    out.write("".join(f"{shown(line)}\n" for line in ("", title, *text.split("\n"))))


def shown(value: object) -> str:
    """A value as text that a terminal only prints."""
    text = "" if value is None else str(value)
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _write_csv(out: TextIO, columns: Sequence[Column], rows: Iterable[Row]) -> None:
    import csv

    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.key for column in columns])
    writer.writerows([[_plain(row.get(column.key)) for column in columns] for row in rows])


def _plain(value: object) -> object:
    """Return what a table or CSV has of a value: names of a list stand beside each other."""
    return "" if value is None else " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _cell(row: Row, column: Column, *, is_roomy: bool) -> str:
    value, show = row.get(column.key), column.roomy if column.roomy and is_roomy else column.show
    return shown(show(value) if show and value is not None else _plain(value))


def _write_table(out: TextIO, columns: Sequence[Column], rows: Sequence[Row], *, header: bool = True) -> None:
    from io import StringIO

    from rich.console import Console

    if out.isatty():
        terminal = Console(file=out, highlight=False)
        terminal.print(table_of(columns, rows, width=terminal.width, header=header))
        return
    buffer = StringIO()
    Console(file=buffer, width=_PLAIN_WIDTH, color_system=None).print(
        table_of(columns, rows, width=_PLAIN_WIDTH, header=header)
    )
    out.writelines(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())


def table_of(columns: Sequence[Column], rows: Sequence[Row], *, width: int, header: bool = True) -> Table:
    """For a console of that width."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=header)
    is_roomy = width >= _ROOMY_WIDTH
    shown_rows = [[_cell(row, column, is_roomy=is_roomy) for column in columns] for row in rows]
    kept = [at for at, column in enumerate(columns) if not column.optional or any(cells[at] for cells in shown_rows)]
    for column in (columns[at] for at in kept):
        justify: Literal["left", "right"] = "right" if column.right else "left"
        is_whole = column.right or column.whole
        table.add_column(column.title, justify=justify, overflow="fold", no_wrap=is_whole)
    for cells in shown_rows:
        table.add_row(*(Text(cells[at], columns[at].styles.get(cells[at], "")) for at in kept))
    return table
