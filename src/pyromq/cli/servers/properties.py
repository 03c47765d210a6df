"""Files of Java's properties: ``key=value`` or ``key: value``, # and ! for comments, \\ to go on in the next line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyromq.errors import ConfigError
from pyromq.setting_keys import shown

_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_SPLIT: Final = re.compile(r"(?P<key>(?:\\.|[^\\=:\s])*)\s*(?P<sign>[=:]?)\s*(?P<value>.*)", re.DOTALL)


class Property(NamedTuple):
    key: str
    value: str
    where: str  # file and line


def parse_properties(text: str, file: str) -> list[Property]:
    """In their order. A key without = or : is refused, though Java would take it. Raises ConfigError."""
    found = []
    for number, line in _logical_lines(text):
        where = f"{file}, line {number}"
        parts = _SPLIT.fullmatch(line)
        if parts is None or not parts["sign"] or not parts["key"]:
            raise ConfigError(f"{where}: {shown(line)} is not of the form key=value")
        found.append(Property(_unescaped(parts["key"]), _unescaped(parts["value"]).strip(), where))
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are no comments, those that go on put together, with the number of their first."""
    begun, first = "", 0
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = raw.lstrip()
        if not first and (not line or line[0] in "#!"):
            continue
        first = first or number
        begun += line
        trailing = len(begun) - len(begun.rstrip("\\"))
        if trailing % 2:
            begun = begun[:-1]
            continue
        yield first, begun.rstrip()
        begun, first = "", 0
    if begun:
        yield first, begun


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_meaning, text)


def _meaning(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _LETTERS.get(code, code)
