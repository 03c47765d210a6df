"""Rows of a selection without Spark: this process reads them and keeps them in memory, where there are few of them.

A condition (``where``) is answered by DuckDB, in its dialect; for plain comparisons that is Spark's, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyromq.errors import ConfigError
from pyromq.pipeline.core.offsets import total
from pyromq.pipeline.core.options import SourceOptions, Use, parse_options, with_nameservers_known_here
from pyromq.pipeline.jobs.common.errors import TooLargeForMemoryError
from pyromq.pipeline.jobs.common.selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa

BYTES_MAX: Final = 256 << 20
_MEMORY: Final = "512MB"  # of DuckDB
_TABLE: Final = "messages"


def count_of(selection: Selection) -> int:
    """How many offsets a selection goes over; a filter may leave fewer messages. Raises what the source raises."""
    from pyromq.pipeline.reading.batch import plan_batch
    from pyromq.pipeline.reading.cluster import Cluster

    options = _options_of(selection)
    planned = plan_batch(options, Cluster(options, asks_anew=True))
    return sum(total(partition) for partition in planned)


def rows_of(selection: Selection, *columns: str) -> Iterator[dict[str, Any]]:
    """The rows, with maps as dictionaries. Raises TooLargeForMemoryError, and what the source and DuckDB raise."""
    from pyromq.pipeline.tables.answer import rows_of_batch

    for batch in _kept(_batches(selection, columns)):
        yield from rows_of_batch(batch)


def _kept(batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    found, size = [], 0
    for batch in batches:
        size += batch.nbytes
        if size > BYTES_MAX:
            raise TooLargeForMemoryError(
                f"the messages take more than {BYTES_MAX >> 20} MiB of memory: let Spark read them (--engine spark)"
            )
        found.append(batch)
    return found


def _batches(selection: Selection, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    from pyromq.pipeline.tables.sources import ReadCount, TopicRows

    source = TopicRows(_options_of(selection), ReadCount(lambda done, total: None))
    if not selection.where:
        yield from source.batches(columns, None)
        return
    from pyromq.pipeline.tables.engine import ask, opened, reader_of
    from pyromq.pipeline.tables.errors import SqlError
    from pyromq.pipeline.tables.scanning import SqlTable

    text = f"SELECT {', '.join(columns)} FROM {_TABLE} WHERE ({selection.where})"
    if [*ask(text).tables] != [_TABLE]:
        raise SqlError(f"{selection.where!r} is not a condition over the columns of messages")
    with opened({_TABLE: SqlTable(source)}, _MEMORY) as engine:
        yield from reader_of(engine, text)


def _options_of(selection: Selection) -> SourceOptions:
    options = with_nameservers_known_here(parse_options(selection.batch_options(), Use.BATCH))
    if options.store_folders:
        raise ConfigError("store folders are read by Spark: leave --engine python out")
    return options
