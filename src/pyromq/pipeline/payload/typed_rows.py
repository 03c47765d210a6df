"""Typed rows: batches with bodies to batches with the columns that a query asks for.

    system columns │ body   ──▶   system columns │ columns of the schema │ _error │ _corrupt_record

``_error`` says why a body could not be decoded and ``_corrupt_record`` is that body, both null where it could: the
columns of the schema are null then. With mode ``failfast`` such a row ends the task, with ``dropmalformed`` it is left
out. This is the one place where bodies become columns, whoever has read them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from pyromq.client.schemas.topic_schemas import registry_at
from pyromq.errors import ConfigError
from pyromq.pipeline.arrow.columns import ARROW_TYPES, COLUMNS, check_schema, spark_schema
from pyromq.pipeline.core.errors import CorruptRowError, OptionError, SchemaError
from pyromq.pipeline.core.option_texts import PayloadMode
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.payload.arrow_types import fields_of
from pyromq.pipeline.payload.dead_letters import DeadLetterTopic, UndecodedBody
from pyromq.pipeline.payload.json_columns import ArrowJsonDecoder, Decoded, WithoutIds, is_for_arrow
from pyromq.pipeline.payload.row_decoding import row_decoder
from pyromq.typed.schemas.fields import TEXT_FIELDS, Fields, FieldType, ddl_of, optional
from pyromq.typed.schemas.given import BodySchema, schema_given
from pyromq.typed.schemas.payloads import PayloadFormat

logger = logging.getLogger(__name__)

ERROR: Final = "_error"
CORRUPT_RECORD: Final = "_corrupt_record"
OF_BAD_ROWS: Final = {ERROR: pa.string(), CORRUPT_RECORD: pa.binary()}
_BODY: Final = "body"
_PLACE: Final = ("topic", "broker", "queue_id", "queue_offset")
_UNREADABLE: Final = "its body cannot be decompressed"


def payload_schema(payload: PayloadFormat | None, text: str) -> BodySchema | None:
    """The schema that options give; None when the columns of a query have to say it. Raises OptionError."""
    if payload is PayloadFormat.TEXT:
        return BodySchema(TEXT_FIELDS)
    if not text:
        return None
    try:
        found = schema_given(text)
    except ConfigError as error:
        raise OptionError("schema", str(error)) from error
    if payload is PayloadFormat.PROTOBUF and found.protobuf is None:
        text = "Protobuf needs a message type: a generated class, or a descriptor set as x.desc#shop.Order"
        raise OptionError("schema", text)
    return with_free_names(found)


def with_free_names(schema: BodySchema) -> BodySchema:
    """The schema. Raises OptionError where a field has the name of a column."""
    if taken := [each.name for each in schema.fields if is_taken(each.name)]:
        text = f"field {taken[0]} has the name of a column of the source; read body and decode it with from_json"
        raise OptionError("schema", text)
    return schema


def is_taken(name: str) -> bool:
    """Whether a field cannot be a column of its own."""
    return name in ARROW_TYPES or name in OF_BAD_ROWS


def _schema_of(options: SourceOptions) -> BodySchema | None:
    if options.body_schema is not None:
        return with_free_names(options.body_schema)
    return payload_schema(options.payload, options.schema)


def typed_schema(options: SourceOptions) -> str:
    """All columns of a typed read as DDL: those of the source without the body, those of the schema, those of bad rows.

    Raises OptionError.
    """
    schema = _schema_of(options)
    if schema is None:
        text = "payload needs one: DDL, a file or a class in this option, topic for the one that is kept with it"
        raise OptionError("schema", f"{text}, or the columns in .schema(…)")
    system = spark_schema(properties_as_map=options.properties_as_map, without=(_BODY,))
    return f"{system}, {ddl_of(optional(schema.fields))}, {ERROR} string, {CORRUPT_RECORD} binary"


@dataclass(frozen=True)
class TypedRows:
    """What of the stored messages becomes rows. Frozen, so it travels to workers with every reader."""

    asked: pa.Schema
    payload: PayloadFormat
    mode: PayloadMode
    schema: BodySchema
    fields: Fields  # of the schema, those that are asked for
    aside: DeadLetterTopic | None = None  # where bodies go that cannot be decoded

    @cached_property
    def stored(self) -> pa.Schema:
        """Columns that have to be read for it."""
        system = [each for each in self.asked if each.name in ARROW_TYPES]
        is_placed = self.mode is PayloadMode.FAILFAST or self.aside is not None
        needed = (_BODY, *_PLACE) if is_placed else (_BODY,)
        names = {each.name for each in system}
        return pa.schema([*system, *(pa.field(name, ARROW_TYPES[name]) for name in needed if name not in names)])

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of batches with the columns of ``stored``. Raises CorruptRowError with mode failfast."""
        decode = self._decoder()
        for batch in batches:
            yield self._typed(batch, decode)

    def decoded(self, bodies: pa.Array, decode: Any = None) -> Decoded:
        """Rows of the schema's struct, and by number why some are null."""
        values = bodies.to_pylist()
        gone = [number for number, body in enumerate(values) if body is None] if bodies.null_count else ()
        for number in gone:
            values[number] = b""
        found, errors = (decode or self._decoder())(values)
        return found, errors | dict.fromkeys(gone, _UNREADABLE)

    def _decoder(self) -> Any:
        kind = FieldType("struct", fields=self.fields)
        registry = self.schema.registry
        writer_of = registry_at(registry).writer_of if registry else None
        if self.payload is not PayloadFormat.JSON or not self.fields or not is_for_arrow(kind):
            return row_decoder(self.payload, self.schema, kind, writer_of)
        plain = replace(self.schema, registry="", registry_id=0)
        decode = ArrowJsonDecoder(kind, row_decoder(self.payload, plain, kind))
        return WithoutIds(decode) if registry else decode

    def _typed(self, batch: pa.RecordBatch, decode: Any) -> pa.RecordBatch:
        found, errors = self.decoded(batch.column(_BODY), decode)
        if errors and self.mode is PayloadMode.FAILFAST:
            row, reason = min(errors.items())
            topic, broker, queue, offset = (batch.column(name)[row].as_py() for name in _PLACE)
            raise CorruptRowError(topic, broker, queue, offset, reason)
        if errors and self.aside is not None:
            self.aside.send(UndecodedBody(batch, row, reason) for row, reason in sorted(errors.items()))
        columns = dict(zip((each.name for each in self.fields), found.flatten(), strict=True))
        columns |= {name: batch.column(name) for name in self.stored.names}
        rows = range(batch.num_rows)
        if ERROR in self.asked.names:
            columns[ERROR] = pa.array([errors.get(row) for row in rows] if errors else [None] * len(rows), pa.string())
        if CORRUPT_RECORD in self.asked.names:
            bodies = batch.column(_BODY)
            bad = [bodies[row].as_py() if row in errors else None for row in rows] if errors else [None] * len(rows)
            columns[CORRUPT_RECORD] = pa.array(bad, pa.binary())
        made = pa.RecordBatch.from_arrays(
            [_fitted(columns[each.name], each.type) for each in self.asked], schema=self.asked
        )
        if errors and self.aside is not None:
            return made.filter(pa.array([row not in errors for row in rows]))
        if errors and self.mode is PayloadMode.DROPMALFORMED:
            logger.warning("rows left out, their bodies cannot be decoded: rows=%d first=%s", len(errors), errors)
            return made.filter(pa.array([row not in errors for row in rows]))
        return made


