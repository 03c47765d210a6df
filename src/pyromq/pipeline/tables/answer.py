"""``sql()``: a question in SQL over topics and folders, and its answer.

Nothing is read before rows are asked for; every reading of an answer runs the question again, over the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from html import escape
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from pyromq.errors import TopicNotFoundError
from pyromq.pipeline.tables.engine import ask, missing_table, opened, reader_of
from pyromq.pipeline.tables.errors import SqlError

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from pyromq.pipeline.tables.scanning import SqlTable

MEMORY: Final = "512MB"
_ROWS_SHOWN: Final = 20
_TEXT_SHOWN: Final = 200


def _silent(done: int, total: int | None) -> None:
    """Report nothing."""


def sql(
    text: str,
    nameservers: str = "",
    *,
    tables: Mapping[str, str | PathLike[str]] | None = None,
    options: Mapping[str, str] | None = None,
    memory: str = MEMORY,
    progress: Callable[[int, int | None], None] = _silent,
) -> SqlAnswer:
    """Answer a SELECT over topics: ``sql("select tags, count(*) from orders group by tags").df()``.

    A topic is a table with the columns of the Spark source, from its first message to the last that it has now;
    ``"dlq:billing"`` are the dead letters of a group. ``tables`` names folders: stores, archives and other Parquet,
    Delta tables. ``options`` are those of the Spark source (``accessKey``, ``tls``, …). ``progress`` is called with
    the messages read and, where it is known, their number. Raises SqlError, PackageMissingError, TopicNotFoundError
    and what connecting raises.
    """
    question = ask(text)
    from pyromq.pipeline.tables.opening import has_bytes, open_tables  # needs Arrow, which was looked for just now

    given = {**(options or {}), **({"nameserver": nameservers} if nameservers else {})}
    found, missing = open_tables(question.tables, given, tables or {}, progress)
    if question.json_of_body and any(has_bytes(table) for table in found.values()):
        schema = "with the schema of the topic (pyromq topic schema set) its fields are columns"
        raise SqlError(f"body is bytes, and {question.json_of_body}; {schema}")
    return SqlAnswer(text, found, missing, memory)


class SqlAnswer:
    """Rows that answer a question; a notebook shows the first of them."""

    def __init__(
        self, text: str, tables: Mapping[str, SqlTable], missing: Mapping[str, TopicNotFoundError], memory: str
    ) -> None:
        """Bind the question to its tables; nothing is read yet. Raises SqlError, TopicNotFoundError."""
        self._text = text
        self._tables = tables
        self._missing = missing
        self._memory = memory
        with self._opened() as engine:
            self.columns: tuple[str, ...] = tuple(engine.sql(text).columns)

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """The rows, a thousand at a time. Raises SqlError and what reading raises."""
        with self._opened() as engine:
            yield from reader_of(engine, self._text)

    def arrow(self) -> pa.Table:
        """All rows in memory, as a table of Arrow. Raises as ``batches`` does."""
        with self._opened() as engine:
            return reader_of(engine, self._text).read_all()

    def df(self) -> pandas.DataFrame:
        """All rows in memory, as a frame of pandas. Raises as ``batches`` does."""
        found: pandas.DataFrame = self.arrow().to_pandas()
        return found

    def rows(self, count_max: int | None = None) -> Iterator[dict[str, Any]]:
        """Each row by the names of its columns; reading stops behind ``count_max`` rows. Raises as ``batches`` does."""
        with closing(self.batches()) as batches:
            yield from islice((row for batch in batches for row in rows_of_batch(batch)), count_max)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    @contextmanager
    def _opened(self) -> Iterator[DuckDBPyConnection]:
        try:
            with opened(self._tables, self._memory) as engine:
                yield engine
        except SqlError as error:
            raise self._missing.get(missing_table(error)) or error from None

    def _repr_html_(self) -> str:
        found = list(self.rows(_ROWS_SHOWN + 1))
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(_shown(row[name]))}</td>' for name in self.columns)}</tr>"
            for row in found[:_ROWS_SHOWN]
        )
        more = f"<p>the first {_ROWS_SHOWN} rows</p>" if len(found) > _ROWS_SHOWN else ""
        return f"<table><tr>{head}</tr>{body}</table>{more}"


def rows_of_batch(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows of a batch, with maps as dictionaries; Arrow makes lists of pairs of them."""
    from pyarrow.types import is_map

    maps = [field.name for field in batch.schema if is_map(field.type)]
    for row in batch.to_pylist():
        yield row | {name: dict(row[name]) for name in maps if row[name] is not None}


def shown_value(value: Any) -> Any:
    """A value for a table and for JSON: bytes as text, moments in UTC."""
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S.%f}"[:-3] + ("Z" if value.tzinfo is not None else "")
        case dict():
            return {str(name): shown_value(each) for name, each in value.items()}
        case list():
            return [shown_value(each) for each in value]
        case int() | float() | bool() | None:
            return value
        case _:
            return str(value)


def _shown(value: Any) -> str:
    text = "" if value is None else str(shown_value(value))
    return text if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]}…"
