"""JSON bodies to columns by Arrow's reader, many at once; what it does not take goes one by one (``row_decoding``).

    bodies, each {…}, joined by line ends ──▶ read_json ──▶ texts to times, dates, bytes ──▶ columns
                                                 │ refused: bodies that are bad by themselves go alone,
                                                 └ others by halves, down to one body

Each body begins with ``{`` and ends with ``}``. Between two of them stands ``}`` line end ``{``, which is an error
inside of a value: so each body gives one row at least, and as many rows as bodies means one each. A body is decoded
alike whatever bodies are read together with it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from pyromq.pipeline.payload.arrow_types import arrow_type
from pyromq.typed.schemas.fields import JSON_TEXT, FieldType
from pyromq.typed.schemas.rows import without_id

Decoded = tuple[pa.Array, dict[int, str]]
"""Rows of a struct, null where they cannot be decoded, and why by their number."""
OneByOne = Callable[[Sequence[bytes]], Decoded]

_BYTES_AT_ONCE: Final = 64 << 20
_OPEN, _CLOSE = b"{"[0], b"}"[0]
_TIME: Final = pa.timestamp("us", tz="UTC")
_MANY_DIGITS, _ZONE = r"(\.\d{6})\d+", r"\d:\d{2}.*(?:Z|[+-]\d{2}(?::?\d{2})?)$"
_TEXTS: Final = frozenset(("timestamp", "timestamp_ntz", "date", "binary"))
"""Types whose values are strings in JSON."""


def joined(parts: Sequence[Decoded]) -> Decoded:
    """Parts one after the other."""
    errors: dict[int, str] = {}
    first = 0
    for rows, wrong in parts:
        errors |= {first + row: reason for row, reason in wrong.items()}
        first += len(rows)
    return pa.concat_arrays([rows for rows, _ in parts]), errors


class _RefusedError(Exception):
    """Arrow does not read these bodies together."""


def is_for_arrow(kind: FieldType) -> bool:
    """Whether Arrow's reader knows the type: it has no maps, and no values of any shape."""
    if kind.name in ("map", JSON_TEXT):
        return False
    return all(map(is_for_arrow, kind.items)) and all(is_for_arrow(each.type) for each in kind.fields)


def wire_type(kind: FieldType) -> pa.DataType:
    """The type in which values of this type stand in JSON."""
    match kind.name:
        case "array":
            return pa.list_(pa.field("element", wire_type(kind.items[0])))
        case "map":
            return pa.map_(pa.string(), wire_type(kind.items[1]))
        case "struct":
            return pa.struct([pa.field(each.name, wire_type(each.type)) for each in kind.fields])
        case name:
            return pa.string() if name in _TEXTS else arrow_type(kind)


class ArrowJsonDecoder:
    """Decodes bodies of one type, which is a struct."""

    def __init__(self, kind: FieldType, one_by_one: OneByOne) -> None:
        self._kind = kind
        self._one_by_one = one_by_one
        schema = pa.schema(list(wire_type(kind)))
        self._parsing = arrow_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=True
        )

    def __call__(self, bodies: Sequence[bytes]) -> Decoded:
        if not bodies:
            return pa.array([], arrow_type(self._kind)), {}
        try:
            return self._together(bodies), {}
        except _RefusedError:
            if len(bodies) == 1:
                return self._one_by_one(bodies)
        bad = self._one_by_one(bodies)[1] if sum(map(len, bodies)) < _BYTES_AT_ONCE else {}
        if not bad:  # too many, or some that only Arrow refuses
            half = len(bodies) // 2
            return joined((self(bodies[:half]), self(bodies[half:])))
        rest = [body for row, body in enumerate(bodies) if row not in bad]
        return self._in_order([row for row in range(len(bodies)) if row not in bad], self(rest), bodies, sorted(bad))

    def _in_order(self, good: list[int], decoded: Decoded, bodies: Sequence[bytes], bad: list[int]) -> Decoded:
        """Rows that were decoded together, and among them those that go alone: Arrow may take them all the same."""
        found, errors = joined((decoded, *(self([bodies[row]]) for row in bad)))
        rows = [*good, *bad]
        places = sorted(range(len(rows)), key=rows.__getitem__)
        return found.take(pa.array(places, pa.int64())), {rows[place]: reason for place, reason in errors.items()}

    def _together(self, bodies: Sequence[bytes]) -> pa.Array:
        if not _are_objects(bodies):
            bodies = [body.strip() for body in bodies]
            if not _are_objects(bodies):
                raise _RefusedError
        data = b"\n".join(bodies)
        if len(data) > _BYTES_AT_ONCE and len(bodies) > 1:
            raise _RefusedError
        try:
            if not data.isascii():
                data.decode()  # Arrow takes bytes for text as they are
            reading = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
            table = arrow_json.read_json(
                pa.BufferReader(data), read_options=reading, parse_options=self._parsing
            ).combine_chunks()
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise _RefusedError from error
        if table.num_rows != len(bodies):
            raise _RefusedError
        rows = pa.StructArray.from_arrays([_one(each) for each in table.columns], fields=list(wire_type(self._kind)))
        if lacks_required(rows, self._kind) or not _is_finite(rows):
            raise _RefusedError
        try:
            return from_wire(rows, self._kind)
        except (ValueError, OverflowError) as error:  # ArrowInvalid is a ValueError
            raise _RefusedError from error