def _fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Spark calls the items of lists and maps otherwise than Arrow does."""
    return column if column.type == kind else column.cast(kind)


def rows_of(options: SourceOptions, asked: pa.Schema) -> TypedRows | None:
    """How the asked columns come about; None when they are columns of the source. Raises SchemaError, OptionError."""
    if options.payload is None:
        check_schema(asked)
        return None
    aside = DeadLetterTopic(options, options.bad_rows) if options.bad_rows else None
    check_schema(pa.schema([each for each in asked if each.name in ARROW_TYPES]))
    for name, kind in OF_BAD_ROWS.items():
        if name in asked.names and asked.field(name).type != kind:
            raise SchemaError(f"column {name} is {kind}, not {asked.field(name).type}")
    columns = [each for each in asked if each.name not in ARROW_TYPES and each.name not in OF_BAD_ROWS]
    if (
        options.mode_of_bad_rows is PayloadMode.PERMISSIVE
        and not options.bad_rows
        and (strict := [each for each in columns if not each.nullable])
    ):
        text = f"column {strict[0].name} is NOT NULL, and null in rows that cannot be decoded: leave NOT NULL out"
        raise SchemaError(f"{text}, or set payloadMode to failfast or dropmalformed")
    schema = _schema_of(options)
    if schema is None:
        schema = BodySchema(fields_of(columns))
    known = {each.name: each for each in schema.fields}
    fields = []
    for column in columns:
        field = known.get(column.name)
        if field is None:
            text = f"there is no column {column.name}; the schema has {', '.join(known)}"
            raise SchemaError(f"{text}, the source {', '.join(COLUMNS)}, bad rows {', '.join(OF_BAD_ROWS)}")
        given = ddl_of(optional(fields_of([pa.field(column.name, column.type)])))
        if given != ddl_of(optional([field])):
            raise SchemaError(f"column {ddl_of(optional([field]))} of the schema is asked for as {given}")
        fields.append(field)
    found = TypedRows(asked, options.payload, options.mode_of_bad_rows, schema, tuple(fields), aside)
    found.decoded(pa.array([], pa.binary()))  # what is missing is said here
    return found
