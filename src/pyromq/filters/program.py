r"""From tree to function: one Python function per expression, ``matches(properties: bytes) -> bool``.

Its source is made here from names and operators of our own; texts and numbers of the expression come in as values of
names. For ``price > 10 AND region = 'eu'``:

    def matches(properties):
        raw = b"\x02" + properties + b"\x02"
        p0 = None if (at := raw.rfind(c2)) < 0 else raw[(at := at + 7):raw.find(b"\x02", at)] or earlier(raw, c2, at)
        p1 = …
        try:
            return True if (None if p0 is None else whole(p0) > c0) and (None if p1 is None else p1 == c1) else False
        except ValueError:
            return False

Only TRUE matches. A text that does not fit a comparison (ValueError) means no match for the whole expression, as in
RocketMQ, so a part may be skipped only if its failure could change nothing: ``_matching`` may skip whatever follows
something that is not TRUE, ``_value`` evaluates exactly what RocketMQ does, with NULL as None.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from pyromq.filters.expression import (
    And,
    Comparison,
    Equality,
    In,
    IsNull,
    Literal,
    Name,
    Negated,
    Node,
    Not,
    Or,
    Search,
    Where,
)
from pyromq.filters.numbers import double, order_of_doubles, whole

Matches = Callable[[bytes], bool]
Value = bytes | int | float | bool | None


def program_of(root: Node) -> Matches:
    """The function of a checked tree."""
    return _Program(root).build()


class _Program:
    def __init__(self, root: Node) -> None:
        self._root = root
        self._scope: dict[str, Any] = dict(_HELPERS)
        self._properties: dict[str, str] = {}  # variable by property name
        self._numbers = count()

    def build(self) -> Matches:
        test = self._matching(self._root)
        reads = "".join(self._read(name, variable) for name, variable in self._properties.items())
        source = (
            "def matches(properties):\n"
            '    raw = b"\\x02" + properties + b"\\x02"\n'
            f"{reads}"
            "    try:\n"
            f"        return True if {test} else False\n"
            "    except ValueError:\n"
            "        return False\n"
        )
        exec(compile(source, "<sql92>", "exec"), self._scope)
        function: Matches = self._scope["matches"]
        return function

    def _read(self, name: str, variable: str) -> str:
        key = b"\x02" + name.encode() + b"\x01"
        known = self._constant(key)
        found = f'raw[(at := at + {len(key)}):raw.find(b"\\x02", at)] or earlier(raw, {known}, at)'
        return f"    {variable} = None if (at := raw.rfind({known})) < 0 else {found}\n"

    # --- names in the source ---

    def _constant(self, value: object) -> str:
        name = f"c{next(self._numbers)}"
        self._scope[name] = value
        return name

    def _property(self, name: Name) -> str:
        return self._properties.setdefault(name.name, f"p{len(self._properties)}")

    def _local(self) -> str:
        return f"v{next(self._numbers)}"

    # --- tests ---

    def _matching(self, node: Node) -> str:
        """True if and only if the test is TRUE; what is not may be False, None or a ValueError."""
        match node:
            case And(parts=parts):
                return f"({' and '.join(map(self._matching, parts))})"
            case Or(parts=(*first, last)):
                return f"({' or '.join([*map(self._value, first), self._matching(last)])})"
            case _:
                return self._value(node)

    def _value(self, node: Node) -> str:
        """What an operand or test gives, None for NULL, with all its failures."""
        match node:
            case Name():
                return f"(None if {self._property(node)} is None else False)"  # a property where a test is wanted
            case Literal():
                return self._operand(node)
            case Negated(operand=operand):
                return self._operand(node) if _number(node) is not None else f"negated({self._operand(operand)})"
            case Equality(left=left, right=right, negated=is_negated):
                return self._equality(left, right, "!=" if is_negated else "==")
            case Comparison():
                return self._comparison(node)
            case And(parts=parts):
                return self._chain(parts, "and3", "is False", "False")
            case Or(parts=parts):
                return self._chain(parts, "or3", "is True", "True")
            case Not(operand=operand):
                value = self._local()
                return f"(None if ({value} := {self._value(operand)}) is None else not {value})"
            case IsNull(operand=operand, negated=is_negated):
                return f"({self._operand(operand)} is {'not ' if is_negated else ''}None)"
            case In(name=name, values=values, negated=is_negated):
                known = self._constant(frozenset(value.encode() for value in values))
                text = self._property(name)
                return f"(None if {text} is None else {text} {'not in' if is_negated else 'in'} {known})"
            case Search():
                return self._search(node)

    def _chain(self, parts: tuple[Node, ...], join: str, decided: str, verdict: str) -> str:
        """AND and OR of three values: left to right, up to the part that decides."""
        value = self._local()
        first, *others = map(self._value, parts)
        steps = [
            f"({value} := {first}) {decided}",
            *(f"({value} := {join}({value}, {each})) {decided}" for each in others),
        ]
        return f"({verdict} if {' or '.join(steps)} else {value})"

    def _equality(self, left: Node, right: Node, sign: str) -> str:
        if (
            isinstance(left, Name)
            and isinstance(right, Literal | Negated)
            and (test := self._fitted(left, sign, right))
        ):
            return f"(None if {self._property(left)} is None else {test})"
        if isinstance(right, Name) and _number(left) is not None and (test := self._fitted(right, sign, left)):
            return f"({sign == '!='} if {self._property(right)} is None else {test})"
        value = self._local()
        found = f"({value} := equal({self._operand(left)}, {self._operand(right)}))"
        return f"(None if {found} is None else {value} is {sign == '=='})"

    def _fitted(self, name: Name, sign: str, constant: Node) -> str:
        """A property that is there, compared with a constant, whose type decides how the text is read; or nothing."""
        text, number = self._property(name), _number(constant)
        if number is not None:
            return f"{_reader(number)}({text}) {sign} {self._constant(number)}"
        match constant:
            case Literal(bool(value)):
                return f"({text}.lower() == b'true') {sign} {value}"
            case Literal(str(value)):
                return f"{text} {sign} {self._constant(value.encode())}"
            case _:
                return ""

    def _comparison(self, node: Comparison) -> str:
        left, right, sign = node.left, node.right, node.order.value
        if isinstance(left, Name) and (number := _number(right)) is not None:
            text = self._property(left)
            return f"(None if {text} is None else {_reader(number)}({text}) {sign} {self._constant(number)})"
        if isinstance(right, Name) and (number := _number(left)) is not None:
            text = self._property(right)
            return f"(None if {text} is None else {self._constant(number)} {sign} {_reader(number)}({text}))"
        value = self._local()
        found = f"({value} := order({self._operand(left)}, {self._operand(right)}))"
        return f"(None if {found} is None else {value} {sign} 0)"

    def _search(self, node: Search) -> str:
        text, negated = self._constant(node.text.encode()), "not " if node.negated else ""
        value = self._local()
        method = {Where.AT_START: "startswith", Where.AT_END: "endswith"}.get(node.where)
        found = f"{value}.{method}({text})" if method else f"({text} in {value})"
        is_text = f"type({value} := {self._operand(node.operand)}) is bytes"
        return f"({is_text} and {text} != b'' and {negated}{found})"

    # --- operands ---

    def _operand(self, node: Node) -> str:
        if isinstance(node, Name):
            return self._property(node)
        if (number := _number(node)) is not None:
            return self._constant(number)
        if isinstance(node, Literal):
            return self._constant(node.value.encode() if isinstance(node.value, str) else node.value)
        return self._value(node)


def _number(node: Node) -> int | float | None:
    """The value of a constant number, with its sign."""
    match node:
        case Literal(value) if type(value) is int or type(value) is float:
            return value
        case Negated(operand=operand):
            number = _number(operand)
            return None if number is None else -number
        case _:
            return None


def _reader(number: float) -> str:
    return "whole" if type(number) is int else "double"


# --- what the functions call -----------------------------------------------------------------------------------------


def _earlier(raw: bytes, key: bytes, at: int) -> bytes | None:
    """The last item with a value, of those before an empty one that ends at ``at``."""
    while (item := raw.rfind(key, 0, at - 1)) >= 0:
        at = item + len(key)
        if value := raw[at : raw.find(b"\x02", at)]:
            return value
    return None


def _and3(left: bool | None, right: bool | None) -> bool | None:
    return left if right else right  # left is TRUE or NULL


def _or3(left: bool | None, right: bool | None) -> bool | None:
    return left if right is False else right  # left is FALSE or NULL


def _negated(value: Value) -> int | float | None:
    return -value if type(value) is int or type(value) is float else None


def _equal(left: Value, right: Value) -> bool | None:
    """``=`` of any two values. Which one is NULL matters."""
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    if type(left) is bytes and type(right) is not bytes:
        return (left.lower() == b"true") is right if type(right) is bool else _as(left, right) == right
    if type(right) is bytes and type(left) is not bytes:
        if type(left) is bool:
            raise ValueError("TRUE and FALSE cannot be compared with a text on their right")
        return left == _as(right, left)
    if (type(left) is bool) != (type(right) is bool):
        return False
    return left == right if type(left) is type(right) else float(left) == float(right)


def _order(left: Value, right: Value) -> int | None:
    """Negative, 0 or positive; two texts are compared as numbers with fraction."""
    if left is None or right is None:
        return None
    one = _as(left, right) if isinstance(left, bytes) else left
    other = _as(right, one) if isinstance(right, bytes) else right
    if type(one) is int and type(other) is int:
        return one - other
    return order_of_doubles(float(one) if type(one) is int else one, float(other) if type(other) is int else other)


def _as(text: bytes, number: Value) -> int | float:
    return whole(text) if type(number) is int else double(text)


_HELPERS: Final[dict[str, Any]] = {
    "__builtins__": {"ValueError": ValueError, "type": type, "bytes": bytes},
    "earlier": _earlier,
    "whole": whole,
    "double": double,
    "and3": _and3,
    "or3": _or3,
    "negated": _negated,
    "equal": _equal,
    "order": _order,
}
