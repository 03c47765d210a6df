"""Protobuf message types to fields, messages to rows and back.

A type is given by its generated class, or by a descriptor set: ``protoc --include_imports --descriptor_set_out=x.desc``
and ``x.desc#shop.Order``; the name may be left out when the last file has one message type. It travels as bytes.

    int32 → int     int64, uint32 → bigint     uint64 → decimal(20,0)     enum → string, its name     bytes → binary
    Timestamp → timestamp     message → struct     repeated → array     map → map<string,…>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import lru_cache
from typing import Any, Final

from pyromq.errors import ConfigError
from pyromq.typed.schemas.fields import Fields, FieldType, SchemaField

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_SIMPLE: Final = {
    "double": "double", "float": "float", "int64": "bigint", "int32": "int", "fixed32": "bigint", "bool": "boolean",
    "string": "string", "bytes": "binary", "uint32": "bigint", "enum": "string", "sfixed32": "int",
    "sfixed64": "bigint", "sint32": "int", "sint64": "bigint",
}  # fmt: skip
_NAMES: Final = (
    *("", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message"),
    *("bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)
"""Names of types by their numbers in descriptors."""


@dataclass(frozen=True, slots=True)
class ProtobufType:
    """A message type: its full name, and the descriptors of its file and of those it imports, in their order."""

    name: str
    files: tuple[bytes, ...]


def type_of_class(kind: Any) -> ProtobufType:
    """The type of a generated class."""
    files: dict[str, bytes] = {}

    def add(file: Any) -> None:
        for each in file.dependencies:
            add(each)
        files.setdefault(file.name, file.serialized_pb)

    add(kind.DESCRIPTOR.file)
    return ProtobufType(kind.DESCRIPTOR.full_name, tuple(files.values()))


def type_of_file(data: bytes, name: str) -> ProtobufType:
    """The type of that name in a descriptor set. Raises ConfigError, also without the package protobuf."""
    descriptor_pb2 = _protobuf("descriptor_pb2")
    from google.protobuf.message import DecodeError

    try:
        files = list(descriptor_pb2.FileDescriptorSet.FromString(data).file)
    except DecodeError as error:
        raise ConfigError("this is no descriptor set: protoc --include_imports --descriptor_set_out=x.desc") from error
    return _type_in(files, name)


def type_of_descriptors(files: Sequence[bytes]) -> ProtobufType:
    """The first message type of the last of these files, each of which stands behind those that it imports. Raises
    ConfigError.
    """
    kind = _protobuf("descriptor_pb2").FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        parsed = [kind.FromString(each) for each in files]
    except DecodeError as error:
        raise ConfigError("this is no descriptor of a Protobuf file") from error
    present = {each.name for each in parsed}
    known = [each for name in _imported(parsed) if name not in present for each in _well_known(name, kind)]
    last = parsed[-1]
    if not last.message_type:
        raise ConfigError(f"the Protobuf file {last.name} has no message type")
    return _type_in([*known, *parsed], f"{last.package}.{last.message_type[0].name}".lstrip("."))


def _imported(files: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(name for each in files for name in each.dependency))


def _well_known(name: str, kind: Any) -> list[Any]:
    """Google's own file of this name, which nobody registers; nothing where it is none. Raises ConfigError."""
    if not name.startswith("google/protobuf/"):
        return []
    module = _protobuf(f"{name.removeprefix('google/protobuf/').removesuffix('.proto')}_pb2")
    made = kind()
    module.DESCRIPTOR.CopyToProto(made)
    return [each for inner in made.dependency for each in _well_known(inner, kind)] + [made]


def _type_in(files: list[Any], name: str) -> ProtobufType:
    if not files:
        raise ConfigError("the descriptor set is empty")
    last = files[-1]
    known = [f"{last.package}.{each.name}".lstrip(".") for each in last.message_type]
    if not name and len(known) != 1:
        raise ConfigError(f"name the message type after the file, as x.desc#{known[0] if known else 'shop.Order'}")
    found = ProtobufType(name or known[0], tuple(each.SerializeToString() for each in files))
    class_of(found)
    return found


@lru_cache(64)
def class_of(kind: ProtobufType) -> Any:
    """The class of a message type, made of its descriptors. Raises ConfigError."""
    pool_module, factory = _protobuf("descriptor_pool"), _protobuf("message_factory")
    pool = pool_module.DescriptorPool()
    try:
        for file in kind.files:
            pool.AddSerializedFile(file)
        return factory.GetMessageClass(pool.FindMessageTypeByName(kind.name))
    except (KeyError, TypeError) as error:
        raise ConfigError(f"the descriptors have no message type {kind.name}: {error}") from error


