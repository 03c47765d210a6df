"""Bodies of a schema to dicts, one by one: what each format makes of a body, or why it is none.

A body of a registry has the id of its schema before it (``framing``): then Avro is read with the schema that it was
written with, which ``writer_of`` finds by the id.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache, partial
from typing import Annotated, Any, Final, Required, TypedDict

import msgspec

from pyromq.typed.avro import AvroRecords
from pyromq.typed.body_errors import REASON_CHARACTERS_MAX, one_line
from pyromq.typed.codecs import DATA_ERRORS
from pyromq.typed.schemas.avro_schema import avro_of_fields
from pyromq.typed.schemas.fields import JSON_TEXT, FieldType
from pyromq.typed.schemas.framing import HEADER_BYTES, indexed, schema_id_of
from pyromq.typed.schemas.given import BodySchema
from pyromq.typed.schemas.payloads import PayloadFormat
from pyromq.typed.schemas.protobuf_schema import class_of, indexes_of, row_of

RowDecode = Callable[[bytes], Any]
"""A body to a dict. Raises one of ROW_ERRORS."""
WriterOf = Callable[[int], str]
"""The Avro schema with this id, as JSON text. Raises what a registry raises."""
ROW_ERRORS: Final = (*DATA_ERRORS, msgspec.MsgspecError)

_BITS: Final = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_PLAIN: Final[dict[str, Any]] = {
    "boolean": bool, "float": float, "double": float, "string": str, "decimal": Decimal, JSON_TEXT: Any,
}  # fmt: skip
_NATIVE: Final[dict[str, Any]] = {"binary": bytes, "date": date, "timestamp": datetime, "timestamp_ntz": datetime}


def row_decode(
    format_: PayloadFormat, schema: BodySchema, kind: FieldType, *, native: bool, writer_of: WriterOf | None = None
) -> RowDecode:
    """The function that reads bodies of a schema as dicts of the fields of ``kind``.

    With ``native``, times and bytes in JSON are values, else the texts that JSON has; other formats have values. Raises
    ConfigError where the package of the format is missing.
    """
    match format_:
        case PayloadFormat.JSON:
            return _unframed(schema, _with_texts(msgspec.json.Decoder(python_type(kind, native=native)).decode, kind))
        case PayloadFormat.MSGPACK:
            return _with_texts(msgspec.msgpack.Decoder(python_type(kind, native=True)).decode, kind)
        case PayloadFormat.AVRO:
            records = AvroRecords(schema.avro or avro_of_fields(schema.fields))
            if not schema.registry_id:
                return records.decode
            assert writer_of is not None
            return partial(_framed_avro, records, writer_of)
        case PayloadFormat.PROTOBUF:
            assert schema.protobuf is not None
            read = class_of(schema.protobuf).FromString
            if schema.registry_id:
                return partial(_framed_protobuf, read, indexes_of(schema.protobuf))
            return lambda body: row_of(_message(read, body))
        case PayloadFormat.TEXT:
            (field,) = kind.fields
            return lambda body: {field.name: body.decode()}


@lru_cache(256)
def python_type(kind: FieldType, *, native: bool) -> Any:
    """The type that msgspec decodes; with ``native``, times and bytes are values, else texts."""
    if kind.name in _BITS:
        limit = 1 << _BITS[kind.name]
        return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
    match kind.name:
        case "array":
            return list[python_type(kind.items[0], native=native) | None]  # type: ignore[misc]
        case "map":
            return dict[str, python_type(kind.items[1], native=native) | None]  # type: ignore[misc]
        case "struct":
            return TypedDict(  # type: ignore[operator]
                "Body", {each.name: _member(each.type, each.required, native) for each in kind.fields}, total=False
            )
        case name:
            return _PLAIN.get(name) or (_NATIVE[name] if native else str)


def reason_of(error: Exception) -> str:
    """Why a body is not decoded, in one line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return one_line(str(error) or type(error).__name__, REASON_CHARACTERS_MAX)


def texts_of(value: Any, kind: FieldType) -> Any:
    """The value with those of any shape as the JSON that they are written in."""
    if value is None:
        return None
    match kind.name:
        case "json":
            return msgspec.json.encode(value).decode()
        case "array":
            return [texts_of(each, kind.items[0]) for each in value]
        case "map":
            return {key: texts_of(each, kind.items[1]) for key, each in value.items()}
        case "struct":
            return {each.name: texts_of(value.get(each.name), each.type) for each in kind.fields}
        case _:
            return value


def has_any(kind: FieldType) -> bool:
    """Whether some field has values of any shape."""
    return kind.name == JSON_TEXT or any(map(has_any, (*kind.items, *(each.type for each in kind.fields))))


def _member(kind: FieldType, required: bool, native: bool) -> Any:
    plain = python_type(kind, native=native)
    return Required[plain] if required else plain | None


def _with_texts(decode: RowDecode, kind: FieldType) -> RowDecode:
    if not has_any(kind):
        return decode
    return lambda body: texts_of(decode(body), kind)


# --- what stands before a body ---------------------------------------------------------------------------------------


def without_id(body: bytes) -> bytes:
    """A body of a registry without the id before it. Raises ValueError where there is none."""
    schema_id_of(body)
    return body[HEADER_BYTES:]


def _unframed(schema: BodySchema, decode: RowDecode) -> RowDecode:
    if not schema.registry_id:
        return decode
    return lambda body: decode(without_id(body))


def _framed_avro(records: AvroRecords, writer_of: WriterOf, body: bytes) -> Any:
    return records.decode_by(body[HEADER_BYTES:], writer_of(schema_id_of(body)))


def _framed_protobuf(read: RowDecode, wanted: tuple[int, ...], body: bytes) -> Any:
    schema_id_of(body)
    found, place = indexed(body)
    if found != wanted:
        raise ValueError(f"it is message type {list(found)} of its schema, not {list(wanted)}")
    return row_of(_message(read, body[place:]))


def _message(read: RowDecode, body: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return read(body)
    except DecodeError as error:
        raise ValueError(str(error) or "it is no Protobuf") from error
