"""An expression as a checked tree: what cannot make sense for any message is refused here, once.

Nodes are frozen and know how deep they are and how many operands they hold, so a limit is noticed where it is passed.
The functions build nodes and raise InvalidFilterError. What a test gives is TRUE, FALSE or NULL; operands give a text,
a number, TRUE, FALSE or NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pyromq.filters.errors import InvalidFilterError

DEPTH_MAX: Final = 32
OPERANDS_MAX: Final = 512
STRINGS_MAX: Final = 1_000  # of all IN lists together
_SHOWN_MAX: Final = 80
_LONG_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Name:
    """A property of the message."""

    name: str
    depth: int = field(default=1, init=False)
    operands: int = field(default=1, init=False)
    strings: int = field(default=0, init=False)


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | int | float | bool | None
    depth: int = field(default=1, init=False)
    operands: int = field(default=1, init=False)
    strings: int = field(default=0, init=False)


@dataclass(frozen=True, slots=True)
class _Inner:
    """What holds other nodes."""

    depth: int = field(kw_only=True)
    operands: int = field(kw_only=True)
    strings: int = field(kw_only=True, default=0)


@dataclass(frozen=True, slots=True)
class Negated(_Inner):
    """``-x``: a number, or NULL for anything else."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Equality(_Inner):
    left: Node
    right: Node
    negated: bool


class Order(Enum):
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LESS = "<"
    LESS_OR_EQUAL = "<="


@dataclass(frozen=True, slots=True)
class Comparison(_Inner):
    left: Node
    order: Order
    right: Node


@dataclass(frozen=True, slots=True)
class And(_Inner):
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or(_Inner):
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not(_Inner):
    operand: Node


@dataclass(frozen=True, slots=True)
class IsNull(_Inner):
    operand: Node
    negated: bool


@dataclass(frozen=True, slots=True)
class In(_Inner):
    name: Name
    values: frozenset[str]
    negated: bool


class Where(Enum):
    ANYWHERE = "CONTAINS"
    AT_START = "STARTSWITH"
    AT_END = "ENDSWITH"


@dataclass(frozen=True, slots=True)
class Search(_Inner):
    operand: Node
    where: Where
    text: str
    negated: bool


Test = Equality | Comparison | And | Or | Not | IsNull | In | Search
Node = Name | Literal | Negated | Test


# --- building ------------------------------------------------------------------------------------------------------


def integer(digits: str) -> Literal:
    value = int(digits) if len(digits) <= len(str(_LONG_MAX)) else _LONG_MAX + 1
    if value > _LONG_MAX:
        raise InvalidFilterError(f"{digits[:_SHOWN_MAX]} does not fit in 64 bits")
    return Literal(value)


