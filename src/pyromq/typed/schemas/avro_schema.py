"""Avro schemas to fields, and fields to the Avro schema that they are written with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyromq.errors import ConfigError
from pyromq.typed.schemas.fields import JSON_TEXT, Fields, FieldType, SchemaField

_SIMPLE: Final = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double", "string": "string",
    "bytes": "binary", "enum": "string", "fixed": "binary",
}  # fmt: skip
_LOGICAL: Final = {
    "date": "date", "timestamp-millis": "timestamp", "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz", "local-timestamp-micros": "timestamp_ntz", "uuid": "string",
}  # fmt: skip
_WRITTEN: Final[dict[str, Any]] = {
    "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "bigint": "long", "float": "float",
    "double": "double", "string": "string", JSON_TEXT: "string", "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}  # fmt: skip


def fields_of_avro(document: Mapping[str, Any]) -> Fields:
    """Fields of an Avro record. Raises ConfigError for what has no column's type: recursion, unions of several."""
    return _Records({}).fields(document, str(document.get("namespace", "")), ())


def avro_of_fields(fields: Fields, name: str = "Body") -> dict[str, Any]:
    """The Avro record that bodies with these fields are written as; what is not required may be null."""
    return {"type": "record", "name": name, "fields": [_written_field(each, name) for each in fields]}


class _Records:
    """Reads one document; types that have a name may be used again by it."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named

    def fields(self, record: Mapping[str, Any], space: str, above: tuple[str, ...]) -> Fields:
        return tuple(self._field(each, space, above) for each in record.get("fields", ()))

    def _field(self, field: Mapping[str, Any], space: str, above: tuple[str, ...]) -> SchemaField:
        kind, nullable = self._type(field["type"], space, above)
        return SchemaField(field["name"], kind, not nullable)

    def _type(self, schema: Any, space: str, above: tuple[str, ...]) -> tuple[FieldType, bool]:
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            if len(others) != 1:
                raise ConfigError("an Avro union of several types has no column's type: only one beside null has")
            return self._type(others[0], space, above)[0], len(others) < len(schema)
        if isinstance(schema, str):
            if schema in _SIMPLE:
                return FieldType(_SIMPLE[schema]), False
            full = schema if "." in schema or not space else f"{space}.{schema}"
            known = self._named.get(full, self._named.get(schema))
            if known is None or full in above:
                raise ConfigError(f"Avro type {schema} is unknown, or contains itself: that has no column's type")
            return self._type(known, space, above)
        return self._complex(schema, space, above), False

    def _complex(self, schema: Mapping[str, Any], space: str, above: tuple[str, ...]) -> FieldType:
        name, logical = schema["type"], schema.get("logicalType")
        if isinstance(name, list | dict):
            return self._type(name, space, above)[0]
        if title := schema.get("name"):
            space = str(schema.get("namespace", space))
            title = title if "." in title or not space else f"{space}.{title}"
            self._named[title] = schema
        if logical == "decimal":
            return FieldType("decimal", int(schema["precision"]), int(schema.get("scale", 0)))
        if logical in _LOGICAL:
            return FieldType(_LOGICAL[logical])
        if logical in ("time-millis", "time-micros"):
            raise ConfigError(f"Avro's {logical} has no column's type")
        match name:
            case "record":
                return FieldType("struct", fields=self.fields(schema, space, (*above, str(title))))
            case "array":
                return FieldType("array", items=(self._type(schema["items"], space, above)[0],))
            case "map":
                value = self._type(schema["values"], space, above)[0]
                return FieldType("map", items=(FieldType("string"), value))
            case _:
                return self._type(name, space, above)[0] if name not in _SIMPLE else FieldType(_SIMPLE[name])


def _written_field(field: SchemaField, path: str) -> dict[str, Any]:
    kind = _written(field.type, f"{path}_{field.name}")
    if field.required:
        return {"name": field.name, "type": kind}
    return {"name": field.name, "type": ["null", kind], "default": None}


def _written(kind: FieldType, path: str) -> Any:
    match kind.name:
        case "decimal":
            return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        case "array":
            return {"type": "array", "items": ["null", _written(kind.items[0], path)]}
        case "map":
            return {"type": "map", "values": ["null", _written(kind.items[1], path)]}
        case "struct":
            return {"type": "record", "name": path, "fields": [_written_field(each, path) for each in kind.fields]}
        case name:
            return _WRITTEN[name]