def fields_of_protobuf(kind: ProtobufType) -> Fields:
    """Fields of a message type. Raises ConfigError for a type that contains itself, and for maps without text keys."""
    return _fields(class_of(kind).DESCRIPTOR, ())


def indexes_of(kind: ProtobufType) -> tuple[int, ...]:
    """Where the type stands in its file: the index of its outermost type, then of each that is nested."""
    descriptor, found = class_of(kind).DESCRIPTOR, list[int]()
    while descriptor is not None:
        beside = descriptor.containing_type.nested_types if descriptor.containing_type else None
        names = [each.full_name for each in beside] if beside is not None else list(_types_of_file(descriptor.file))
        found.insert(0, names.index(descriptor.full_name))
        descriptor = descriptor.containing_type
    return tuple(found)


def _types_of_file(file: Any) -> list[str]:
    proto = _protobuf("descriptor_pb2").FileDescriptorProto.FromString(file.serialized_pb)
    return [f"{proto.package}.{each.name}".lstrip(".") for each in proto.message_type]


def row_of(message: Any) -> dict[str, Any]:
    """A message as a dict: fields that know whether they are set are None when they are not."""
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def fill(message: Any, row: Mapping[str, Any]) -> None:
    """Set the fields of a message from a row; None leaves one unset. Raises ValueError, TypeError."""
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in row.items():
        if value is not None:
            _set(message, fields[name], value)


def _fields(descriptor: Any, above: tuple[str, ...]) -> Fields:
    if descriptor.full_name in above:
        raise ConfigError(f"Protobuf type {descriptor.full_name} contains itself: that has no column's type")
    inside = (*above, descriptor.full_name)
    return tuple(SchemaField(each.name, _type(each, inside)) for each in descriptor.fields)


def _type(field: Any, above: tuple[str, ...]) -> FieldType:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        if _NAMES[key.type] != "string":
            raise ConfigError(f"field {field.full_name}: keys of a map are string, not {_NAMES[key.type]}")
        return FieldType("map", items=(FieldType("string"), _single(value, above)))
    single = _single(field, above)
    return FieldType("array", items=(single,)) if field.is_repeated else single


def _single(field: Any, above: tuple[str, ...]) -> FieldType:
    name = _NAMES[field.type]
    if name in ("uint64", "fixed64"):
        return FieldType("decimal", 20, 0)
    if name in ("message", "group"):
        if field.message_type.full_name == _TIMESTAMP:
            return FieldType("timestamp")
        return FieldType("struct", fields=_fields(field.message_type, above))
    return FieldType(_SIMPLE[name])


def _is_map(field: Any) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def _value(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        of_entry = field.message_type.fields_by_name["value"]
        return {key: _plain(value[key], of_entry) for key in value}
    if field.is_repeated:
        return [_plain(each, field) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _plain(value, field)


def _plain(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            return value.ToDatetime(tzinfo=UTC)
        return row_of(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


def _set(message: Any, field: Any, value: Any) -> None:
    if _is_map(field):
        of_entry, target = field.message_type.fields_by_name["value"], getattr(message, field.name)
        for key, each in dict(value).items():
            if of_entry.message_type is not None:
                _fill_message(target[key], of_entry, each)
            else:
                target[key] = _wire(each, of_entry)
    elif field.is_repeated:
        target = getattr(message, field.name)
        for each in value:
            if field.message_type is not None:
                _fill_message(target.add(), field, each)
            else:
                target.append(_wire(each, field))
    elif field.message_type is not None:
        part = getattr(message, field.name)
        part.SetInParent()
        _fill_message(part, field, value)
    else:
        setattr(message, field.name, _wire(value, field))


def _fill_message(part: Any, field: Any, value: Any) -> None:
    if value is None:
        raise ValueError(f"field {field.full_name}: null cannot be an item of a Protobuf field")
    if field.message_type.full_name == _TIMESTAMP:
        part.FromDatetime(value)
    else:
        fill(part, value)


def _wire(value: Any, field: Any) -> Any:
    if value is None:
        raise ValueError(f"field {field.full_name}: null cannot be an item of a Protobuf field")
    if field.enum_type is not None:
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise ValueError(f"field {field.full_name}: {value!r} is no value of {field.enum_type.full_name}")
        return known.number
    return int(value) if _NAMES[field.type] in ("uint64", "fixed64") else value


def _protobuf(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"google.protobuf.{module}")
    except ModuleNotFoundError as error:
        raise ConfigError("Protobuf needs protobuf: pip install 'pyromq[protobuf]'") from error
