"""``pyromq sql``: a question about topics and folders, answered by DuckDB in this process or by Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import click

from pyromq.cli.declared import Argument, Option
from pyromq.cli.option_records import unfolded
from pyromq.cli.output.tables import Column, Form, form_for, write_rows
from pyromq.cli.pipeline.options import ClusterOptions, SparkOptions, pairs
from pyromq.cli.pipeline.session import bar, started
from pyromq.cli.pipeline.tables import rows_shown, write_found

_TABLE_ROWS_MAX: Final = 1_000
_MEMORY: Final = "512MB"
Folders: TypeAlias = dict[str, str]
Rows: TypeAlias = Iterator[dict[str, Any]]


@unfolded
def sql(
    text: Annotated[str, Argument(metavar="SQL", help="A SELECT over topics; - reads it from standard input.")],
    *,
    table: Annotated[
        list[str] | None,
        Option("--table", metavar="NAME=DIR", help="Folder as a table: a store, Parquet, Delta; may be repeated."),
    ] = None,
    count: Annotated[
        int, Option("--max", min=0, metavar="NUMBER", help="At most this many rows; 0: all, in a table 1000.")
    ] = 0,
    memory: Annotated[str, Option(metavar="SIZE", help="Memory that DuckDB may use; it goes on on disk.")] = _MEMORY,
    spark: Annotated[bool, Option("--spark", help="Let Spark answer, at --master.")] = False,
    cluster: ClusterOptions,
    run_in: SparkOptions,
) -> None:
    """Answer a question in SQL about topics.

    A topic is a table, from its first message to the last that it has now: select tags, count(*) from orders group by
    tags. "dlq:GROUP" are the dead letters of a group. Columns are those of the Spark source; string(body) is a body as
    text. Nothing can be changed, and no file is read but the folders of --table.
    """
    question = sys.stdin.read() if text == "-" else text
    form, folders = form_for(run_in.output, sys.stdout), pairs(table)
    count_max = count or (_TABLE_ROWS_MAX if form is Form.TABLE else None)
    ask = _by_spark if spark else _by_duckdb
    with ask(question, folders, cluster, run_in, memory, count_max) as (columns, rows):
        _write(form, columns, rows, count_max, is_bounded=not count)


@contextmanager
def _by_duckdb(
    text: str,
    folders: dict[str, str],
    cluster: ClusterOptions,
    run_in: SparkOptions,
    memory: str,
    count_max: int | None,
) -> Iterator[tuple[list[str], Iterator[dict[str, Any]]]]:
    from pyromq.pipeline.tables.answer import shown_value
    from pyromq.pipeline.tables.answer import sql as answer_to

    is_shared = (
        sys.stdout.isatty() and form_for(run_in.output, sys.stdout) is not Form.TABLE
    )  # rows go where the bar is
    with nullcontext(lambda *_: None) if is_shared else bar("reading") as tell:
        found = answer_to(
            text, cluster.nameserver, tables=folders, options=cluster.source_options, memory=memory, progress=tell
        )
        rows = found.rows(None if count_max is None else count_max + 1)
        yield list(found.columns), ({name: shown_value(value) for name, value in row.items()} for row in rows)


@contextmanager
def _by_spark(
    text: str, folders: Folders, cluster: ClusterOptions, run_in: SparkOptions, _: str, count_max: int | None
) -> Iterator[tuple[list[str], Rows]]:
    from pyromq.pipeline import sql_frame
    from pyromq.pipeline.jobs.common.queries import failures_in_words

    with started(run_in) as spark, failures_in_words():
        found = sql_frame(
            spark, text, nameserver=cluster.nameserver, options=cluster.source_options,
            tables={name: Path(folder) for name, folder in folders.items()},
        )  # fmt: skip
        yield found.columns, rows_shown(found, None if count_max is None else count_max + 1)


def _write(form: Form, columns: list[str], rows: Rows, count_max: int | None, *, is_bounded: bool) -> None:
    """Table rows are kept until all are there; the other forms are written as they come."""
    shown = islice(rows, count_max)
    match form:
        case Form.TABLE:
            write_found(sys.stdout, form, columns, list(shown))
        case Form.JSON:
            _write_array(shown)
        case Form.CSV:
            texts = ({name: _cell(value) for name, value in row.items()} for row in shown)
            write_rows(sys.stdout, form, [Column(name, name) for name in columns], texts)
        case _:
            write_rows(sys.stdout, form, [], shown)
    if is_bounded and next(rows, None) is not None:
        click.echo(f"the first {count_max:,} rows; --max shows more, -o jsonl all", err=True)


def _write_array(rows: Rows) -> None:
    """A JSON array, a row on each line."""
    before = "[\n"
    for row in rows:
        sys.stdout.write(before + _json(row))
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[\n" else "\n]\n")


def _cell(value: Any) -> Any:
    """CSV has no maps and lists: they are JSON there."""
    return _json(value) if isinstance(value, dict | list) else value


def _json(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()
