"""Confluent's wire format: which schema of a registry a body was written with stands before it.

    byte 0   1          5
         0 │ schema id │ body                             Avro, JSON
         0 │ schema id │ indexes of the type │ body       Protobuf

The magic byte is 0, the id four bytes, big-endian. Indexes lead from the file of the schema to a message type in it,
which may be nested: their count, then each, as zigzag varints; the first type of a file, [0], is the single byte 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

HEADER_BYTES: Final = 5
_FIRST_TYPE: Final = (0,)
_INDEXES_MAX: Final = 32


def framed(schema_id: int, body: bytes, indexes: Sequence[int] | None = None) -> bytes:
    """A body with the id before it; ``indexes`` for Protobuf."""
    head = b"\0" + schema_id.to_bytes(4, "big")
    if indexes is None:
        return head + body
    if tuple(indexes) == _FIRST_TYPE:
        return head + b"\0" + body
    return head + b"".join(_varint(each) for each in (len(indexes), *indexes)) + body


def schema_id_of(body: bytes) -> int:
    """The id that stands before a body. Raises ValueError where none does."""
    if len(body) < HEADER_BYTES or body[0] != 0:
        raise ValueError("it has no schema id of a registry before it: its first byte is not 0")
    return int.from_bytes(body[1:HEADER_BYTES], "big")


def indexed(body: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes of a Protobuf body that has an id, and where the message begins. Raises ValueError."""
    count, place = _read_varint(body, HEADER_BYTES)
    if count == 0:
        return _FIRST_TYPE, place
    if not 0 < count <= _INDEXES_MAX:
        raise ValueError(f"{count} indexes before a Protobuf message are none")
    found = []
    for _ in range(count):
        index, place = _read_varint(body, place)
        found.append(index)
    return tuple(found), place


def _varint(number: int) -> bytes:
    rest, made = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    made.append(rest)
    return bytes(made)


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 35:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place
        shift += 7
    raise ValueError("the indexes before a Protobuf message are cut off")
