"""Hostile expressions: refused with a text that says why, without much work, and nothing breaks."""

from __future__ import annotations

import pytest

from pyromq.filters import InvalidFilterError, compile_filter
from pyromq.filters.expression import DEPTH_MAX, OPERANDS_MAX, STRINGS_MAX
from pyromq.filters.grammar import PARENTHESES_MAX, TOKENS_MAX
from pyromq.filters.sql import EXPRESSION_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("a = 1 " + " " * EXPRESSION_CHARACTERS_MAX, f"at most {EXPRESSION_CHARACTERS_MAX} are allowed"),
        ("(" * 10_000, f"more than {PARENTHESES_MAX} parentheses"),
        ("(" * 70 + "a = 1" + ")" * 70, f"more than {PARENTHESES_MAX} parentheses"),
        ("- " * 8_000, f"more than {TOKENS_MAX} words and signs"),
        ("NOT " * 4_000 + "a", f"nested more than {DEPTH_MAX} levels"),
        ("NOT " * 100 + "a", f"nested more than {DEPTH_MAX} levels"),
        ("- " * 100 + "5 = a", f"nested more than {DEPTH_MAX} levels"),
        ("a = " * 100 + "b", f"nested more than {DEPTH_MAX} levels"),
        ("a IS NULL " + "IS NULL " * 100, f"nested more than {DEPTH_MAX} levels"),
        (" OR ".join(["a = 1"] * 300), f"more than {OPERANDS_MAX} properties"),
        (" AND ".join(["a"] * 600), f"more than {OPERANDS_MAX} properties"),
        (f"a IN ({','.join(['1'.join(chr(39) * 2)] * 1_001)})", f"at most {STRINGS_MAX} are allowed"),
        (" OR ".join([f"a IN ({','.join([chr(39) * 2] * 501)})"] * 2), f"more than {STRINGS_MAX} strings together"),
        ("1" * 5_000 + " = a", "does not fit in 64 bits"),
        ("a > " + "9" * 5_000 + ".5", "greater than 0 and finite"),
        ("", "the expression is empty"),
        (" \n -- nothing", "ends too early"),
        ("a = 'never", "begins at character 5 is never closed"),
        ("a = 1 /* never", "character 7, '/', is not part"),
        ("a = \x00", "is not part of the language"),
        ("a = \ud800", "is not part of the language"),
        ("preis_€ = 1", "character 7, '€', is not part"),
        ("a >", "ends too early"),
        ("a = NULL", "write IS NULL"),
        ("a < 'x'", "'x' cannot be compared with <"),
        ("NOT a > 5", r"\(NOT a\) cannot be compared with >"),
        ("a BETWEEN 10 AND 1", "the lower bound comes first"),
        ("a AND 5", "5 is not a condition"),
        ("5 IN ('5')", "IN looks for the value of a property"),
        ("TRUE = 'x'", "TRUE cannot be compared with 'x'"),
        ("a > 0.0", "greater than 0"),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_the_refusal_says_what_is_wrong(expression: str, reason: str) -> None:
    for _ in range(2):  # the second time from memory
        with pytest.raises(InvalidFilterError, match=reason) as refusal:
            compile_filter(expression)
        assert len(str(refusal.value)) < 300


def test_expressions_at_the_limits_work() -> None:
    properties = b"a\x015\x02"
    long_list = ",".join(f"'{number}'" for number in range(STRINGS_MAX))
    many = " OR ".join([f"a = {number}" for number in range(OPERANDS_MAX // 2)])
    deep = "a = 5"
    for _ in range((DEPTH_MAX - 2) // 3):
        deep = f"NOT (NOT ({deep}) OR a = 6)"
    for expression in (f"a IN ({long_list})", many, f"NOT (NOT ({many}))", deep, "(" * 60 + "a=5" + ")" * 60):
        assert compile_filter(expression).matches(properties), expression[:40]
    with pytest.raises(InvalidFilterError, match="nested"):
        compile_filter(f"NOT (NOT ({deep}) OR a = 6)")


def test_no_text_of_an_expression_becomes_code() -> None:
    hostile = b"__import__\x01x\x02p0\x015\x02raw\x01y\x02matches\x01z\x02None\x01n\x02"
    for name in ("__import__", "raw", "matches", "None", "at", "c0", "whole", "lambda", "p1"):
        expected = name in ("__import__", "raw", "matches", "None")
        assert compile_filter(f"{name} IS NOT NULL").matches(hostile) is expected
    text = "');raise SystemExit#"
    assert compile_filter(f"raw <> '{text.replace(chr(39), chr(39) * 2)}'").matches(hostile)
