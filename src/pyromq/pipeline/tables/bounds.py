"""What a condition leaves out: the columns it looks at, and the offsets and times whose rows it may let through.

DuckDB hands conditions over as expressions of Arrow, which cannot be taken apart. They can be asked: whether any row
can pass that has certain values is what Arrow decides for files with partition values. So a bound is found by halving.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from pyromq.pipeline.arrow.columns import ARROW_TYPES
from pyromq.pipeline.core.offsets import OffsetRange
from pyromq.pipeline.reading.filters import Condition

_OFFSET_END: Final = 1 << 62
_TIME_MS_END: Final = 1 << 47  # the year 6429; what microseconds can hold is more
_FORMAT: Final = ds.ParquetFileFormat()
_FILES: Final = LocalFileSystem()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA: Final = pa.schema(list(ARROW_TYPES.items()))
"""All columns of the source."""


def columns_in(condition: Any, schema: pa.Schema) -> list[str]:
    """The columns that a condition looks at: those without which it means nothing."""
    return [field.name for field in schema if not _is_bound(condition, schema.remove(schema.names.index(field.name)))]


def _is_bound(condition: Any, schema: pa.Schema) -> bool:
    try:
        ds.Scanner.from_batches([], schema=schema, filter=condition)
    except pa.ArrowInvalid:
        return False
    return True


def may_pass(condition: Any, known: Any, schema: pa.Schema = SCHEMA) -> bool:
    """Whether a row may pass of which something is known; True where Arrow cannot tell."""
    fragment = _FORMAT.make_fragment("rows", _FILES, partition_expression=known)
    return any(True for _ in ds.FileSystemDataset([fragment], schema, _FORMAT, _FILES).get_fragments(condition))


def conditions_of(condition: Any, schema: pa.Schema = SCHEMA) -> list[Condition]:
    """Bounds of offset and store time that every row meets that passes; ``schema`` has all columns of the table."""
    looked_at = columns_in(condition, schema)
    found: list[Condition] = []
    for column, end, value_of in (("queue_offset", _OFFSET_END, int), ("store_time", _TIME_MS_END, _moment)):
        if column in looked_at:
            bound = Bound(condition, column, end, value_of, schema)
            first, behind = bound.first(), bound.behind()
            found += [Condition(column, ">=", (value_of(first),))] if first > 0 else []
            found += [Condition(column, "<", (value_of(behind),))] if behind < end else []
    return found


def may_hold(condition: Any, topic: str, part: OffsetRange, schema: pa.Schema = SCHEMA) -> bool:
    """Whether rows of a range may pass; ``topic`` is the name that rows have."""
    known = (
        (pc.field("topic") == topic)
        & (pc.field("broker") == part.queue.broker)
        & (pc.field("queue_id") == pa.scalar(part.queue.number, pa.int32()))
        & (pc.field("queue_offset") >= part.start)
        & (pc.field("queue_offset") < part.end)
    )
    return may_pass(condition, known, schema)


@dataclass(frozen=True, slots=True)
class Bound:
    """What a condition says of one column, found by halving."""

    condition: Any
    column: str
    end: int
    value_of: Callable[[int], Any]
    schema: pa.Schema

    def first(self) -> int:
        """The largest value below which no row passes."""
        low, high = 0, self.end
        while low < high:
            middle = (low + high + 1) // 2
            if may_pass(self.condition, pc.field(self.column) < self._value(middle), self.schema):
                high = middle - 1
            else:
                low = middle
        return low

    def behind(self) -> int:
        """The smallest value from which on no row passes."""
        low, high = 0, self.end
        while low < high:
            middle = (low + high) // 2
            if may_pass(self.condition, pc.field(self.column) >= self._value(middle), self.schema):
                low = middle + 1
            else:
                high = middle
        return low

    def _value(self, number: int) -> Any:
        return pa.scalar(self.value_of(number), ARROW_TYPES[self.column])


def _moment(time_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=time_ms)
