"""Avro: bodies without the schema, whose name and fingerprint travel with the message.

    register(avro(Order, {"type": "record", "name": "Order", "namespace": "shop", "fields": […]}, older=[v1]))

    content_type = application/avro        schema = shop.Order#3c1f9a7e04b2d865
                                                    name       └ CRC-64-AVRO of the canonical schema

A reader needs the schema that a body was written with: it is found by its fingerprint among the schema and ``older``
ones, and resolved to the present schema by Avro's rules. Bodies of other clients, without the property, are read as
written with the present schema.
"""

from __future__ import annotations

import datetime
import decimal
import io
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pyromq.errors import ConfigError
from pyromq.typed.codecs import Codec
from pyromq.typed.content_types import Format
from pyromq.typed.hooks import dec_hook, enc_hook
from pyromq.typed.kinds import is_pydantic

AvroSchema = Mapping[str, Any] | str
_KEPT: Final = (bytes, bytearray, datetime.datetime, datetime.date, datetime.time, decimal.Decimal, uuid.UUID)
"""What Avro writes itself, by its logical types; the rest becomes text, numbers, lists and dicts."""
_SCHEMA_ERRORS: Final = (ValueError, TypeError, LookupError, AttributeError)


def avro(kind: type[Any], schema: AvroSchema, *, older: Sequence[AvroSchema] = ()) -> Codec:
    """A codec for ``register``: values of ``kind`` (a dataclass, msgspec.Struct or pydantic model) as Avro.

    ``schema`` is a record, as dict or JSON text; ``older`` are those that messages still in the topic were written
    with. Raises ConfigError for a schema that is none, and without fastavro.
    """
    records = AvroRecords(schema, older)
    document = records.reader if isinstance(records.reader, dict) else {}
    return Codec(
        type=kind,
        content_type=Format.AVRO.value,
        encode=lambda value: records.encode(_as_record(value)),
        decode=lambda body, written_as: _as_kind(records.decode(body, written_as), kind),
        schema=records.name,
        json_schema={"x-avro-schema": {key: each for key, each in document.items() if not key.startswith("__")}},
    )


class AvroRecords:
    """Bodies of one Avro schema ⇄ dicts. ``name`` is what messages are sent with. Raises ConfigError."""

    def __init__(self, schema: AvroSchema, older: Sequence[AvroSchema] = ()) -> None:
        self._fastavro = _fastavro()
        self.reader, self.name = _parsed(self._fastavro, schema)
        others = (_parsed(self._fastavro, old) for old in older)
        self._writers = {self.name: self.reader, **{title: each for each, title in others}}
        self._by_text: dict[str, Any] = {}  # writers of ``decode_by``

    @property
    def names(self) -> list[str]:
        """Names of the schemas whose bodies are read: the present one and older ones."""
        return list(self._writers)

    def encode(self, record: Any) -> bytes:
        """Raise ValueError for a record that the schema does not fit."""
        fastavro, buffer = self._fastavro, io.BytesIO()
        try:
            fastavro.schemaless_writer(buffer, self.reader, record, strict_allow_default=True)
        except fastavro.validation.ValidationError as error:
            raise ValueError(str(error)) from error
        return buffer.getvalue()

    def decode(self, body: bytes, written_as: str = "") -> Any:
        """Read a body that was written with the schema of that name, the present one without. Raises ValueError."""
        writer = self._writers.get(written_as or self.name)
        if writer is None:
            text = f"it was written with schema {written_as}, and {self.name} is known"
            raise ValueError(f"{text}: give that schema to avro(…, older=[…])")
        return self._decoded(body, writer)

    def decode_by(self, body: bytes, schema: str) -> Any:
        """Read a body that was written with this schema. Raises ValueError, ConfigError for what is no schema."""
        writer = self._by_text.get(schema)
        if writer is None:
            parsed, _ = _parsed(self._fastavro, without_uuids(msgspec.json.decode(schema)))
            writer = self._by_text[schema] = self.reader if parsed == self.reader else parsed
        return self._decoded(body, writer)

    def _decoded(self, body: bytes, writer: Any) -> Any:
        fastavro, buffer = self._fastavro, io.BytesIO(body)
        try:
            record = fastavro.schemaless_reader(buffer, writer, None if writer is self.reader else self.reader)
        except (fastavro.read.SchemaResolutionError, AssertionError, OverflowError, MemoryError) as error:
            raise ValueError(str(error) or "it is no Avro") from error
        if buffer.tell() != len(body):
            raise ValueError(f"{len(body) - buffer.tell()} bytes are left over: it is of another schema")
        return record


def without_uuids(schema: Any) -> Any:
    """The schema with UUIDs as the strings that they are written as."""
    if isinstance(schema, Mapping):
        is_uuid = schema.get("logicalType") == "uuid" and schema.get("type") == "string"
        return {key: without_uuids(each) for key, each in schema.items() if not (is_uuid and key == "logicalType")}
    return [without_uuids(each) for each in schema] if isinstance(schema, list) else schema


def _fastavro() -> Any:
    try:
        import fastavro
        import fastavro.read
        import fastavro.schema
        import fastavro.validation
    except ModuleNotFoundError as error:
        raise ConfigError("Avro needs fastavro: pip install 'pyromq[avro]'") from error
    return fastavro


def _parsed(fastavro: Any, schema: AvroSchema) -> tuple[Any, str]:
    """The schema as fastavro wants it, and what it is called in messages."""
    try:
        source = msgspec.json.decode(schema) if isinstance(schema, str) else schema
        parsed = fastavro.parse_schema(source)
        canonical = fastavro.schema.to_parsing_canonical_form(parsed)
        mark = fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, *_SCHEMA_ERRORS) as error:
        raise ConfigError(f"this is no Avro schema: {type(error).__name__}: {error}") from error
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise ConfigError("the Avro schema of a message is that of a record: {'type': 'record', 'name': …}")
    return parsed, f"{parsed['name']}#{mark}"


def _as_record(value: Any) -> Any:
    if is_pydantic(type(value)):
        return type(value).__pydantic_serializer__.to_python(value)
    return msgspec.to_builtins(value, builtin_types=_KEPT, enc_hook=enc_hook)


def _as_kind(record: Any, kind: type[Any]) -> Any:
    if is_pydantic(kind):
        return dec_hook(kind, record)
    return msgspec.convert(record, kind, dec_hook=dec_hook)
