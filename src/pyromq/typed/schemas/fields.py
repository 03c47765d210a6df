"""Fields of a schema and their types, in Spark SQL's words: what every form of a schema is brought to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SIMPLE: Final = frozenset(
    (
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double"),
        *("string", "binary", "date", "timestamp", "timestamp_ntz"),
    )
)
JSON_TEXT: Final = "json"
"""A value of any shape, as the JSON that it is written in; its column is a string."""
PRECISION_MAX: Final = 38


@dataclass(frozen=True, slots=True)
class FieldType:
    """A type: one of ``SIMPLE``, ``json``, ``decimal``, ``array`` (one item), ``map`` (key, value) or ``struct``."""

    name: str
    precision: int = 0
    scale: int = 0
    items: tuple[FieldType, ...] = ()
    fields: tuple[SchemaField, ...] = ()

    def __str__(self) -> str:
        match self.name:
            case "decimal":
                return f"decimal({self.precision},{self.scale})"
            case "array" | "map":
                return f"{self.name}<{','.join(map(str, self.items))}>"
            case "struct":
                return f"struct<{','.join(f'{quoted_name(each.name)}:{_with_null(each)}' for each in self.fields)}>"
            case "json":
                return "string"
            case name:
                return name


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field of a body; a ``required`` one is there and not null."""

    name: str
    type: FieldType
    required: bool = False


Fields = tuple[SchemaField, ...]
TEXT_FIELDS: Final[Fields] = (SchemaField("value", FieldType("string")),)
"""Of bodies that are text."""


def ddl_of(fields: Sequence[SchemaField]) -> str:
    """The fields as DDL: ``id bigint NOT NULL, amount decimal(10,2)``."""
    return ", ".join(f"{quoted_name(each.name)} {_with_null(each)}" for each in fields)


def optional(fields: Sequence[SchemaField]) -> Fields:
    """Return the fields with none of them required, at any depth: columns of a table whose bad rows are null."""
    return tuple(SchemaField(each.name, _optional_type(each.type)) for each in fields)


def quoted_name(name: str) -> str:
    """A name as DDL has it: in backquotes unless it is a plain identifier."""
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


def _optional_type(kind: FieldType) -> FieldType:
    items = tuple(map(_optional_type, kind.items))
    return FieldType(kind.name, kind.precision, kind.scale, items, optional(kind.fields))


def _with_null(field: SchemaField) -> str:
    return f"{field.type} NOT NULL" if field.required else str(field.type)
