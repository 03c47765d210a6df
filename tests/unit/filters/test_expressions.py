"""What expressions mean. ``expressions.txt`` holds what Apache RocketMQ makes of 867 of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.filters import InvalidFilterError, compile_filter
from pyromq.wire.properties import encode_properties

LINES = [
    line.split("\t")
    for line in (Path(__file__).parent / "expressions.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
PROPERTIES = encode_properties({name: value for kind, name, value in (line for line in LINES if line[0] == "property")})
EXPECTED = [(expression, outcome) for outcome, expression in (line for line in LINES if line[0] != "property")]


def outcome(expression: str, properties: bytes = PROPERTIES) -> str:
    try:
        return "match" if compile_filter(expression).matches(properties) else "no match"
    except InvalidFilterError:
        return "refused"


def test_expressions_mean_what_they_mean_to_rocketmq() -> None:
    wrong = [(text, expected, outcome(text)) for text, expected in EXPECTED if outcome(text) != expected]
    assert not wrong
    assert len(EXPECTED) > 800 and {expected for _, expected in EXPECTED} == {"match", "no match", "refused"}


@pytest.mark.parametrize(
    "expression", ["a LIKE 'x'", "a + 1 > 5", "a = 5 )", "a = 010", "a = 5 6", "a > 4 b", "now() > 1"]
)
def test_what_rocketmq_passes_over_at_the_end_is_refused(expression: str) -> None:
    with pytest.raises(InvalidFilterError, match="is not expected there"):
        compile_filter(expression)


@pytest.mark.parametrize("expression", ["mx > 5", "mn < 5", "mx = 9223372036854775807"])
def test_whole_numbers_have_64_bits_whatever_they_are_compared_with(expression: str) -> None:
    assert outcome(expression) == "match"  # RocketMQ reads the property with 32 bits when the constant fits in those


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        ("TRUE", "TRUE", "TRUE", "TRUE"),
        ("TRUE", "FALSE", "FALSE", "TRUE"),
        ("TRUE", "NULL", "NULL", "TRUE"),
        ("FALSE", "FALSE", "FALSE", "FALSE"),
        ("FALSE", "NULL", "FALSE", "NULL"),
        ("NULL", "NULL", "NULL", "NULL"),
    ],
)
def test_and_and_or_have_three_values(left: str, right: str, both: str, either: str) -> None:
    for one, other in ((left, right), (right, left)):
        assert is_exactly(f"{one} AND {other}", both)
        assert is_exactly(f"{one} OR {other}", either)
        assert is_exactly(f"NOT ({one} AND {other})", {"TRUE": "FALSE", "FALSE": "TRUE", "NULL": "NULL"}[both])


def is_exactly(expression: str, value: str) -> bool:
    """Says which of the three an expression gives."""
    known = {"TRUE": f"({expression})", "FALSE": f"NOT ({expression})", "NULL": f"({expression}) IS NULL"}
    return [name for name, test in known.items() if outcome(test) == "match"] == [value]


def test_a_failure_spoils_the_expression_unless_it_is_decided_before() -> None:
    assert outcome("s > 5 OR TRUE") == "no match"
    assert outcome("TRUE OR s > 5") == "match"
    assert outcome("(missing > 5 AND s > 5) OR TRUE") == "no match"  # NULL AND … is not decided by its left side
    assert outcome("(FALSE AND s > 5) OR TRUE") == "match"
    assert outcome("NOT (FALSE AND s > 5)") == "match"
    assert outcome("NOT (s > 5)") == "no match"


def test_properties_are_read_as_they_are_stored() -> None:
    assert outcome("a = 'two'", b"a\x01one\x02a\x01two\x02") == "match"  # of a repeated name the last one counts
    assert outcome("a = 'one'", b"a\x01one\x02a\x01\x02") == "match"  # unless it is empty
    assert outcome("a IS NULL", b"a\x01\x02a\x01\x02") == "match"
    assert outcome("a = 'one'", b"b\x01x\x02a\x01one") == "match"  # the last end mark may be missing
    assert outcome("a IS NULL", b"aa\x01one\x02b\x01a\x02") == "match"  # neither part of a name nor a value
    assert outcome("a IS NULL", b"b\x01x\x01a\x01one\x02") == "match"
    assert outcome("a IS NULL", b"") == "match"
    assert outcome("a = 'grün'", "a\x01grün\x02".encode()) == "match"
    assert outcome("a > 5", b"a\x01\xff\xfe\x02") == "no match"  # not even text
    assert outcome("a CONTAINS 'x' OR TRUE", b"a\x01\xff\xfe\x02") == "match"
