"""Names of a question to tables: folders that were given names, and topics for all the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path

from pyarrow.types import is_binary

from pyromq.errors import TopicNotFoundError
from pyromq.pipeline.core.connections import connect
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.options import SourceOptions, Use, parse_options, with_nameservers_known_here
from pyromq.pipeline.tables.errors import SqlError
from pyromq.pipeline.tables.question import topic_named
from pyromq.pipeline.tables.scanning import SqlTable
from pyromq.pipeline.tables.sources import ReadCount, TopicRows, folder_rows
from pyromq.pipeline.tables.typed_columns import TypedColumns


def open_tables(
    names: Sequence[str],
    options: Mapping[str, str],
    folders: Mapping[str, str | PathLike[str]],
    progress: Callable[[int, int | None], None],
) -> tuple[dict[str, SqlTable], dict[str, TopicNotFoundError]]:
    """The tables by their names, and what was said of names that nobody knows: DuckDB may know them.

    ``options`` are those of the Spark source. Raises SqlError, and what brokers and folders raise.
    """
    by_lower_name = {name.lower(): Path(folder) for name, folder in folders.items()}
    found: dict[str, SqlTable] = {}
    missing: dict[str, TopicNotFoundError] = {}
    count = ReadCount(progress)
    for name in names:
        if (folder := by_lower_name.get(name.lower())) is not None:
            found[name] = SqlTable(folder_rows(name, folder, count))
            continue
        try:
            chosen = topic_options(name, options)
            found[name] = SqlTable(TopicRows(chosen, count, _typed(chosen)))
        except TopicNotFoundError as error:
            missing[name] = error
    return found, missing


def has_bytes(table: SqlTable) -> bool:
    """Whether the column ``body`` of a table is bytes."""
    return "body" in table.schema.names and is_binary(table.schema.field("body").type)


def _typed(options: SourceOptions) -> TypedColumns | None:
    """Columns by the schema of the topic; none where it has none, or one that cannot be used here, which is logged."""
    connected = connect(options)
    bodies = connected.call(connected.client.schemas.find(options.topics[0]))
    return None if bodies is None else TypedColumns(bodies)


def topic_options(table: str, options: Mapping[str, str]) -> SourceOptions:
    """Options of a batch read of the topic that a name stands for. Raises OptionError, SqlError."""
    try:
        return with_nameservers_known_here(parse_options({**options, "topic": topic_named(table)}, Use.BATCH))
    except OptionError as error:
        if error.option != "topic":
            raise
        text = f"{table!r} cannot be a topic: {error.reason}"
        raise SqlError(f"{text}. To read a folder, give it a name as a table: tables={{'name': 'DIR'}}") from error
