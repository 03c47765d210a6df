"""The compiled function against a tiny interpreter of the same tree that takes no short cut."""

from __future__ import annotations

import operator

from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.filters import InvalidFilterError, compile_filter
from pyromq.filters import expression as e
from pyromq.filters.grammar import parse
from pyromq.wire.properties import encode_properties

Value = str | int | float | bool | None
ORDERS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


class FailureError(Exception):
    """A text that does not fit a comparison."""


def evaluate(node: e.Node, properties: dict[str, str]) -> Value:
    def value(each: e.Node) -> Value:
        return evaluate(each, properties)

    def test(each: e.Node) -> bool | None:
        found = value(each)
        return found if found is None or isinstance(found, bool) else False

    match node:
        case e.Name(name):
            return properties.get(name)
        case e.Literal(constant):
            return constant
        case e.Negated(operand=operand):
            found = value(operand)
            return -found if isinstance(found, int | float) and not isinstance(found, bool) else None
        case e.Equality(left=left, right=right, negated=negated):
            same = equal(value(left), value(right))
            return same if same is None else same is not negated
        case e.Comparison(left=left, order=order, right=right):
            one, other = value(left), value(right)
            if one is None or other is None:
                return None
            pair = (number(one, float), number(other, float)) if isinstance(one, str) and isinstance(other, str) else (
                number(one, type(other)), number(other, type(one)))  # fmt: skip
            return bool(ORDERS[order.value](*pair))
        case e.And(parts=parts):
            so_far: bool | None = True
            for part in parts:
                found_ = test(part)
                so_far = False if found_ is False else None if found_ is None else so_far
                if so_far is False:
                    return False
            return so_far
        case e.Or(parts=parts):
            so_far = False
            for part in parts:
                found_ = test(part)
                so_far = True if found_ else None if found_ is None else so_far
                if so_far:
                    return True
            return so_far
        case e.Not(operand=operand):
            found_ = test(operand)
            return None if found_ is None else not found_
        case e.IsNull(operand=operand, negated=negated):
            return (value(operand) is None) is not negated
        case e.In(name=name_, values=values, negated=negated):
            text = properties.get(name_.name)
            return None if text is None else (text in values) is not negated
        case e.Search(operand=operand, where=where, text=wanted, negated=negated):
            text_ = value(operand)
            if not isinstance(text_, str) or not wanted:
                return False
            is_found = {
                e.Where.ANYWHERE: wanted in text_,
                e.Where.AT_START: text_.startswith(wanted),
                e.Where.AT_END: text_.endswith(wanted),
            }
            return is_found[where] is not negated


def number(value: Value, like: type) -> int | float:
    if not isinstance(value, str):
        assert value is not None
        return value
    try:
        return int(value) if like is int else float(value)
    except ValueError as error:
        raise FailureError from error


def equal(left: Value, right: Value) -> bool | None:
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    kinds = type(left), type(right)
    if kinds == (bool, str):
        raise FailureError
    if kinds == (str, bool):
        return (str(left).lower() == "true") is right
    if bool in kinds:
        return kinds == (bool, bool) and left is right
    if kinds == (str, str):
        return left == right
    return number(left, kinds[1]) == number(right, kinds[0])


NAMES = st.sampled_from(["a", "b", "c", "+b"])
NUMBERS = st.one_of(NAMES, st.sampled_from(["5", "7", "1.5", "-5", "-1.5", "-a"]))
OPERANDS = st.one_of(NUMBERS, st.sampled_from(["'x'", "'5'", "'true'", "TRUE", "FALSE", "(a = 5)", "(b > 1.0)"]))
NOT = st.sampled_from(["", "NOT "])
WORDS = st.sampled_from(["'x'", "'5'", "''", "'tr'"])
TESTS = st.one_of(
    st.builds("{} {} {}".format, OPERANDS, st.sampled_from(["=", "<>"]), OPERANDS),
    st.builds("{} {} {}".format, NUMBERS, st.sampled_from([">", ">=", "<", "<="]), NUMBERS),
    st.builds("{} {}IN ({}, {})".format, NAMES, NOT, WORDS, WORDS),
    st.builds("{} IS {}NULL".format, OPERANDS, NOT),
    st.builds("{} {}BETWEEN {} AND {}".format, NUMBERS, NOT, NUMBERS, NUMBERS),
    st.builds("{} {}{} {}".format, OPERANDS, NOT, st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]), WORDS),
    st.sampled_from(["a", "TRUE", "FALSE", "NULL"]),
)
EXPRESSIONS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["=", "<>"]), inner),
        st.builds("({}) IS {}NULL".format, inner, NOT),
        st.builds(
            lambda word, parts: word.join(f"({part})" for part in parts),
            st.sampled_from([" AND ", " OR "]),
            st.lists(inner, min_size=2, max_size=4),
        ),
    ),
    max_leaves=12,
)
TEXTS = st.sampled_from(["5", "7", "-5", "1.5", "x", "true", "TRUE", "trust", "05"])
PROPERTIES = st.dictionaries(st.sampled_from(["a", "b", "c"]), TEXTS)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, PROPERTIES)
def test_the_program_of_an_expression_gives_what_its_tree_gives(expression: str, properties: dict[str, str]) -> None:
    try:
        matches = compile_filter(expression).matches
    except InvalidFilterError:
        return
    try:
        expected = evaluate(parse(expression), properties) is True
    except FailureError:
        expected = False
    assert matches(encode_properties(properties)) is expected


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    try:
        assert compile_filter(text).matches(b"a\x015\x02") in (True, False)
    except InvalidFilterError as error:
        assert str(error)
