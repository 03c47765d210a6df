"""Classes to fields: dataclasses, msgspec structs and TypedDicts as msgspec reads them, pydantic by JSON Schema."""

from __future__ import annotations

from typing import Any, Final

from msgspec import inspect

from pyromq.errors import ConfigError
from pyromq.typed.describing import describe
from pyromq.typed.kinds import is_pydantic, name_of
from pyromq.typed.schemas.fields import JSON_TEXT, Fields, FieldType, SchemaField
from pyromq.typed.schemas.json_schema import DECIMAL, fields_of_json_schema

_JSON: Final = FieldType(JSON_TEXT)
_SIMPLE: Final[dict[type[Any], FieldType]] = {
    inspect.BoolType: FieldType("boolean"),
    inspect.IntType: FieldType("bigint"),
    inspect.FloatType: FieldType("double"),
    inspect.StrType: FieldType("string"),
    inspect.UUIDType: FieldType("string"),
    inspect.BytesType: FieldType("binary"),
    inspect.ByteArrayType: FieldType("binary"),
    inspect.DateTimeType: FieldType("timestamp"),
    inspect.DateType: FieldType("date"),
    inspect.DecimalType: DECIMAL,
}
_LISTS: Final = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)
_OBJECTS: Final = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)


def fields_of_class(kind: Any) -> Fields:
    """Fields of the objects that values of a class are written as. Raises ConfigError for a class without fields."""
    if is_pydantic(kind):
        return fields_of_json_schema(describe(kind).json_schema, by_pydantic=True)
    try:
        found, _ = _type(inspect.type_info(kind), ())
    except (TypeError, NameError) as error:
        raise ConfigError(f"{name_of(kind)} is no class with fields: {error}") from error
    if found.name != "struct":
        text = f"the schema of a topic is a class with fields, not {name_of(kind)}"
        raise ConfigError(f"{text}: a dataclass, msgspec.Struct, TypedDict or pydantic model")
    return found.fields


def _type(info: inspect.Type, above: tuple[Any, ...]) -> tuple[FieldType, bool]:
    """The type, and whether null is allowed beside it."""
    match info:
        case inspect.Metadata(type=inner):
            return _type(inner, above)
        case inspect.UnionType(types=types):
            others = [each for each in types if not isinstance(each, inspect.NoneType)]
            found = _type(others[0], above)[0] if len(others) == 1 else _JSON
            return found, len(others) < len(types)
        case inspect.DictType(key_type=inspect.StrType(), value_type=value):
            return FieldType("map", items=(FieldType("string"), _type(value, above)[0])), False
        case inspect.EnumType(cls=kind):
            return _of_values([each.value for each in kind]), False
        case inspect.LiteralType(values=values):
            return _of_values(values), False
        case inspect.CustomType(cls=kind) if is_pydantic(kind):
            return FieldType("struct", fields=fields_of_class(kind)), False
    if isinstance(info, _LISTS):
        return FieldType("array", items=(_type(info.item_type, above)[0],)), False
    if isinstance(info, _OBJECTS) and not getattr(info, "array_like", False) and info.cls not in above:
        fields = (_field(each, (*above, info.cls)) for each in info.fields)
        return FieldType("struct", fields=tuple(fields)), False
    found = _SIMPLE.get(type(info), _JSON)
    return found, found is _JSON


def _field(field: inspect.Field, above: tuple[Any, ...]) -> SchemaField:
    kind, nullable = _type(field.type, above)
    return SchemaField(field.encode_name, kind, field.required and not nullable)


def _of_values(values: Any) -> FieldType:
    kinds = {type(each) for each in values}
    if kinds == {str}:
        return FieldType("string")
    return FieldType("bigint") if kinds == {int} else _JSON
