"""SQL92 expressions as filters; those compiled last are kept, those refused too."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from pyromq.filters.errors import InvalidFilterError
from pyromq.filters.program import Matches, program_of

EXPRESSION_CHARACTERS_MAX: Final = 16_384
_KEPT: Final = 1_024


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """``matches(properties)``: does a message with these stored properties pass?"""

    expression: str
    matches: Matches = field(compare=False, repr=False)
    terms: int = field(default=1, compare=False, repr=False)  # properties and constants: what a test costs


def compile_filter(expression: str) -> SqlFilter:
    """Compile an SQL92 expression. Raises InvalidFilterError, whose text says what is wrong and where."""
    found = _compiled(expression) if len(expression) <= EXPRESSION_CHARACTERS_MAX else _too_long(expression)
    if isinstance(found, str):
        raise InvalidFilterError(found)
    return found


def load_parser() -> None:
    """Build the parser, a tenth of a second of work, before the first expression comes; any thread may do it."""
    _compiled("TRUE")


@lru_cache(maxsize=_KEPT)
def _compiled(expression: str) -> SqlFilter | str:
    from pyromq.filters.grammar import parse  # building the parser takes a moment: see load_parser

    try:
        tree = parse(expression)
        return SqlFilter(expression, program_of(tree), tree.operands)
    except InvalidFilterError as error:
        return str(error)


def _too_long(expression: str) -> str:
    return f"the expression has {len(expression)} characters, at most {EXPRESSION_CHARACTERS_MAX} are allowed"
