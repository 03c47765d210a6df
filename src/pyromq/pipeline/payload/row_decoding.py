"""Bodies to rows one by one: for formats that nothing reads in batches, and for bodies that a batch does not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from pyromq.pipeline.payload.arrow_types import arrow_type
from pyromq.pipeline.payload.json_columns import Decoded, from_wire, wire_type
from pyromq.typed.schemas.fields import FieldType
from pyromq.typed.schemas.given import BodySchema
from pyromq.typed.schemas.payloads import PayloadFormat
from pyromq.typed.schemas.rows import ROW_ERRORS, RowDecode, WriterOf, reason_of, row_decode

_ERRORS: Final = (*ROW_ERRORS, pa.ArrowException)


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


def row_decoder(
    format_: PayloadFormat, schema: BodySchema, kind: FieldType, writer_of: WriterOf | None = None
) -> RowDecoder:
    """The decoder for a format. Raises ConfigError where the format's package is missing."""
    decode = row_decode(format_, schema, kind, native=False, writer_of=writer_of)
    return RowDecoder(kind, decode, wire=wire_type(kind) if format_ is PayloadFormat.JSON else None)
