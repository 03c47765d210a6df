"""Bodies of a topic by its schema: values to bodies that fit it, bodies to plain values.

    value ──▶ dict of plain values ──▶ checked against the fields ──▶ body, content type, name of the schema
                                             └ SchemaMismatchError: field, reason, version of the schema

What is sent as JSON or MessagePack is what ``typed.encode`` writes, so fields that the schema does not name stay in it;
Avro and Protobuf have no place for them, and refuse them.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import msgspec

from pyromq.errors import MessageRefusedError, SchemaMismatchError
from pyromq.typed.avro import AvroRecords
from pyromq.typed.content_types import format_of
from pyromq.typed.encoding import Encoded, encode
from pyromq.typed.hooks import enc_hook
from pyromq.typed.kinds import is_protobuf, is_pydantic, schema_name
from pyromq.typed.schemas.avro_schema import avro_of_fields
from pyromq.typed.schemas.fields import FieldType
from pyromq.typed.schemas.framing import framed
from pyromq.typed.schemas.given import BodySchema
from pyromq.typed.schemas.payloads import FORMATS, PayloadFormat
from pyromq.typed.schemas.protobuf_schema import class_of, fill, indexes_of, row_of
from pyromq.typed.schemas.rows import (
    ROW_ERRORS,
    RowDecode,
    WriterOf,
    has_any,
    python_type,
    reason_of,
    row_decode,
    texts_of,
)

_KEPT: Final = (bytes, bytearray, datetime.datetime, datetime.date, Decimal)
"""What stays a value on the way to Avro and Protobuf; the rest becomes text, numbers, lists and dicts."""
_ERRORS: Final = (*ROW_ERRORS, AttributeError)
_at = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL).fullmatch
_missing = re.compile(r"Object missing required field `([^`]*)`").match
_STRUCTURED: Final = (PayloadFormat.JSON, PayloadFormat.MSGPACK)


class TopicBodies:
    """How values of one topic become bodies and bodies values, by one version of its schema.

    ``older`` are Avro schemas of earlier versions, ``writer_of`` finds those of a registry. Raises ConfigError where a
    package is missing.
    """

    def __init__(
        self,
        topic: str,
        version: int,
        payload: PayloadFormat,
        schema: BodySchema,
        *,
        older: Sequence[str] = (),
        writer_of: WriterOf | None = None,
    ) -> None:
        self.topic, self.version, self.payload, self.schema = topic, version, payload, schema
        self._older = older
        self._kind = FieldType("struct", fields=schema.fields)
        self._decode: RowDecode = row_decode(payload, schema, self._kind, native=True, writer_of=writer_of)
        self._decimals = _decimals_in(self._kind)

    @property
    def is_framed(self) -> bool:
        """Whether bodies have an id of a registry before them."""
        return bool(self.schema.registry_id)

    def encode(self, value: Any) -> Encoded:
        """The body of a value, checked. Raises SchemaMismatchError, MessageRefusedError for what is no value at all."""
        kind = type(value)
        try:
            body = self._body(value, kind)
        except _ERRORS as error:
            raise self._mismatch(error) from error
        name = self._records.name if self.payload is PayloadFormat.AVRO else schema_name(kind) or self.schema.name
        if self.payload is PayloadFormat.PROTOBUF:
            name = self.schema.name
        return Encoded(body, FORMATS[self.payload].value, name)

    def decode(self, body: bytes, written_as: str = "") -> Any:
        """The plain value of a body: a dict, or the text. Raises ValueError with the reason, and what a registry does.

        ``written_as`` is the schema name of the message, by which an earlier version of an Avro schema is found.
        """
        try:
            if self.payload is PayloadFormat.AVRO and not self.is_framed:
                return self._records.decode(body, written_as if written_as in self._names else "")
            found = self._decode(body)
        except _ERRORS as error:
            path, reason = _path_and_reason(error)
            raise ValueError(f"field {path}: {reason}" if path else reason) from error
        return found["value"] if self.payload is PayloadFormat.TEXT else found

    def is_of(self, content_type: str | None) -> bool:
        """Whether a message that says this of itself is written as the schema says; who says nothing is."""
        return not content_type or format_of(content_type) is FORMATS[self.payload]

    # --- values to bodies ---

    @cached_property
    def _records(self) -> AvroRecords:
        return AvroRecords(self.schema.avro or avro_of_fields(self.schema.fields), self._older)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._records.names)

    def _body(self, value: Any, kind: type[Any]) -> bytes:
        if self.payload is PayloadFormat.TEXT:
            if not isinstance(value, str):
                raise ValueError(f"the topic has text, not {kind.__name__}")
            return value.encode()
        if self.payload in _STRUCTURED:
            body = encode(value, content_type=FORMATS[self.payload].value).body
            made = self._framed(body)
            self._check_digits(self._decode(made))
            return made
        if is_protobuf(kind) and self.payload is PayloadFormat.PROTOBUF:
            self._check_type(kind)
            return self._framed(value.SerializeToString())
        record = self._record(value, kind)
        if self.payload is PayloadFormat.AVRO:
            return self._framed(self._records.encode(record))
        assert self.schema.protobuf is not None
        message = class_of(self.schema.protobuf)()
        fill(message, record)
        return self._framed(message.SerializeToString())

    def _record(self, value: Any, kind: type[Any]) -> dict[str, Any]:
        plain = _plain(value, kind)
        if not isinstance(plain, Mapping):
            raise ValueError(f"the topic has records, not {kind.__name__}")
        if unknown := _unknown_field(plain, self._kind, ""):
            raise ValueError(f"the schema has no such field - at `$.{unknown}`")
        record = msgspec.convert(plain, python_type(self._kind, native=True))
        self._check_digits(record)
        if has_any(self._kind):
            record = texts_of(record, self._kind)
        filled: dict[str, Any] = _with_nulls(record, self._kind) if self.payload is PayloadFormat.AVRO else record
        return filled

    def _framed(self, body: bytes) -> bytes:
        schema = self.schema
        if not schema.registry_id:
            return body
        indexes = indexes_of(schema.protobuf) if schema.protobuf is not None else None
        return framed(schema.registry_id, body, indexes)

    def _check_type(self, kind: type[Any]) -> None:
        assert self.schema.protobuf is not None
        if (name := kind.DESCRIPTOR.full_name) != self.schema.protobuf.name:
            raise ValueError(f"the topic has {self.schema.protobuf.name}, not {name}")

    def _check_digits(self, record: Any) -> None:
        """A decimal with more digits than its field is not read back as it is."""
        if self._decimals:
            for place, value, kind in _decimals_of(record, self._kind, ""):
                if not _fits(value, kind):
                    raise ValueError(f"{value} has more digits than {kind} - at `$.{place}`")

    def _mismatch(self, error: Exception) -> MessageRefusedError:
        if isinstance(error, MessageRefusedError):
            return error
        path, reason = _path_and_reason(error)
        source = f"id {self.schema.registry_id} in the registry" if self.is_framed else f"version {self.version}"
        return SchemaMismatchError(topic=self.topic, version=self.version, field=path, reason=reason, schema=source)


def _path_and_reason(error: Exception) -> tuple[str, str]:
    text = reason_of(error)
    if found := _missing(text):
        parent = (_at(text) or found)[2] if " - at " in text else ""
        return f"{parent}.{found[1]}" if parent else found[1], "it is required, and missing"
    parts = _at(text)
    assert parts is not None
    return parts[2] or "", parts[1]


def _plain(value: Any, kind: type[Any]) -> Any:
    if is_protobuf(kind):
        return row_of(value)
    if is_pydantic(kind):
        return kind.__pydantic_serializer__.to_python(value)
    return msgspec.to_builtins(value, builtin_types=_KEPT, enc_hook=enc_hook)


def _unknown_field(value: Any, kind: FieldType, place: str) -> str:
    """The first member that no field is there for; empty where there is none."""
    match kind.name:
        case "struct" if isinstance(value, Mapping):
            known = {each.name: each.type for each in kind.fields}
            for name, each in value.items():
                if name not in known:
                    return f"{place}{name}"
                if found := _unknown_field(each, known[name], f"{place}{name}."):
                    return found
        case "array" if isinstance(value, list | tuple):
            return next((found for each in value if (found := _unknown_field(each, kind.items[0], place))), "")
        case "map" if isinstance(value, Mapping):
            inside = value.values()
            return next((found for each in inside if (found := _unknown_field(each, kind.items[1], place))), "")
    return ""


def _with_nulls(value: Any, kind: FieldType) -> Any:
    """Records that have all their fields: Avro writes each, null or not."""
    if value is None:
        return None
    match kind.name:
        case "struct":
            return {each.name: _with_nulls(value.get(each.name), each.type) for each in kind.fields}
        case "array":
            return [_with_nulls(each, kind.items[0]) for each in value]
        case "map":
            return {key: _with_nulls(each, kind.items[1]) for key, each in value.items()}
        case _:
            return value


def _decimals_in(kind: FieldType) -> bool:
    return kind.name == "decimal" or any(map(_decimals_in, (*kind.items, *(each.type for each in kind.fields))))


def _decimals_of(value: Any, kind: FieldType, place: str) -> list[tuple[str, Decimal, FieldType]]:
    if value is None or not _decimals_in(kind):
        return []
    match kind.name:
        case "struct":
            inner = ((f"{place}.{each.name}".lstrip("."), value.get(each.name), each.type) for each in kind.fields)
        case "array":
            inner = ((f"{place}[{at}]", each, kind.items[0]) for at, each in enumerate(value))
        case "map":
            inner = ((f"{place}.{key}", each, kind.items[1]) for key, each in value.items())
        case _:
            return [(place, value, kind)]
    return [found for where, each, inside in inner for found in _decimals_of(each, inside, where)]


def _fits(value: Decimal, kind: FieldType) -> bool:
    if not value.is_finite():
        return False
    _, digits, exponent = value.normalize().as_tuple()
    assert isinstance(exponent, int)
    return -exponent <= kind.scale and len(digits) + exponent <= kind.precision - kind.scale
