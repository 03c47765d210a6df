"""A source as DuckDB sees it: a data set of Arrow whose scans are told the columns and the condition of a query.

DuckDB leaves a condition that it hands over to the scan, so rows are compared here, exactly. Its threads read the
batches; an error of ours would reach the caller as a text of DuckDB's, so the table keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds


class RowSource(Protocol):
    """Rows of one table; every call of ``batches`` reads the same ones."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self, columns: Sequence[str], condition: Any) -> Iterator[pa.RecordBatch]:
        """The rows that meet a condition (None: all), with these columns in this order."""
        ...


class SqlTable(ds.Dataset):  # type: ignore[misc]  # pyarrow ships no types
    """A source that DuckDB can be given; ``failure`` is what ended a scan."""

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self.failure: Exception | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._source.schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> Scan:  # noqa: A002
        """DuckDB calls it once for each place where a query names the table."""
        wanted = list(columns) if columns is not None else self.schema.names
        return Scan(self, pa.schema([self.schema.field(name) for name in wanted]), filter)

    def batches(self, columns: Sequence[str], condition: Any) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._source.batches(columns, condition)
        except Exception as error:
            self.failure = self.failure or error
            raise


@dataclass(frozen=True, slots=True)
class Scan:
    """One reading of a table."""

    table: SqlTable
    projected_schema: pa.Schema
    condition: Any

    def to_reader(self) -> pa.RecordBatchReader:
        names = self.projected_schema.names
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.table.batches(names, self.condition))
