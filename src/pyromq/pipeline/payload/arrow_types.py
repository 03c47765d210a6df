"""Types of fields in Arrow, as Spark has them, and Arrow's types as fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from pyromq.pipeline.core.errors import SchemaError
from pyromq.typed.schemas.fields import JSON_TEXT, FieldType, SchemaField

_SIMPLE: Final = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_NAMES: Final = {kind: name for name, kind in _SIMPLE.items()}


def arrow_type(kind: FieldType) -> pa.DataType:
    """The type of a column that holds values of this type."""
    match kind.name:
        case "decimal":
            return pa.decimal128(kind.precision, kind.scale)
        case "array":
            return pa.list_(pa.field("element", arrow_type(kind.items[0])))
        case "map":
            return pa.map_(pa.string(), arrow_type(kind.items[1]))
        case "struct":
            return pa.struct([pa.field(each.name, arrow_type(each.type)) for each in kind.fields])
        case name:
            return _SIMPLE["string" if name == JSON_TEXT else name]


def fields_of(columns: Iterable[pa.Field]) -> tuple[SchemaField, ...]:
    """Fields of columns that Spark asks for. Raises SchemaError for a type that bodies do not have."""
    return tuple(SchemaField(each.name, field_type(each.type), not each.nullable) for each in columns)


def field_type(kind: pa.DataType) -> FieldType:
    """The type of values in a column of this type. Raises SchemaError."""
    if kind in _NAMES:
        return FieldType(_NAMES[kind])
    if pa.types.is_timestamp(kind):
        return FieldType("timestamp" if kind.tz else "timestamp_ntz")
    if pa.types.is_decimal(kind):
        return FieldType("decimal", kind.precision, kind.scale)
    if pa.types.is_map(kind):
        return FieldType("map", items=(field_type(kind.key_type), field_type(kind.item_type)))
    if pa.types.is_list(kind):
        return FieldType("array", items=(field_type(kind.value_type),))
    if pa.types.is_struct(kind):
        return FieldType("struct", fields=fields_of(kind))
    raise SchemaError(f"a body has no values of type {kind}")