def decimal(text: str) -> Literal:
    """RocketMQ takes decimals greater than zero only; others come from a minus in front."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise InvalidFilterError(f"{text[:_SHOWN_MAX]}: a decimal must be greater than 0 and finite")
    return Literal(value)


def negate(operand: Node) -> Negated:
    return Negated(operand, depth=_depth(operand), operands=_operands(operand), strings=_strings(operand))


def equal(left: Node, right: Node, *, negated: bool = False) -> Equality:
    if _is_null(left) or _is_null(right):
        raise InvalidFilterError("NULL cannot be compared; write IS NULL or IS NOT NULL")
    if _is_boolean_literal(left) and isinstance(right, Literal) and not _is_boolean_literal(right):
        raise InvalidFilterError(f"{shown(left)} cannot be compared with {shown(right)}")
    return Equality(left, right, negated, **_measures(left, right))


def compare(left: Node, order: Order, right: Node) -> Comparison:
    for operand in (left, right):
        is_number = isinstance(operand, Literal) and type(operand.value) in (int, float)
        if not is_number and not isinstance(operand, Name | Negated):
            raise InvalidFilterError(
                f"{shown(operand)} cannot be compared with {order.value}; numbers and properties can"
            )
    return Comparison(left, order, right, **_measures(left, right))


def between(operand: Node, low: Node, high: Node) -> And:
    if _is_null(low) or _is_null(high):
        raise InvalidFilterError("the bounds of BETWEEN cannot be NULL")
    parts = compare(operand, Order.GREATER_OR_EQUAL, low), compare(operand, Order.LESS_OR_EQUAL, high)
    if isinstance(low, Literal) and isinstance(high, Literal) and float(low.value or 0) > float(high.value or 0):
        raise InvalidFilterError(f"BETWEEN {shown(low)} AND {shown(high)}: the lower bound comes first")
    return And(parts, **_measures(*parts))


def not_between(operand: Node, low: Node, high: Node) -> Or:
    parts = compare(operand, Order.LESS, low), compare(operand, Order.GREATER, high)
    return Or(parts, **_measures(*parts))


def all_of(parts: Sequence[Node]) -> And:
    tests = tuple(map(require_test, parts))
    return And(tests, **_measures(*tests))


def any_of(parts: Sequence[Node]) -> Or:
    tests = tuple(map(require_test, parts))
    return Or(tests, **_measures(*tests))


def invert(operand: Node) -> Not:
    return Not(require_test(operand), **_measures(operand))


def is_null(operand: Node, *, negated: bool = False) -> IsNull:
    return IsNull(operand, negated, **_measures(operand))


def one_of(operand: Node, values: Sequence[str], *, negated: bool = False) -> In:
    if not isinstance(operand, Name):
        raise InvalidFilterError(f"IN looks for the value of a property, and {shown(operand)} is not one")
    if len(values) > STRINGS_MAX:
        raise InvalidFilterError(f"IN with {len(values)} strings, at most {STRINGS_MAX} are allowed")
    return In(operand, frozenset(values), negated, depth=2, operands=1, strings=len(values))


def search(operand: Node, where: Where, text: str, *, negated: bool = False) -> Search:
    return Search(operand, where, text, negated, **_measures(operand))


def require_test(node: Node) -> Node:
    """What may stand where a condition is wanted: tests, properties, TRUE, FALSE and NULL."""
    is_text_or_number = isinstance(node, Literal) and not (node.value is None or type(node.value) is bool)
    if is_text_or_number or isinstance(node, Negated):
        raise InvalidFilterError(f"{shown(node)} is not a condition: compare it with something")
    return node


def _measures(*parts: Node) -> dict[str, int]:
    return {"depth": _depth(*parts), "operands": _operands(*parts), "strings": _strings(*parts)}


def _depth(*parts: Node) -> int:
    depth = 1 + max(part.depth for part in parts)
    if depth > DEPTH_MAX:
        raise InvalidFilterError(f"the expression is nested more than {DEPTH_MAX} levels deep")
    return depth


def _operands(*parts: Node) -> int:
    return _bounded(
        sum(part.operands for part in parts), OPERANDS_MAX, "the expression has", "properties and constants"
    )


def _strings(*parts: Node) -> int:
    return _bounded(sum(part.strings for part in parts), STRINGS_MAX, "the IN lists have", "strings together")


def _bounded(count: int, most: int, what: str, of_what: str) -> int:
    if count > most:
        raise InvalidFilterError(f"{what} more than {most} {of_what}")
    return count


def _is_null(node: Node) -> bool:
    return isinstance(node, Literal) and node.value is None


def _is_boolean_literal(node: Node) -> bool:
    return isinstance(node, Literal) and type(node.value) is bool


# --- showing -------------------------------------------------------------------------------------------------------


def shown(node: Node) -> str:
    """The node for an error text, cut when long."""
    text = _text(node)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _text(node: Node) -> str:
    match node:
        case Name(name):
            return name
        case Literal(None):
            return "NULL"
        case Literal(str(value)):
            return "'" + value.replace("'", "''") + "'"
        case Literal(value):
            return str(value).upper()
        case Negated(operand=operand):
            return f"-{_text(operand)}"
        case Equality(left=left, right=right, negated=negated):
            return f"({_text(left)} {'<>' if negated else '='} {_text(right)})"
        case Comparison(left=left, order=order, right=right):
            return f"({_text(left)} {order.value} {_text(right)})"
        case And(parts=parts):
            return f"({' AND '.join(map(_text, parts))})"
        case Or(parts=parts):
            return f"({' OR '.join(map(_text, parts))})"
        case Not(operand=operand):
            return f"(NOT {_text(operand)})"
        case IsNull(operand=operand, negated=negated):
            return f"({_text(operand)} IS {'NOT ' if negated else ''}NULL)"
        case In(name=name, negated=negated):
            return f"({name.name} {'NOT ' if negated else ''}IN (…))"
        case Search(operand=operand, where=where, negated=negated):
            return f"({_text(operand)} {'NOT ' if negated else ''}{where.value} …)"
