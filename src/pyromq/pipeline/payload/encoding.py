"""Columns to bodies: what a typed read decodes, the sink encodes, in the same formats and by the same schemas.

A field that is null is left out of JSON and MessagePack, as Spark's ``to_json`` has it; decimals and times are written
as ``pyromq.typed`` writes them, texts that lose nothing. Python makes each body: no library writes them in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, Final

import msgspec
import pyarrow as pa

from pyromq.errors import MessageRefusedError
from pyromq.pipeline.core.errors import SchemaError
from pyromq.pipeline.payload.arrow_types import fields_of
from pyromq.typed.avro import AvroRecords
from pyromq.typed.codecs import DATA_ERRORS
from pyromq.typed.content_types import CONTENT_TYPE, SCHEMA
from pyromq.typed.schemas.avro_schema import avro_of_fields
from pyromq.typed.schemas.fields import Fields, FieldType, ddl_of, optional
from pyromq.typed.schemas.framing import framed
from pyromq.typed.schemas.given import BodySchema
from pyromq.typed.schemas.payloads import FORMATS, PayloadFormat
from pyromq.typed.schemas.protobuf_schema import class_of, fill, indexes_of
from pyromq.typed.schemas.rows import reason_of

Encode = Callable[[dict[str, Any]], bytes]
_AS_THEY_ARE: Final = frozenset(("boolean", "tinyint", "smallint", "int", "bigint", "string", "decimal"))
_ERRORS: Final = (*DATA_ERRORS, msgspec.MsgspecError, AttributeError)


class BodyEncoder:
    """Makes bodies of the columns that are fields of the schema."""

    def __init__(self, format_: PayloadFormat, schema: BodySchema) -> None:
        self._fields = schema.fields
        self._encode = _with_id(_encode_of(format_, schema), schema)
        self._is_json = format_ is PayloadFormat.JSON
        self._has_nulls = format_ is PayloadFormat.AVRO  # whose fields are there, null or not
        self._is_open = format_ in (PayloadFormat.JSON, PayloadFormat.MSGPACK)  # values of any shape are values

    def bodies(self, batch: pa.RecordBatch, first: int) -> pa.Array:
        """The body of each row, of which ``first`` is the number of the first. Raises MessageRefusedError."""
        columns = [batch.column(each.name) for each in self._fields]
        self._check(columns, first)
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([self._body(row, first + number) for number, row in enumerate(rows)], pa.binary())

    def _body(self, row: tuple[Any, ...], number: int) -> bytes:
        try:
            return self._encode(self._members(row, self._fields))
        except _ERRORS as error:
            raise MessageRefusedError(f"row {number} is not what the schema says: {reason_of(error)}") from error

    def _members(self, values: Iterable[Any], fields: Fields) -> dict[str, Any]:
        return {
            field.name: value if value is None or field.type.name in _AS_THEY_ARE else self._plain(value, field.type)
            for field, value in zip(fields, values, strict=True)
            if value is not None or self._has_nulls
        }

    def _plain(self, value: Any, kind: FieldType) -> Any:
        """Maps as dicts, structs without their nulls, JSON as what it says. Raises ValueError."""
        match kind.name:
            case _ if value is None:
                return None
            case "array":
                return [self._plain(each, kind.items[0]) for each in value]
            case "map":
                return {key: self._plain(each, kind.items[1]) for key, each in value}
            case "struct":
                return self._members((value.get(each.name) for each in kind.fields), kind.fields)
            case "json":
                return msgspec.json.decode(value) if self._is_open else value
            case "float" | "double" if self._is_json and not isfinite(value):
                raise ValueError(f"{value} is no number of JSON")
            case _:
                return value

    def _check(self, columns: Sequence[pa.Array], first: int) -> None:
        for field, column in zip(self._fields, columns, strict=True):
            if field.required and column.null_count:
                row = first + column.is_null().index(True).as_py()
                raise MessageRefusedError(f"column {field.name}, row {row}: it is null, and the schema says NOT NULL")


def marks_of(format_: PayloadFormat, schema: BodySchema) -> list[tuple[str, str]]:
    """Properties that say what the bodies are, as ``pyromq.typed`` has them."""
    name = schema.name
    if format_ is PayloadFormat.AVRO:
        name = AvroRecords(schema.avro or avro_of_fields(schema.fields)).name
    return [(CONTENT_TYPE, FORMATS[format_].value), *([(SCHEMA, name)] if name else [])]


def encoded_schema(schema: BodySchema | None, columns: Sequence[pa.Field]) -> BodySchema:
    """The schema that these columns are written with: the given one, or else they are it. Raises SchemaError."""
    given = fields_of(columns)
    if schema is None:
        return BodySchema(given)
    known = {each.name: each for each in schema.fields}
    for field in given:
        if field.name not in known:
            text = f"column {field.name} is neither one of the sink nor a field of the schema"
            raise SchemaError(f"{text}, which has {', '.join(known)}: drop it")
        wanted, found = ddl_of(optional([known[field.name]])), ddl_of(optional([field]))
        if wanted != found:
            raise SchemaError(f"column {found} has another type than the schema: {wanted}; cast it")
    names = [each.name for each in given]
    if missing := [each.name for each in schema.fields if each.required and each.name not in names]:
        raise SchemaError(f"column {missing[0]} is missing: the schema says NOT NULL")
    there: Fields = tuple(known[name] for name in names)
    return replace(schema, fields=there, avro=schema.avro or _avro_text(schema))


def _avro_text(schema: BodySchema) -> str:
    return msgspec.json.encode(avro_of_fields(schema.fields)).decode()


def _encode_of(format_: PayloadFormat, schema: BodySchema) -> Encode:
    match format_:
        case PayloadFormat.JSON:
            return msgspec.json.Encoder().encode
        case PayloadFormat.MSGPACK:
            return msgspec.msgpack.Encoder().encode
        case PayloadFormat.AVRO:
            return AvroRecords(schema.avro or avro_of_fields(schema.fields)).encode
        case PayloadFormat.PROTOBUF:
            assert schema.protobuf is not None
            return _protobuf_encode(class_of(schema.protobuf))
        case PayloadFormat.TEXT:
            (field,) = schema.fields
            return lambda row: row[field.name].encode()


def _with_id(encode: Encode, schema: BodySchema) -> Encode:
    """Bodies of a registry have the id of their schema before them."""
    if not schema.registry_id:
        return encode
    indexes = indexes_of(schema.protobuf) if schema.protobuf is not None else None
    return lambda row: framed(schema.registry_id, encode(row), indexes)


def _protobuf_encode(kind: Any) -> Encode:
    def encode(row: dict[str, Any]) -> bytes:
        message = kind()
        fill(message, row)
        return bytes(message.SerializeToString())

    return encode
