"""Schemas as Spark's DDL: ``id bigint NOT NULL, lines array<struct<sku:string,count:int>>``; parsed without Spark."""

from __future__ import annotations

import re
from typing import Final

from pyromq.errors import ConfigError
from pyromq.typed.schemas.fields import PRECISION_MAX, SIMPLE, Fields, FieldType, SchemaField

_token = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([^\s<>(),:`'\"]+)|([<>(),:]))")
_OTHER_NAMES: Final = {
    "bool": "boolean", "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float",
    "bytes": "binary", "timestamp_ltz": "timestamp", "dec": "decimal", "numeric": "decimal", "text": "string",
}  # fmt: skip
_DECIMAL: Final = (10, 0)  # as SQL has it when nothing is said
_DEPTH_MAX: Final = 64


def parse_ddl(text: str) -> Fields:
    """Read the fields of a schema. Raises ConfigError, whose text says where it stops being DDL."""
    parser = _Parser(text)
    if [each.lower() for each in parser.tokens[:2]] == ["struct", "<"]:
        found = parser.type_().fields
    else:
        found = parser.fields(separators=("", ":"))
    parser.expect_end()
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self.tokens = _tokens(text)
        self._place = 0
        self._depth = 0

    def fields(self, separators: tuple[str, ...]) -> Fields:
        found = [self._field(separators)]
        while self._accept(","):
            found.append(self._field(separators))
        names = [each.name for each in found]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigError(f"the schema names field {twice[0]} twice")
        return tuple(found)

    def _field(self, separators: tuple[str, ...]) -> SchemaField:
        name = self._next("a name")
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif name in "<>(),:":
            self._refuse("a name")
        if ":" in separators:
            self._accept(":")
        kind, required = self.type_(), False
        if self._accept("not"):
            self._expect("null")
            required = True
        if self._accept("comment"):
            self._next("a comment")
        return SchemaField(name, kind, required)

    def type_(self) -> FieldType:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise ConfigError("the schema is nested too deeply")
        name = self._next("a type").lower()
        name = _OTHER_NAMES.get(name, name)
        found = self._type_called(name)
        self._depth -= 1
        return found

    def _type_called(self, name: str) -> FieldType:
        if name in SIMPLE:
            return FieldType(name)
        if name in ("varchar", "char"):
            self._numbers()
            return FieldType("string")
        if name == "decimal":
            precision, scale = (*self._numbers(), 0, 0)[:2] if self._peek() == "(" else _DECIMAL
            if not (0 < precision <= PRECISION_MAX and 0 <= scale <= precision):
                raise ConfigError(f"decimal({precision},{scale}): the first is 1 to 38, the second at most as much")
            return FieldType(name, precision, scale)
        if name in ("array", "map", "struct"):
            self._expect("<")
            if name == "struct":
                found = FieldType(name, fields=self.fields(separators=(":", "")))
            elif name == "array":
                found = FieldType(name, items=(self.type_(),))
            else:
                key = self.type_()
                self._expect(",")
                found = FieldType(name, items=(key, self.type_()))
                if key.name != "string":
                    raise ConfigError(f"keys of a map are string, not {key}")
            self._expect(">")
            return found
        self._place -= 1
        return self._refuse("a type")

    def _numbers(self) -> tuple[int, ...]:
        self._expect("(")
        found = [self._number()]
        while self._accept(","):
            found.append(self._number())
        self._expect(")")
        return tuple(found)

    def _number(self) -> int:
        text = self._next("a number")
        if not (text.isascii() and text.isdigit()):
            self._place -= 1
            self._refuse("a number")
        return int(text)

    # --- tokens ---

    def _peek(self) -> str:
        return self.tokens[self._place] if self._place < len(self.tokens) else ""

    def _next(self, wanted: str) -> str:
        token = self._peek()
        if not token:
            self._refuse(wanted)
        self._place += 1
        return token

    def _accept(self, word: str) -> bool:
        if self._peek().lower() != word:
            return False
        self._place += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            self._refuse(word.upper())

    def expect_end(self) -> None:
        if self._peek():
            self._refuse("a comma or the end")

    def _refuse(self, wanted: str) -> FieldType:
        there = self._peek() or "its end"
        before = " ".join(self.tokens[max(0, self._place - 3) : self._place])
        after = f" after {before!r}" if before else ""
        example = "write a schema as id bigint, amount decimal(10,2), lines array<struct<sku:string,count:int>>"
        raise ConfigError(f"the schema needs {wanted}{after}, and has {there}: {example}")


def _tokens(text: str) -> list[str]:
    found, place, end = [], 0, len(text.rstrip())
    while place < end:
        match = _token.match(text, place)
        if match is None:
            raise ConfigError(f"the schema cannot be read from {text[place : place + 20]!r} on")
        found.append(next(each for each in match.groups() if each is not None))
        place = match.end()
    return found
