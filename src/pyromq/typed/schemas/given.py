"""A schema as it is given: DDL, JSON Schema, Avro, a file with one of these, or a class by its dotted path.

id bigint, amount decimal(10,2)             DDL
{"type": "object", "properties": …}         JSON Schema         {"type": "record", "fields": …}    Avro
/schemas/order.json, /schemas/order.avsc    files with these; .ddl, .sql or .txt with DDL
shop.models.Order, shop.models:Order        a dataclass, msgspec.Struct, pydantic model or Protobuf class
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from pyromq.errors import ConfigError
from pyromq.typed.avro import without_uuids
from pyromq.typed.codecs import codec_of
from pyromq.typed.kinds import is_protobuf, schema_name
from pyromq.typed.schemas.avro_schema import fields_of_avro
from pyromq.typed.schemas.class_fields import fields_of_class
from pyromq.typed.schemas.ddl import parse_ddl
from pyromq.typed.schemas.fields import Fields
from pyromq.typed.schemas.json_schema import fields_of_json_schema
from pyromq.typed.schemas.protobuf_schema import ProtobufType, fields_of_protobuf, type_of_class, type_of_file

SCHEMA_BYTES_MAX: Final = 1 << 20
_dotted = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*").fullmatch
_DESCRIPTORS: Final = (".desc", ".pb", ".binpb")
_TEXTS: Final = (".json", ".avsc", ".ddl", ".sql", ".txt")


@dataclass(frozen=True, slots=True)
class BodySchema:
    """The fields of a body, and what it takes to read bodies that do not name their fields.

    ``avro`` is the Avro schema as JSON text, ``protobuf`` the message type; empty where the schema is neither.
    ``registry`` and ``registry_id`` are the registry that it comes from and its id there: bodies have an id before
    them then (``framing``).
    """

    fields: Fields
    avro: str = ""
    protobuf: ProtobufType | None = None
    name: str = ""
    registry: str = field(default="", repr=False)  # its URL may have a password
    registry_id: int = 0


def schema_given(text: str, *, imports: bool = True) -> BodySchema:
    """Read a schema in whatever form it is. Raises ConfigError, whose text says what is wrong with it.

    Without ``imports`` a class has to be in a module that is imported already: a text that came over the network does
    not decide which code runs.
    """
    text = text.strip()
    if len(text) > SCHEMA_BYTES_MAX:
        raise ConfigError(f"the schema has {len(text)} characters, more than {SCHEMA_BYTES_MAX}")
    if text.startswith("{"):
        return schema_of_document(text)
    if _is_path(text):
        return _of_file(text.removeprefix("file://"))
    return _of_class(text, imports) if _dotted(text) else BodySchema(parse_ddl(text))


def schema_of_class(kind: Any) -> BodySchema:
    """The schema of a class: its fields, or those of its Avro codec. Raises ConfigError."""
    if is_protobuf(kind):
        found = type_of_class(kind)
        return BodySchema(fields_of_protobuf(found), protobuf=found, name=found.name)
    codec = codec_of(kind)
    if codec is not None and (avro := (codec.json_schema or {}).get("x-avro-schema")):
        return _of_avro(avro)
    return BodySchema(fields_of_class(kind), name=schema_name(kind))


def _is_path(text: str) -> bool:
    if text.startswith(("/", "./", "../", "~", "file://")):
        return True
    return " " not in text and text.partition("#")[0].endswith((*_DESCRIPTORS, *_TEXTS))


def _of_file(text: str) -> BodySchema:
    place, _, name = text.partition("#")
    path = Path(place).expanduser()
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"the schema file {place} is no file")
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the schema file {place} cannot be read: {error.strerror or error}") from error
    if len(data) > SCHEMA_BYTES_MAX:
        raise ConfigError(f"the schema file {place} has {len(data)} bytes, more than {SCHEMA_BYTES_MAX}")
    if path.suffix in _DESCRIPTORS:
        found = type_of_file(data, name)
        return BodySchema(fields_of_protobuf(found), protobuf=found, name=found.name)
    try:
        content = data.decode().strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"the schema file {place} is no text; descriptor sets end in .desc") from error
    return schema_of_document(content) if content.startswith("{") else BodySchema(parse_ddl(content))


def schema_of_document(text: str) -> BodySchema:
    """The schema in a JSON Schema or Avro schema. Raises ConfigError."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"the schema begins as JSON and is none: {error}") from error
    if document.get("type") == "record":
        return _of_avro(document)
    return BodySchema(fields_of_json_schema(document), name=str(document.get("title", "")))


def _of_avro(document: Mapping[str, Any]) -> BodySchema:
    try:
        fields = fields_of_avro(document)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ConfigError(f"this is no Avro schema: {type(error).__name__}: {error}") from error
    text = msgspec.json.encode(without_uuids(document)).decode()
    return BodySchema(fields, avro=text, name=str(document.get("name", "")))


def _of_class(path: str, imports: bool) -> BodySchema:
    module, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    if not imports and module not in sys.modules:
        raise ConfigError(f"the schema is class {path}, and this program has not imported {module}")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        text = f"the schema {path} is taken for a class, and it cannot be imported: {error}"
        raise ConfigError(f"{text}; DDL has a type after each name, as in id bigint") from error
    return schema_of_class(found)
