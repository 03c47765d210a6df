"""DuckDB as this package uses it: in memory, for one reading, closed to files, network, extensions and settings.

What a question may read are the tables it is given, and nothing else: DuckDB itself opens no file but those of its own
folder for what does not fit into memory, which is gone with the engine.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from pyromq.errors import MQError
from pyromq.pipeline.tables.errors import PackageMissingError, SqlError
from pyromq.pipeline.tables.question import Question, understood

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from pyromq.pipeline.tables.scanning import SqlTable

SPILL_MAX: Final = "8GB"
_CLOSED: Final = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # variables of Python are no tables
    "max_temp_directory_size": SPILL_MAX,
}
_MACROS: Final = (
    "CREATE TEMP MACRO string(body) AS TRY(decode(body))",
    "CREATE TEMP MACRO get_json_object(text, path) AS json_extract_string(TRY_CAST(text AS JSON), path)",
)
"""Functions that Spark has under these names, so that one text suits both; null for what is no text, or no JSON."""
_ROWS_AT_ONCE: Final = 1_000
_THREADS_MAX: Final = 4  # each keeps rows of its own: with many of them little memory is too little
_NEEDED: Final = ("duckdb", "pyarrow", "numpy")
_missing_table = re.compile(r"Table with name (.+?) does not exist").search


def require_duckdb() -> None:
    """Check that DuckDB and Arrow are installed. Raises PackageMissingError."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise PackageMissingError(" and ".join(missing), "sql", "SQL without Spark")


def ask(text: str) -> Question:
    """Reads a text of SQL. Raises SqlError, PackageMissingError."""
    require_duckdb()
    import duckdb

    with duckdb.connect(":memory:", config=dict(_CLOSED)) as engine:
        (tree,) = engine.execute("SELECT json_serialize_sql(?)", [text]).fetchone() or ("",)
    return understood(text, tree)


@contextmanager
def opened(tables: Mapping[str, SqlTable], memory: str) -> Iterator[DuckDBPyConnection]:
    """A DuckDB with these tables. Raises SqlError for what it refuses, and what ended a scan of a table."""
    import duckdb
    import pyarrow as pa

    with tempfile.TemporaryDirectory(prefix="pyromq-sql-") as spilled:
        threads = min(_THREADS_MAX, os.cpu_count() or 1)
        config: dict[str, Any] = {**_CLOSED, "memory_limit": memory, "temp_directory": spilled, "threads": threads}
        try:
            engine = duckdb.connect(":memory:", config=config)
        except duckdb.Error as error:
            raise SqlError(_line(error)) from error
        try:
            engine.execute("SET TimeZone = 'UTC'")
            for macro in _MACROS:
                engine.execute(macro)
            engine.execute("SET lock_configuration = true")
            for name, table in tables.items():
                engine.register(name, table)
            yield engine
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # Arrow's, when a scan fails that DuckDB reads
            raise _failure_of(tables) or SqlError(_in_words(error, memory)) from error
        finally:
            engine.close()


def reader_of(engine: DuckDBPyConnection, text: str) -> pa.RecordBatchReader:
    """The answer to a question, read as it is taken."""
    found: Any = engine.sql(text)
    read = found.to_arrow_reader if hasattr(found, "to_arrow_reader") else found.fetch_arrow_reader  # before 1.5
    return read(_ROWS_AT_ONCE)


def missing_table(error: SqlError) -> str:
    """The table that an error is about because nobody knows it; empty for other errors."""
    found = _missing_table(str(error))
    return found[1] if found else ""


def _failure_of(tables: Mapping[str, SqlTable]) -> MQError | None:
    return next((each.failure for each in tables.values() if isinstance(each.failure, MQError)), None)


def _in_words(error: Exception, memory: str) -> str:
    if "Out of Memory Error" in str(error) or type(error).__name__ == "OutOfMemoryException":
        text = f"the question needs more than {memory} of memory and {SPILL_MAX} of disk"
        return f"{text}: allow more memory, ask for fewer columns, or let Spark answer"
    return _line(error)


def _line(error: Exception) -> str:
    """Text of a DuckDB error in one line, without the excerpt of the query, which the caller knows."""
    return " ".join(re.split(r"\n\s*LINE \d+:", str(error))[0].split())
