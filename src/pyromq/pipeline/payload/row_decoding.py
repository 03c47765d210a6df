"""Bodies to rows one by one: for formats that nothing reads in batches, and for bodies that a batch does not take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Final, Required, TypedDict

import msgspec
import pyarrow as pa

from pyromq.pipeline.core.option_texts import PayloadFormat
from pyromq.pipeline.payload.arrow_types import arrow_type
from pyromq.pipeline.payload.json_columns import Decoded, from_wire, wire_type
from pyromq.typed.avro import AvroRecords
from pyromq.typed.body_errors import REASON_CHARACTERS_MAX, one_line
from pyromq.typed.codecs import DATA_ERRORS
from pyromq.typed.schemas.avro_schema import avro_of_fields
from pyromq.typed.schemas.fields import JSON_TEXT, FieldType
from pyromq.typed.schemas.given import BodySchema
from pyromq.typed.schemas.protobuf_schema import class_of, row_of

RowDecode = Callable[[bytes], Any]
"""A body to a dict. Raises one of DATA_ERRORS."""

_BITS: Final = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_PLAIN: Final[dict[str, Any]] = {
    "boolean": bool, "float": float, "double": float, "string": str, "decimal": Decimal, JSON_TEXT: Any,
}  # fmt: skip
_NATIVE: Final[dict[str, Any]] = {"binary": bytes, "date": date, "timestamp": datetime, "timestamp_ntz": datetime}
_ERRORS: Final = (*DATA_ERRORS, msgspec.MsgspecError, pa.ArrowException)


class RowDecoder:
    """Decodes bodies of one type, which is a struct; ``wire`` is the type of the values that ``decode`` gives."""

    def __init__(self, kind: FieldType, decode: RowDecode, *, wire: pa.DataType | None = None) -> None:
        self._kind = kind
        self._decode = decode
        self._wire = arrow_type(kind) if wire is None else wire

    def __call__(self, bodies: Sequence[bytes]) -> Decoded:
        errors: dict[int, str] = {}
        rows = [self._row(body, number, errors) for number, body in enumerate(bodies)]
        try:
            return self._array(rows), errors
        except _ERRORS:
            return self._each(rows, errors), errors

    def _row(self, body: bytes, number: int, errors: dict[int, str]) -> Any:
        try:
            return self._decode(body)
        except _ERRORS as error:
            errors[number] = reason_of(error)
            return None

    def _array(self, rows: list[Any]) -> pa.Array:
        return from_wire(pa.array(rows, self._wire), self._kind)

    def _each(self, rows: list[Any], errors: dict[int, str]) -> pa.Array:
        """Values that a column does not take: a decimal with more digits than it has, a text that is no time."""
        made = []
        for number, row in enumerate(rows):
            try:
                made.append(self._array([row]))
            except _ERRORS as error:
                errors[number] = reason_of(error)
                made.append(self._array([None]))
        return pa.concat_arrays(made)


def reason_of(error: Exception) -> str:
    """Why a body is not decoded, in one line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return one_line(str(error) or type(error).__name__, REASON_CHARACTERS_MAX)


def row_decoder(format_: PayloadFormat, schema: BodySchema, kind: FieldType) -> RowDecoder:
    """The decoder for a format. Raises ConfigError where the format's package is missing."""
    match format_:
        case PayloadFormat.JSON:
            return RowDecoder(kind, _with_texts(json_rows(kind), kind), wire=wire_type(kind))
        case PayloadFormat.MSGPACK:
            decode = msgspec.msgpack.Decoder(python_type(kind, native=True)).decode
            return RowDecoder(kind, _with_texts(decode, kind))
        case PayloadFormat.AVRO:
            return RowDecoder(kind, AvroRecords(schema.avro or avro_of_fields(schema.fields)).decode)
        case PayloadFormat.PROTOBUF:
            assert schema.protobuf is not None
            read = class_of(schema.protobuf).FromString
            return RowDecoder(kind, lambda body: row_of(_message(read, body)))
        case PayloadFormat.TEXT:
            (field,) = kind.fields
            return RowDecoder(kind, lambda body: {field.name: body.decode()})


def json_rows(kind: FieldType) -> RowDecode:
    return msgspec.json.Decoder(python_type(kind, native=False)).decode


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


def _member(kind: FieldType, required: bool, native: bool) -> Any:
    plain = python_type(kind, native=native)
    return Required[plain] if required else plain | None


def _message(read: RowDecode, body: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return read(body)
    except DecodeError as error:
        raise ValueError(str(error) or "it is no Protobuf") from error


def _with_texts(decode: RowDecode, kind: FieldType) -> RowDecode:
    """Values of any shape become the JSON that they are written in."""
    if not _has_any(kind):
        return decode
    return lambda body: _texts(decode(body), kind)


def _has_any(kind: FieldType) -> bool:
    return kind.name == JSON_TEXT or any(map(_has_any, (*kind.items, *(each.type for each in kind.fields))))


def _texts(value: Any, kind: FieldType) -> Any:
    if value is None:
        return None
    match kind.name:
        case "json":
            return msgspec.json.encode(value).decode()
        case "array":
            return [_texts(each, kind.items[0]) for each in value]
        case "map":
            return {key: _texts(each, kind.items[1]) for key, each in value.items()}
        case "struct":
            return {each.name: _texts(value.get(each.name), each.type) for each in kind.fields}
        case _:
            return value
