"""The JSON dialect of RocketMQ's bodies and configuration files (Java's fastjson), both ways.

    {"a":1}                                          ordinary JSON
    {0:"10.0.0.1:10911"}                             integer keys stand bare
    {{"brokerName":"b","queueId":0,"topic":"t"}:5}   object keys stand as objects

Reading. Ordinary JSON goes through msgspec; only text that it refuses meets the parser below, which knows the two
extra kinds of keys and nothing else. A bare key becomes an ``int``, an object key an ``ObjectKey``. The last of equal
keys wins, ``{"$ref":…}`` stays what it is. Size and depth are bounded; whatever the bytes are, the outcome is a value
or a MalformedJsonError.

Writing is in ``java_json_writer`` and offered here too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec

from pyromq.errors import RemoteProtocolError
from pyromq.wire.json.java_json_writer import (
    DEPTH_MAX,
    UnwritableJsonError,
    dumps,
    dumps_in_pieces,
    dumps_pretty,
    dumps_strict,
)

__all__ = [
    "BYTES_MAX",
    "DEPTH_MAX",
    "Long",
    "MalformedJsonError",
    "ObjectKey",
    "UnexpectedJsonError",
    "UnwritableJsonError",
    "convert",
    "decode",
    "dumps",
    "dumps_in_pieces",
    "dumps_pretty",
    "dumps_strict",
    "has_nulls",
    "parse",
    "with_text_keys",
]

T = TypeVar("T")

BYTES_MAX: Final = 64 * 1024 * 1024
Long = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A Java long: type of struct fields whose values end up in eight bytes."""


_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_MEMBER: Final = _STRING + rb":(?:" + _STRING + rb"|-?[0-9][0-9.eE+-]*+|true|false|null)"
_OBJECT_KEY: Final = rb"\{" + _MEMBER + rb"(?:," + _MEMBER + rb")*+\}(?=:)"
_OBJECT_KEYS: Final = re.compile(
    rb"(?:[^\"{]++|" + _STRING + rb"|\{(?!" + _OBJECT_KEY[2:] + rb"))++|(" + _OBJECT_KEY + rb")", re.DOTALL
)


class MalformedJsonError(RemoteProtocolError):
    """Text that is not JSON in any of the accepted forms, or is too large or too deep."""

    def __init__(self, *, reason: str, position: int | None = None) -> None:
        super().__init__(f"malformed JSON: {reason}" if position is None else f"malformed JSON at {position}: {reason}")
        self.reason = reason
        self.position = position


class UnexpectedJsonError(RemoteProtocolError):
    """Well-formed JSON that lacks a field, or holds a value of another type than agreed."""


class ObjectKey(Mapping[Any, Any]):
    """An object that serves as key of a map: frozen, hashable, equal to any mapping with the same fields."""

    __slots__ = ("_fields", "_hash")

    def __init__(self, fields: Mapping[Any, Any]) -> None:
        self._fields = {name: _frozen(value) for name, value in fields.items()}
        self._hash = hash(frozenset(self._fields.items()))

    def __getitem__(self, name: Any) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"ObjectKey({self._fields!r})"


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return ObjectKey(value)
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def parse(text: bytes | str, *, bytes_max: int = BYTES_MAX) -> Any:
    """The value that the text stands for; raises MalformedJsonError and nothing else."""
    if len(text) > bytes_max:
        raise MalformedJsonError(reason=f"it has {len(text)} bytes, at most {bytes_max} are allowed")
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.MsgspecError, UnicodeError):
        return _Parser(_as_text(text)).parse()
    if _openings(text) > DEPTH_MAX and _is_deeper(value, DEPTH_MAX):
        raise _too_deep()
    return value


def decode(text: bytes | str, type_: type[T], *, bytes_max: int = BYTES_MAX) -> T:
    """The text as a value of a type, as lenient as Java: "3" passes for 3, null for an absent field.

    Raises MalformedJsonError for the text, UnexpectedJsonError for its content.
    """
    return convert(parse(text, bytes_max=bytes_max), type_, nulls=has_nulls(text))


def with_text_keys(text: bytes) -> bytes:
    """Return the text with object keys as strings that hold their JSON: msgspec reads those, four times as fast.

    For bodies that take both forms. Only keys of plain values without spaces are changed; all else stays as it is,
    malformed text too.
    """
    return _OBJECT_KEYS.sub(_as_string, text) if b"{{" in text else text


