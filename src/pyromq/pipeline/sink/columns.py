"""Columns of the sink: which there may be, of which types, and their values as plain lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pyromq.pipeline.core.errors import SchemaError
from pyromq.pipeline.sink.options import Mode, SinkOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TEXT, _WHOLE = ("string",), ("tinyint", "smallint", "int", "bigint")
SINK_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "topic": _TEXT,
    "tags": _TEXT,
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>", "string"),
    "sharding_key": _TEXT,
    "delay_level": _WHOLE,
    "deliver_time": ("timestamp", "bigint"),
    "queue_id": _WHOLE,
    "broker": _TEXT,
    "flag": _WHOLE,
    "unique_key": _TEXT,
}
"""By name: the types that are accepted, in Spark's words."""
_DELAYS: Final = ("delay_level", "deliver_time")


def check_sink_schema(schema: StructType, options: SinkOptions) -> None:
    """Check the columns of rows that are to be sent. Raises SchemaError, whose text names the column."""
    names = [field.name for field in schema.fields]
    for field in schema.fields:
        if field.name not in SINK_COLUMNS:
            if options.payload is not None:
                continue  # a field of the bodies
            raise SchemaError(
                f"column {field.name} is unknown to the sink; drop it. Its columns are: {', '.join(SINK_COLUMNS)}"
            )
        found, taken = field.dataType.simpleString(), SINK_COLUMNS[field.name]
        if found not in taken:
            raise SchemaError(f"column {field.name} must be {' or '.join(taken)}, not {found}")
        if names.count(field.name) > 1:
            raise SchemaError(f"column {field.name} appears twice")
    for column, holds, reason in (
        ("body", "body" in names or options.payload is not None,
         "is missing: it holds what is sent, unless option payload makes it of other columns"),
        ("body", options.payload is None or "body" not in names, "and option payload exclude each other: drop it"),
        ("topic", "topic" in names or options.topic, "is missing: add it, or name a topic in the option topic"),
        ("deliver_time", not {*_DELAYS} <= {*names}, "and column delay_level exclude each other"),
        ("queue_id", not {"queue_id", "sharding_key"} <= {*names}, "and column sharding_key exclude each other"),
        ("broker", "queue_id" in names or "broker" not in names, "needs column queue_id beside it"),
    ):  # fmt: skip
        if not holds:
            raise SchemaError(f"column {column} {reason}")
    if options.mode is not Mode.AT_LEAST_ONCE and (delayed := [name for name in _DELAYS if name in names]):
        why = "a delayed message is not seen in its topic before its time, so a repeated one cannot be recognised"
        raise SchemaError(f"column {delayed[0]} does not go with mode {options.mode.value}: {why}")
    if options.mode is Mode.TRANSACTIONAL and "unique_key" in names:
        raise SchemaError("column unique_key does not go with mode transactional, which has keys of its own")


def values_of(batch: pa.RecordBatch, name: str) -> Sequence[Any] | None:
    """None when there is no such column; times in milliseconds."""
    index = batch.schema.get_field_index(name)
    if index < 0:
        return None
    column = batch.column(index)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False).cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values
