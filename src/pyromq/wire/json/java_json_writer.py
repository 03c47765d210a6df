r"""Values to the JSON dialect of RocketMQ's bodies and configuration files; ``java_json`` describes the dialect.

Compact, because Go cuts routes out of the raw text. Fields are sorted by name, None fields left out, enums written by
name (flags as numbers), text not escaped beyond need. Structs are written under their wire names. A None inside a list
keeps its place as null. Integer keys sort by value, object keys keep the order of their map.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, Flag
from functools import cache
from math import isfinite
from operator import itemgetter
from typing import Any, Final, cast

import msgspec

from pyromq.errors import LocalProtocolError

DEPTH_MAX: Final = 64


class UnwritableJsonError(LocalProtocolError):
    """A value that has no form in JSON: bytes, NaN, cycles, keys of odd types."""


def dumps(value: Any, *, sort: bool = True) -> bytes:
    """Compact, integer and object keys bare: what Java writes. Raises UnwritableJsonError."""
    return _Writer(sort=sort).dumps(value)


def dumps_strict(value: Any) -> bytes:
    r"""Compact and ordinary JSON in ASCII: every key quoted, ``/`` written ``\/``, others escaped as ``\u20ac`` is."""
    return _Writer(strict=True).dumps(value)


def dumps_pretty(value: Any) -> bytes:
    """One item a line, indented by tabs, integer keys bare: what Java writes to configuration files."""
    return _Writer(pretty=True).dumps(value)


def dumps_in_pieces(value: msgspec.Struct, field: str, count: int, *, pretty: bool = False) -> Iterator[bytes]:
    """``dumps`` or ``dumps_pretty`` of a struct with one large map or list in ``field``, ``count`` items at a time.

    For callers that have other things to do in between; the pieces together are the text.
    """
    write = dumps_pretty if pretty else dumps
    name = next(wire_name for wire_name, attribute in _names_of(type(value)) if attribute == field)
    large: Mapping[Any, Any] | list[Any] = getattr(value, field)
    is_list = isinstance(large, list)
    items = large if is_list else sorted(cast(Mapping[Any, Any], large).items(), key=_item_order)
    make: Callable[[Any], Any] = list if is_list else dict
    opening, closing = "[]" if is_list else "{}"
    mark = f'"{name}":{opening}'.encode()
    before, _, behind = write(msgspec.structs.replace(value, **{field: make(())})).partition(mark)
    yield before + mark
    for start in range(0, len(items), count):
        text = write({name: make(items[start : start + count])})
        begin, end = text.index(mark) + len(mark), len(text) - len(f"\n\t{closing}\n}}" if pretty else f"{closing}}}")
        yield (b"," if start else b"") + text[begin:end]
    yield (b"\n\t" if pretty and items else b"") + behind


class _Writer:
    """Text of one value; types are compared before ``isinstance`` is asked, for most values are text and numbers."""

    def __init__(self, *, sort: bool = True, strict: bool = False, pretty: bool = False) -> None:
        self._sort = sort
        self._strict = strict
        self._pretty = pretty
        self._parts: list[str] = []
        self._names: dict[type, list[tuple[str, str]]] = {}  # of structs seen so far: ``"name":`` and the attribute

    def dumps(self, value: Any) -> bytes:
        return self._text(value, 1).encode()

    def _text(self, value: Any, depth: int) -> str:
        self._write(value, depth)
        return "".join(self._parts)

    def _write(self, value: Any, depth: int) -> None:
        type_ = type(value)
        if type_ is str:
            self._parts.append(self._quoted(value))
        elif type_ is int:
            self._parts.append(str(value))
        elif isinstance(value, msgspec.Struct):
            self._container("{}", self._struct_fields(value), depth)
        elif type_ is dict and not (self._strict or self._pretty) and _are_numbers(value):
            self._parts.append(_of_numbers(value, sort=self._sort))
        elif isinstance(value, Mapping):
            self._container("{}", self._fields(value, depth), depth)
        elif isinstance(value, set | frozenset):
            self._container("[]", [("", item) for item in sorted(value, key=_key_order)], depth)
        elif isinstance(value, list | tuple):
            self._container("[]", [("", item) for item in value], depth)
        else:
            self._parts.append(self._scalar(value))

    def _container(self, brackets: str, items: list[tuple[str, Any]], depth: int) -> None:
        if depth > DEPTH_MAX:
            raise UnwritableJsonError(f"the value nests deeper than {DEPTH_MAX} levels, or contains itself")
        line = "\n" + "\t" * depth if self._pretty and items else ""
        parts, between, following = self._parts, brackets[0] + line, "," + line
        for name, inner in items:
            type_ = type(inner)
            if type_ is int:
                parts.append(f"{between}{name}{inner}")
            elif type_ is str:
                parts.append(f"{between}{name}{self._quoted(inner)}")
            else:
                parts.append(between + name)
                self._write(inner, depth + 1)
            between = following
        parts.append(line[:-1] + brackets[1] if items else brackets)

    def _struct_fields(self, struct: msgspec.Struct) -> list[tuple[str, Any]]:
        names = self._names.get(type(struct))
        if names is None:
            wanted = _names_of(type(struct))
            names = [(f"{self._quoted(name)}:", field) for name, field in (sorted(wanted) if self._sort else wanted)]
            self._names[type(struct)] = names
        return [
            (name, value)
            for name, field in names
            if (value := getattr(struct, field)) is not None and value is not msgspec.UNSET
        ]

    def _fields(self, fields: Mapping[Any, Any], depth: int) -> list[tuple[str, Any]]:
        present = [(key, value) for key, value in fields.items() if value is not None and value is not msgspec.UNSET]
        if self._sort and len(present) > 1:
            are_alike = {type(key) for key, _ in present} in _ORDERED
            present.sort(key=_first if are_alike else _item_order)
        return [(self._key(key, depth) + ":", value) for key, value in present]

    def _key(self, key: Any, depth: int) -> str:
        if type(key) is str:
            return self._quoted(key)
        if isinstance(key, str | Enum):
            return self._scalar(key)
        if type(key) is int:
            return f'"{key}"' if self._strict else str(key)
        if isinstance(key, Mapping | msgspec.Struct):
            text = self._bare_text(key, depth + 1)
            return self._quoted(text) if self._strict else text
        raise UnwritableJsonError(f"{type(key).__name__} cannot be the key of a map")

    def _bare_text(self, value: Any, depth: int) -> str:
        """On one line and not escaped, whatever the text around it is."""
        if self._strict or self._pretty:
            return _Writer(sort=self._sort)._text(value, depth)
        begin = len(self._parts)
        self._write(value, depth)
        text = "".join(self._parts[begin:])
        del self._parts[begin:]
        return text

    def _scalar(self, value: Any) -> str:
        if value is None or isinstance(value, bool):
            return {None: "null", True: "true", False: "false"}[value]
        if isinstance(value, Enum) and not isinstance(value, Flag):
            return self._quoted(value.name)
        if isinstance(value, str):
            return self._quoted(value)
        if isinstance(value, int):
            return str(int(value))
        if isinstance(value, float) and isfinite(value):
            return repr(value)
        raise UnwritableJsonError(f"{type(value).__name__} has no form in JSON: {str(value)[:80]}")

    def _quoted(self, text: str) -> str:
        try:
            quoted = _encode_text(text).decode()
        except UnicodeError as error:
            raise UnwritableJsonError("text with half of a surrogate pair") from error
        return _beyond_ascii.sub(_escape, quoted) if self._strict else quoted


_NUMBERS: Final = {int}


def _are_numbers(table: dict[Any, Any]) -> bool:
    """Queues and their offsets, of which a broker has many thousands."""
    return set(map(type, table)) == _NUMBERS == set(map(type, table.values()))


def _of_numbers(table: dict[int, int], *, sort: bool) -> str:
    """Nothing in it is quoted but the keys, which Java leaves bare."""
    ordered = dict(sorted(table.items())) if sort and len(table) > 1 else table
    return _encode_text(ordered).decode().replace('"', "")


_encode_text: Final = msgspec.json.Encoder().encode
_ORDERED: Final = ({str}, {int})  # types of keys whose own order is the one that is wanted
_first: Final = itemgetter(0)
_beyond_ascii = re.compile(r"[^\x00-\x7e]|/")


def _escape(found: re.Match[str]) -> str:
    if found[0] == "/":
        return r"\/"
    units = found[0].encode("utf-16-be").hex().upper()
    return "".join(rf"\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _key_order(key: Any) -> tuple[int, int, str]:
    """Text by its characters, then numbers by value, then objects as they come (a sort is stable)."""
    if isinstance(key, Enum):
        return 0, 0, key.name
    if isinstance(key, str):
        return 0, 0, key
    return (1, key, "") if isinstance(key, int) else (2, 0, "")


def _item_order(item: tuple[Any, Any]) -> tuple[int, int, str]:
    return (0, 0, item[0]) if type(item[0]) is str else _key_order(item[0])


@cache
def _names_of(type_: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple(zip(type_.__struct_encode_fields__, type_.__struct_fields__, strict=True))