def _as_string(found: re.Match[bytes]) -> bytes:
    key = found[1]
    return b'"%s"' % key.replace(b"\\", b"\\\\").replace(b'"', b'\\"') if key is not None else found[0]


def has_nulls(text: bytes | str) -> bool:
    """False: no null stands in the text, so none has to be looked for in its value."""
    return b"null" in text if isinstance(text, bytes) else "null" in text


def convert(value: Any, type_: type[T], *, nulls: bool = True) -> T:
    """The second step of ``decode``, for values that ``parse`` gave and that needed a correction first."""
    try:
        return msgspec.convert(_without_nulls(value) if nulls else value, type_, strict=False)
    except (msgspec.MsgspecError, OverflowError) as error:
        raise UnexpectedJsonError(f"unexpected JSON content: {error}") from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _as_text(text: bytes | str) -> str:
    try:
        return text.decode() if isinstance(text, bytes) else text.encode().decode()
    except UnicodeError as error:
        raise MalformedJsonError(reason="it is not UTF-8") from error


def _openings(text: bytes | str) -> int:
    if isinstance(text, str):
        return text.count("[") + text.count("{")
    return text.count(b"[") + text.count(b"{")


def _is_deeper(value: Any, depth_max: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(depth_max):
        if not level:
            return False
        level = [
            inner
            for item in level
            for inner in (item.values() if type(item) is dict else item)
            if type(inner) is dict or type(inner) is list  # msgspec makes no others, and this is asked of every value
        ]
    return bool(level)


def _too_deep() -> MalformedJsonError:
    return MalformedJsonError(reason=f"it nests deeper than {DEPTH_MAX} levels")


class _Parser:
    """Recursive descent over one text; the bound on depth keeps it far from Python's own."""

    _token_at = re.compile(
        r'[ \t\n\r]*+("(?:[^"\\]++|\\.)*+"|-?[0-9][0-9.eE+-]*+|true|false|null|[{}\[\]:,]|\Z)', re.DOTALL
    ).match

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def parse(self) -> Any:
        value = self._value(self._next(), 1)
        if trailing := self._next():
            raise self._unexpected(trailing)
        return value

    def _next(self) -> str:
        """The next token; empty at the end of the text."""
        found = self._token_at(self._text, self._position)
        if found is None:
            raise MalformedJsonError(reason="unexpected character", position=self._position)
        self._position = found.end()
        return found[1]

    def _value(self, token: str, depth: int) -> Any:
        if token == "{":
            return self._object(depth)
        if token == "[":
            return self._array(depth)
        return self._scalar(token)

    def _scalar(self, token: str) -> Any:
        if token in ("", "}", "]", ":", ","):
            raise self._unexpected(token)
        try:
            return msgspec.json.decode(token)
        except msgspec.MsgspecError as error:
            raise MalformedJsonError(reason=str(error), position=self._position - len(token)) from error

    def _object(self, depth: int) -> dict[Any, Any]:
        if depth > DEPTH_MAX:
            raise _too_deep()
        result: dict[Any, Any] = {}
        token = self._next()
        while token != "}":
            key = self._key(token, depth)
            self._expect(":")
            result[key] = self._value(self._next(), depth + 1)
            token = self._after_item("}")
        return result

    def _key(self, token: str, depth: int) -> str | int | ObjectKey:
        if token == "{":
            return ObjectKey(self._object(depth + 1))
        key = self._scalar(token)
        if type(key) not in (str, int):
            raise self._unexpected(token)
        return key  # type: ignore[no-any-return]

    def _array(self, depth: int) -> list[Any]:
        if depth > DEPTH_MAX:
            raise _too_deep()
        result: list[Any] = []
        token = self._next()
        while token != "]":
            result.append(self._value(token, depth + 1))
            token = self._after_item("]")
        return result

    def _after_item(self, closing: str) -> str:
        """The closing token, or the first token of the next item: a comma must not stand before the closing."""
        token = self._next()
        if token == closing:
            return token
        if token != "," or (following := self._next()) == closing:
            raise self._unexpected(token)
        return following

    def _expect(self, wanted: str) -> None:
        if (token := self._next()) != wanted:
            raise self._unexpected(token)

    def _unexpected(self, token: str) -> MalformedJsonError:
        reason = f"unexpected {token[:20]!r}" if token else "it ends too early"
        return MalformedJsonError(reason=reason, position=self._position - len(token))
