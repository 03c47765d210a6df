"""Protocol Buffers: messages are structs whose fields carry their numbers, and this reads and writes them.

    class Resource(Proto):
        resource_namespace: Annotated[str, 1] = ""
        name: Annotated[str, 2] = ""

    field    tag (number << 3 | wire type) as a varint, then  0 varint  1 eight bytes  2 length, bytes  5 four bytes

What a field may be: str, bytes, int (int32, int64 and enumerations), bool, float (of four bytes), a message, a list of
any of them, or a map of strings. ``| None`` is for messages and for what proto3 calls optional. Fields that a struct
does not have are skipped, as are those with another wire type. Messages contain no message of their own kind, so
nothing nests without end; the number of fields in one message is bounded, because each costs the reader time.
"""

from __future__ import annotations

from functools import cache
from struct import Struct, pack
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from pyromq.errors import RemoteProtocolError

FIELDS_MAX: Final = 50_000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SKIPPED: Final = {_FIXED64: 8, _FIXED32: 4}
_FLOAT: Final = Struct("<f")
_MASK: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63
_LONGEST: Final = 70  # bits of a varint


class ProtobufError(RemoteProtocolError):
    """Bytes that are not a message of that kind."""


class Proto(msgspec.Struct, kw_only=True):
    """A message; ``Annotated[type, number]`` for each field, with proto3's default."""

    def encode(self) -> bytes:
        parts: list[bytes] = []
        _write(_writers(type(self)), self, parts)
        return b"".join(parts)


P = TypeVar("P", bound=Proto)


def decode(kind: type[P], data: bytes) -> P:
    """The message in all of these bytes. Raises ProtobufError."""
    try:
        return _read(kind, data, 0, len(data), [FIELDS_MAX])  # type: ignore[no-any-return]
    except (IndexError, UnicodeDecodeError) as error:
        raise ProtobufError(f"these bytes are not a {kind.__name__}: {type(error).__name__}") from error


class _Field(NamedTuple):
    name: str
    number: int
    base: Any  # str, bytes, int, bool, float, dict or a message
    is_list: bool
    is_optional: bool


def _fields(kind: type[Proto]) -> list[_Field]:
    found = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            continue
        of, number = get_args(hint)[:2]
        is_optional = get_origin(of) in (Union, UnionType)
        if is_optional:
            of = next(each for each in get_args(of) if each is not type(None))
        is_list = get_origin(of) is list
        base = get_args(of)[0] if is_list else (get_origin(of) or of)
        found.append(_Field(name, number, base, is_list, is_optional))
    return sorted(found, key=lambda each: each.number)


# --- reading ---

_TEXT, _RAW, _MESSAGE, _TEXTS, _MESSAGES, _MAP, _PACKED, _INT, _BOOL, _INTS, _REAL = range(11)
_SINGLE: Final = {str: (_BYTES, _TEXT), bytes: (_BYTES, _RAW), int: (_VARINT, _INT), bool: (_VARINT, _BOOL)}


@cache
def _readers(kind: type[Proto]) -> dict[int, tuple[int, str, Any]]:
    """By tag: what to do, the name of the field, and the message within."""
    table: dict[int, tuple[int, str, Any]] = {}
    for field in _fields(kind):
        base, at = field.base, field.number << 3
        if base is dict:
            table[at | _BYTES] = _MAP, field.name, None
        elif base is float:
            table[at | _FIXED32] = _REAL, field.name, None
        elif isinstance(base, type) and issubclass(base, Proto):
            table[at | _BYTES] = _MESSAGES if field.is_list else _MESSAGE, field.name, base
        elif field.is_list and base is int:
            table[at | _VARINT] = _INTS, field.name, None
            table[at | _BYTES] = _PACKED, field.name, None
        elif field.is_list:
            table[at | _BYTES] = _TEXTS, field.name, None
        else:
            wire, what = _SINGLE[base]
            table[at | wire] = what, field.name, None
    return table