class WithoutIds:
    """Decodes bodies that have the id of a registry before them."""

    def __init__(self, decode: ArrowJsonDecoder) -> None:
        self._decode = decode

    def __call__(self, bodies: Sequence[bytes]) -> Decoded:
        wrong: dict[int, str] = {}
        found, errors = self._decode([self._body(body, row, wrong) for row, body in enumerate(bodies)])
        return found, errors | wrong

    def _body(self, body: bytes, row: int, wrong: dict[int, str]) -> bytes:
        try:
            return without_id(body)
        except ValueError as error:
            wrong[row] = str(error)
            return b""


def _are_objects(bodies: Sequence[bytes]) -> bool:
    return all(body and body[0] == _OPEN and body[-1] == _CLOSE for body in bodies)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def lacks_required(rows: pa.Array, kind: FieldType) -> bool:
    """Whether a field that is required is null in some row."""
    match kind.name:
        case "struct":
            for field, column in zip(kind.fields, rows.flatten(), strict=True):
                if field.required and column.null_count > rows.null_count:
                    return True
                if (field.type.fields or field.type.items) and lacks_required(column, field.type):
                    return True
            return False
        case "array":
            return lacks_required(rows.flatten(), kind.items[0])
        case _:
            return False


def _is_finite(rows: pa.Array) -> bool:
    """JSON has no NaN and no infinity; Arrow's reader has."""
    if pa.types.is_floating(rows.type):
        return pc.all(pc.is_finite(rows)).as_py() is not False
    if pa.types.is_struct(rows.type):
        return all(map(_is_finite, rows.flatten()))
    return _is_finite(rows.flatten()) if pa.types.is_list(rows.type) else True


# --- texts of JSON to values ---------------------------------------------------------------------------------------


def from_wire(values: pa.Array, kind: FieldType) -> pa.Array:
    """Values as JSON has them to values of the type. Raises ValueError for a text that is no time, date or base 64."""
    wanted = arrow_type(kind)
    if values.type == wanted:
        return values
    match kind.name:
        case "timestamp":
            return _times(values)
        case "timestamp_ntz":
            return _times(values).cast(pa.int64()).cast(wanted)
        case "date":
            return _cast(values, wanted, "date as in 2026-11-17")
        case "binary":
            return pa.array(map(_from_base64, values.to_pylist()), wanted)
        case "array":
            items = from_wire(values.values, kind.items[0])
            return pa.ListArray.from_arrays(values.offsets, items, type=wanted, mask=_nulls(values))
        case "map":
            items = from_wire(values.items, kind.items[1])
            return pa.MapArray.from_arrays(values.offsets, values.keys, items, mask=_nulls(values))
        case _:
            parts = zip(values.flatten(), kind.fields, strict=True)  # with the nulls of the struct itself
            columns = [from_wire(part, each.type) for part, each in parts]
            return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=_nulls(values))


def _nulls(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _times(texts: pa.Array) -> pa.Array:
    """Times of ISO 8601; without a zone they are UTC, digits below microseconds are cut."""
    try:
        return texts.cast(_TIME)
    except pa.ArrowInvalid:
        cut = pc.replace_substring_regex(texts, _MANY_DIGITS, r"\1")
        is_zoned = pc.match_substring_regex(cut, _ZONE)
        zoned = pc.if_else(is_zoned, cut, pc.binary_join_element_wise(cut, "Z", ""))
        return _cast(zoned, _TIME, "time as in 2026-11-17T09:12:05Z")


def _cast(texts: pa.Array, kind: pa.DataType, words: str) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid as error:
        first = next(text for text in texts.to_pylist() if text is not None)
        raise ValueError(f"{first[:80]!r} is no {words}" if len(texts) == 1 else f"it has no {words}") from error


def _from_base64(text: str | None) -> Any:
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is no base 64: {error}") from error
