"""JSON Schema to fields: what has a column's type becomes one, everything else is kept as JSON in a string.

integer → bigint      string → string                       object with properties → struct
number → double        format date-time → timestamp           additionalProperties: S → map<string,S>
boolean → boolean      format date → date                    array → array
                       format decimal → decimal(38,18)       null beside another → not required
                       contentEncoding base64 → binary       several others, recursion → JSON in a string
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyromq.errors import ConfigError
from pyromq.typed.schemas.fields import JSON_TEXT, Fields, FieldType, SchemaField

_JSON: Final = FieldType(JSON_TEXT)
DECIMAL: Final = FieldType("decimal", 38, 18)
_SIMPLE: Final = {"integer": "bigint", "number": "double", "boolean": "boolean"}
_FORMATS: Final = {"date-time": FieldType("timestamp"), "date": FieldType("date"), "decimal": DECIMAL}
_KINDS_OF_VALUES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def fields_of_json_schema(document: Mapping[str, Any], *, by_pydantic: bool = False) -> Fields:
    """Fields of the objects that a JSON Schema describes. Raises ConfigError where it describes none.

    ``by_pydantic`` says who wrote it: there, a number or a string is a Decimal.
    """
    kind, _ = _Reader(document, by_pydantic).type_of(document, ())
    if kind.name != "struct":
        raise ConfigError(f"the JSON Schema of a typed topic is that of an object with properties, not of {kind}")
    return kind.fields


class _Reader:
    def __init__(self, document: Mapping[str, Any], by_pydantic: bool) -> None:
        self._document = document
        self._by_pydantic = by_pydantic

    def type_of(self, schema: Any, above: tuple[str, ...]) -> tuple[FieldType, bool]:
        """The type, and whether null is allowed beside it."""
        if not isinstance(schema, Mapping):
            return _JSON, True
        if isinstance(reference := schema.get("$ref"), str):
            if reference in above:
                return _JSON, True
            return self.type_of(self._at(reference), (*above, reference))
        if isinstance(every := schema.get("allOf"), list) and len(every) == 1:
            return self.type_of(every[0], above)
        choices = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(choices, list):
            return self._one_of(choices, above)
        return self._plain(schema, above)

    def _one_of(self, choices: list[Any], above: tuple[str, ...]) -> tuple[FieldType, bool]:
        others = [each for each in choices if not (isinstance(each, Mapping) and each.get("type") == "null")]
        nullable = len(others) < len(choices)
        if len(others) == 1:
            kind, inner = self.type_of(others[0], above)
            return kind, nullable or inner
        kinds = [each.get("type") for each in others if isinstance(each, Mapping)]
        if self._by_pydantic and sorted(map(str, kinds)) == ["number", "string"]:
            return DECIMAL, nullable
        return _JSON, nullable

    def _plain(self, schema: Mapping[str, Any], above: tuple[str, ...]) -> tuple[FieldType, bool]:
        names = schema.get("type") or _kinds_of(schema)
        given = [names] if isinstance(names, str) else list(names or ())
        nullable, others = "null" in given, [each for each in given if each != "null"]
        if set(others) == {"integer", "number"}:
            others = ["number"]
        if not others and isinstance(schema.get("properties"), Mapping):
            others = ["object"]
        if len(others) != 1:
            return _JSON, nullable or not given
        return self._called(others[0], schema, above), nullable

    def _called(self, name: str, schema: Mapping[str, Any], above: tuple[str, ...]) -> FieldType:
        if name in _SIMPLE:
            return FieldType(_SIMPLE[name])
        if name == "string":
            if schema.get("contentEncoding") == "base64":
                return FieldType("binary")
            return _FORMATS.get(str(schema.get("format")), FieldType("string"))
        if name == "array":
            if "prefixItems" in schema:
                return _JSON
            return FieldType("array", items=(self.type_of(schema.get("items"), above)[0],))
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, Mapping) and properties:
            required = schema.get("required") or ()
            return FieldType("struct", fields=tuple(self._fields(properties, required, above)))
        if isinstance(others, Mapping):
            return FieldType("map", items=(FieldType("string"), self.type_of(others, above)[0]))
        return _JSON

    def _fields(self, properties: Mapping[str, Any], required: Any, above: tuple[str, ...]) -> list[SchemaField]:
        found = []
        for name, schema in properties.items():
            kind, nullable = self.type_of(schema, above)
            found.append(SchemaField(name, kind, name in required and not nullable))
        return found

    def _at(self, reference: str) -> Any:
        found: Any = self._document
        if not reference.startswith("#"):
            raise ConfigError(f"$ref {reference}: a schema refers to its own parts only, as #/$defs/Line")
        for part in reference.removeprefix("#").split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or part not in found:
                raise ConfigError(f"$ref {reference} leads nowhere in the JSON Schema")
            found = found[part]
        return found


def _kinds_of(schema: Mapping[str, Any]) -> list[str]:
    """Types of an enumeration's values, where nothing else says them."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return list(dict.fromkeys(_KINDS_OF_VALUES.get(type(value), "object") for value in values))
