"""Columns of the source: their names, and their types in Spark and in Arrow."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from pyromq.pipeline.core.errors import SchemaError

_TIME: Final = pa.timestamp("us", tz="UTC")
_TEXT, _INT, _LONG = pa.string(), pa.int32(), pa.int64()
PROPERTIES_MAP: Final = pa.map_(pa.string(), pa.string())

ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "topic": _TEXT,
    "broker": _TEXT,
    "queue_id": _INT,
    "queue_offset": _LONG,
    "message_id": _TEXT,
    "offset_message_id": _TEXT,
    "tags": _TEXT,
    "keys": _TEXT,
    "born_time": _TIME,
    "store_time": _TIME,
    "born_host": _TEXT,
    "store_host": _TEXT,
    "flag": _INT,
    "sys_flag": _INT,
    "delivery_attempt": _INT,
    "body_crc": _INT,
    "commit_log_offset": _LONG,
    "properties": PROPERTIES_MAP,
    "body": pa.binary(),
}
COLUMNS: Final = tuple(ARROW_TYPES)
_SPARK_NAMES: Final = {
    _TEXT: "string", _INT: "int", _LONG: "bigint", _TIME: "timestamp", pa.binary(): "binary",
    PROPERTIES_MAP: "map<string,string>",
}  # fmt: skip


def spark_schema(*, properties_as_map: bool, without: Collection[str] = ()) -> str:
    """All columns but those that are left out, as Spark's DDL has them."""
    names = [name for name in COLUMNS if name not in without]
    return ", ".join(f"{name} {spark_type(name, properties_as_map=properties_as_map)}" for name in names)


def spark_type(column: str, *, properties_as_map: bool = True) -> str:
    if column == "properties" and not properties_as_map:
        return "string"
    return _SPARK_NAMES[ARROW_TYPES[column]]


def check_schema(schema: pa.Schema) -> None:
    """Whether the source can give these columns with these types. Raises SchemaError."""
    if len(set(schema.names)) != len(schema.names):
        raise SchemaError(f"the schema names a column twice: {', '.join(schema.names)}")
    for field in schema:
        if field.name not in ARROW_TYPES:
            raise SchemaError(no_column(field.name))
        wanted = ARROW_TYPES[field.name]
        if field.type != wanted and not (field.name == "properties" and field.type == _TEXT):
            either = " or string" if field.name == "properties" else ""
            raise SchemaError(f"column {field.name} is {spark_type(field.name)}{either}, not {field.type}")


def no_column(name: str) -> str:
    """What is said of a name that is none of ``COLUMNS``."""
    return f"there is no column {name}; the columns are: {', '.join(COLUMNS)}"
