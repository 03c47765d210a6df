r"""From text to tree: the grammar of RocketMQ's SQL92 expressions.

    condition  :=  all (OR all)*
    all        :=  equality (AND equality)*
    equality   :=  comparison ( (= | <>) comparison | IS [NOT] NULL )*
    comparison :=  unary ( (> | >= | < | <=) unary | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) string
                         | [NOT] BETWEEN unary AND unary | [NOT] IN ( string, … ) )*
    unary      :=  (+ | - | NOT) unary | property | constant | ( condition )

NOT binds closer than a comparison: ``NOT a = 1`` is ``(NOT a) = 1``. The parser is LALR: its time grows with the length
of the text, and it does not recurse; long texts are given up in the middle. Unlike RocketMQ's it reads to the end:
there ``a LIKE 'x'`` means ``a``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.lark import PostLex

from pyromq.filters import expression as e
from pyromq.filters.errors import InvalidFilterError
from pyromq.filters.expression import Node, Order, Where

TOKENS_MAX: Final = 4_096
PARENTHESES_MAX: Final = 64  # open at the same time

_GRAMMAR: Final = r"""
?start: any_of
?any_of: all_of (_OR all_of)*
?all_of: equality (_AND equality)*
?equality: comparison
    | equality "=" comparison -> equal
    | equality "<>" comparison -> unequal
    | equality _IS _NULL -> is_null
    | equality _IS _NOT _NULL -> is_not_null
?comparison: unary
    | comparison ORDER unary -> compare
    | comparison WHERE STRING -> search
    | comparison _NOT WHERE STRING -> not_search
    | comparison _BETWEEN unary _AND unary -> between
    | comparison _NOT _BETWEEN unary _AND unary -> not_between
    | comparison _IN "(" STRING ("," STRING)* ")" -> one_of
    | comparison _NOT _IN "(" STRING ("," STRING)* ")" -> not_one_of
?unary: "+" unary
    | "-" unary -> negate
    | _NOT unary -> invert
    | NAME -> name
    | STRING -> text
    | INTEGER -> integer
    | DECIMAL -> decimal
    | _TRUE -> true
    | _FALSE -> false
    | _NULL -> null
    | "(" any_of ")"

ORDER: ">=" | "<=" | ">" | /<(?!>)/
WHERE.2: /(contains|startswith|endswith)(?![a-z0-9_$])/i
_OR.2: /or(?![a-z0-9_$])/i
_AND.2: /and(?![a-z0-9_$])/i
_NOT.2: /not(?![a-z0-9_$])/i
_IS.2: /is(?![a-z0-9_$])/i
_IN.2: /in(?![a-z0-9_$])/i
_BETWEEN.2: /between(?![a-z0-9_$])/i
_TRUE.2: /true(?![a-z0-9_$])/i
_FALSE.2: /false(?![a-z0-9_$])/i
_NULL.2: /null(?![a-z0-9_$])/i
NAME: /[a-zA-Z_$][a-zA-Z0-9_$]*/
STRING: /'(?:[^']|'')*'/
DECIMAL.2: /(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+/
INTEGER.1: /(?:0|[1-9][0-9]*)[lL]?/
SPACE.3: /[ \t\n\r\f]+/
COMMENT.3: /--[^\n\r]*|\/\*(?:[^*]|\*(?!\/))*\*\//
%ignore SPACE
%ignore COMMENT
"""


class _Bounds(PostLex):
    """Watches the tokens on their way to the parser."""

    always_accept = ()

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        is_open = 0
        for number, token in enumerate(stream):
            if number >= TOKENS_MAX:
                raise InvalidFilterError(f"the expression has more than {TOKENS_MAX} words and signs")
            is_open += (token.type == "LPAR") - (token.type == "RPAR")
            if is_open > PARENTHESES_MAX:
                raise InvalidFilterError(
                    f"more than {PARENTHESES_MAX} parentheses are open at character {token.start_pos}"
                )
            yield token


class _Builder(Transformer[Token, Node]):
    """Called by the parser as it reduces; nothing is walked afterwards."""

    def any_of(self, parts: list[Node]) -> Node:
        return e.any_of(parts)

    def all_of(self, parts: list[Node]) -> Node:
        return e.all_of(parts)

    def equal(self, parts: list[Node]) -> Node:
        return e.equal(*parts)

    def unequal(self, parts: list[Node]) -> Node:
        return e.equal(*parts, negated=True)

    def is_null(self, parts: list[Node]) -> Node:
        return e.is_null(*parts)

    def is_not_null(self, parts: list[Node]) -> Node:
        return e.is_null(*parts, negated=True)

    def compare(self, parts: list[Any]) -> Node:
        left, order, right = parts
        return e.compare(left, Order(str(order)), right)

    def search(self, parts: list[Any], *, negated: bool = False) -> Node:
        operand, where, text = parts
        return e.search(operand, Where(where.upper()), _unquoted(text), negated=negated)

    def not_search(self, parts: list[Any]) -> Node:
        return self.search(parts, negated=True)

    def between(self, parts: list[Node]) -> Node:
        return e.between(*parts)

    def not_between(self, parts: list[Node]) -> Node:
        return e.not_between(*parts)

    def one_of(self, parts: list[Any], *, negated: bool = False) -> Node:
        operand, *values = parts
        return e.one_of(operand, [_unquoted(value) for value in values], negated=negated)

    def not_one_of(self, parts: list[Any]) -> Node:
        return self.one_of(parts, negated=True)

    def negate(self, parts: list[Node]) -> Node:
        return e.negate(*parts)

    def invert(self, parts: list[Node]) -> Node:
        return e.invert(*parts)

    def name(self, parts: list[Token]) -> Node:
        return e.Name(str(parts[0]))

    def text(self, parts: list[Token]) -> Node:
        return e.Literal(_unquoted(parts[0]))

    def integer(self, parts: list[Token]) -> Node:
        return e.integer(parts[0].rstrip("lL"))

    def decimal(self, parts: list[Token]) -> Node:
        return e.decimal(str(parts[0]))

    def true(self, parts: list[Token]) -> Node:
        return e.Literal(True)

    def false(self, parts: list[Token]) -> Node:
        return e.Literal(False)

    def null(self, parts: list[Token]) -> Node:
        return e.Literal(None)


def parse(text: str) -> Node:
    """The checked tree of an expression. Raises InvalidFilterError."""
    try:
        # The parser hands back what the builder made of the start rule.
        root: Any = _parser().parse(text)
    except UnexpectedInput as error:
        raise InvalidFilterError(_why(error, text)) from error
    return e.require_test(root)


@cache
def _parser() -> Lark:
    bounds, builder = _Bounds(), _Builder()
    return Lark(_GRAMMAR, parser="lalr", lexer="basic", postlex=bounds, transformer=builder, maybe_placeholders=False)


def _unquoted(token: str) -> str:
    return token[1:-1].replace("''", "'")


def _why(error: UnexpectedInput, text: str) -> str:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return "the expression ends too early" if text.strip() else "the expression is empty"
    at = (error.pos_in_stream or 0) + 1
    if isinstance(error, UnexpectedCharacters):
        if error.char == "'":
            return f"the string that begins at character {at} is never closed"
        return f"character {at}, {error.char!r}, is not part of the language"
    found = str(error.token) if isinstance(error, UnexpectedToken) else "this"
    return f"{found[:40]!r} at character {at} is not expected there"