def _read(kind: Any, data: bytes, at: int, end: int, left: list[int]) -> Any:
    """``left``: how many fields there may still be, in all of them together."""
    table, values = _readers(kind), dict[str, Any]()
    while at < end:
        left[0] -= 1
        if left[0] < 0:
            raise ProtobufError(f"more than {FIELDS_MAX} fields in one message")
        tag = data[at]
        at += 1
        if tag & 0x80:
            tag, at = _varint(data, at - 1)
        what, name, inner = table.get(tag, (-1, "", None))
        if what < 0:
            at = _skip(data, at, end, tag)
        elif tag & 7 == _BYTES:
            size = data[at]
            at += 1
            if size & 0x80:
                size, at = _varint(data, at - 1)
            stop = at + size
            if stop > end:
                raise ProtobufError(f"field {name} of {kind.__name__} is cut")
            if what == _TEXT:
                values[name] = data[at:stop].decode()
            elif what == _RAW:
                values[name] = data[at:stop]
            elif what == _MESSAGE:
                values[name] = _read(inner, data, at, stop, left)
            elif what == _TEXTS:
                values.setdefault(name, []).append(data[at:stop].decode())
            elif what == _MESSAGES:
                values.setdefault(name, []).append(_read(inner, data, at, stop, left))
            elif what == _MAP:
                entry = _read(MapEntry, data, at, stop, left)
                values.setdefault(name, {})[entry.key] = entry.value
            else:
                _unpack(data[at:stop], values.setdefault(name, []), left)
            at = stop
        elif what == _REAL:
            values[name] = _FLOAT.unpack(data[at : at + 4])[0] if at + 4 <= end else 0.0
            at += 4
        else:
            number, at = _varint(data, at)
            if what == _BOOL:
                values[name] = number != 0
            elif what == _INT:
                values[name] = number - (1 << 64) if number & _SIGN else number
            else:
                values.setdefault(name, []).append(number - (1 << 64) if number & _SIGN else number)
    if at != end:
        raise ProtobufError(f"the last field of {kind.__name__} is cut")
    return kind(**values)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, and where the next byte is. Raises IndexError when it is cut."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
        shift += 7
        if shift >= _LONGEST:
            raise ProtobufError("a number has more than ten bytes")


def _skip(data: bytes, at: int, end: int, tag: int) -> int:
    wire = tag & 7
    if tag < 8:
        raise ProtobufError("a field has the number 0")
    if wire == _VARINT:
        return _varint(data, at)[1]
    if wire == _BYTES:
        size, at = _varint(data, at)
    elif wire in _SKIPPED:
        size = _SKIPPED[wire]
    else:
        raise ProtobufError(f"wire type {wire} is not used any more")
    if at + size > end:
        raise ProtobufError("a field is cut")
    return at + size


def _unpack(data: bytes, into: list[int], left: list[int]) -> None:
    at = 0
    while at < len(data):
        left[0] -= 1
        if left[0] < 0:
            raise ProtobufError(f"more than {FIELDS_MAX} fields in one message")
        number, at = _varint(data, at)
        into.append(number - (1 << 64) if number & _SIGN else number)


class MapEntry(Proto):
    """One entry of a map of strings."""

    key: Annotated[str, 1] = ""
    value: Annotated[str, 2] = ""


# --- writing ---

_Writer = tuple[str, bytes, int, Any, bool]


@cache
def _writers(kind: type[Proto]) -> list[_Writer]:
    """For each field: its name, its tag, what to do, the message within, and whether a default value is written."""
    found: list[_Writer] = []
    for field in _fields(kind):
        base = field.base
        is_message = isinstance(base, type) and issubclass(base, Proto)
        if base is dict:
            what, wire = _MAP, _BYTES
        elif is_message:
            what, wire = (_MESSAGES if field.is_list else _MESSAGE), _BYTES
        elif field.is_list:
            what, wire = (_PACKED if base is int else _TEXTS), _BYTES
        elif base is float:
            what, wire = _REAL, _FIXED32
        else:
            wire, what = _SINGLE[base]
        found.append(
            (field.name, _number(field.number << 3 | wire), what, base if is_message else None, field.is_optional)
        )
    return found


def _write(writers: list[_Writer], message: Any, parts: list[bytes]) -> None:
    for name, tag, what, inner, is_optional in writers:
        value = getattr(message, name)
        if value is None or (not value and not is_optional and what != _MESSAGE):
            continue
        if what == _TEXT or what == _RAW:
            data = value.encode() if what == _TEXT else value
            parts += (tag, _number(len(data)), data)
        elif what == _INT or what == _BOOL:
            parts += (tag, _number(value & _MASK))
        elif what == _MESSAGE:
            _write_inner(tag, _writers(inner), value, parts)
        elif what == _MESSAGES:
            for each in value:
                _write_inner(tag, _writers(inner), each, parts)
        elif what == _TEXTS:
            for each in value:
                data = each.encode()
                parts += (tag, _number(len(data)), data)
        elif what == _MAP:
            for key, text in value.items():
                _write_inner(tag, _writers(MapEntry), MapEntry(key=key, value=text), parts)
        elif what == _PACKED:
            data = b"".join(_number(each & _MASK) for each in value)
            parts += (tag, _number(len(data)), data)
        else:
            parts += (tag, pack("<f", value))


def _write_inner(tag: bytes, writers: list[_Writer], message: Any, parts: list[bytes]) -> None:
    inner: list[bytes] = []
    _write(writers, message, inner)
    data = b"".join(inner)
    parts += (tag, _number(len(data)), data)


_SMALL: Final = [bytes((number,)) for number in range(128)]


def _number(value: int) -> bytes:
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
