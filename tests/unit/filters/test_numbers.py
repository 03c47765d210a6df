from __future__ import annotations

import math

import pytest

from pyromq.filters.numbers import NotANumber, double, order_of_doubles, whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-3", -3),
        ("+5", 5),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_whole_numbers(text: str, value: int) -> None:
    assert whole(text.encode()) == value


@pytest.mark.parametrize(
    "text", ["", "1.0", " 5", "5 ", "1_0", "0x10", "5L", "9223372036854775808", "-", "+-5", "𝟓", "9" * 9_000]
)
def test_what_is_no_whole_number(text: str) -> None:
    with pytest.raises(ValueError):
        whole(text.encode())


def test_digits_of_other_scripts_are_digits_in_whole_numbers_only() -> None:
    assert whole("٥".encode()) == 5
    with pytest.raises(ValueError):
        double("٥".encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5.0), ("1.5", 1.5), (".5", 0.5), ("5.", 5.0), (" 5\n", 5.0), ("1e3", 1000.0), ("-1.5E-1", -0.15),
     ("5d", 5.0), ("5F", 5.0), ("0x1p3", 8.0), ("-0x.8p1f", -1.0), ("0x1p9999", math.inf), ("-0x1p9999", -math.inf),
     ("1e999", math.inf), ("Infinity", math.inf), ("-Infinity", -math.inf)],
)  # fmt: skip
def test_numbers_with_fraction(text: str, value: float) -> None:
    assert double(text.encode()) == value


@pytest.mark.parametrize(
    "text", ["", ".", "1_0", "inf", "nan", "infinity", "1e", "0x10", "5L", "5dd", "1.2.3", "--1", "Infinityd"]
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError):
        double(text.encode())


def test_nan_is_greater_than_every_number() -> None:
    nan = double(b"NaN")
    assert isinstance(nan, NotANumber)
    assert nan > math.inf and nan >= 1.0 and not nan < 1.0 and not nan <= 1.0 and nan != 1.0
    assert 1.0 < nan and not 1.0 > nan and 1.0 <= nan and not 1.0 >= nan and not 1.0 == nan
    assert nan == double(b"NaN") and nan <= nan and not nan > nan and not nan != nan
    assert order_of_doubles(nan, 1.0) == 1 and order_of_doubles(1.0, nan) == -1 and order_of_doubles(nan, nan) == 0


def test_zero_has_a_sign() -> None:
    assert order_of_doubles(-0.0, 0.0) == -1 and order_of_doubles(0.0, -0.0) == 1 and order_of_doubles(0.0, 0.0) == 0
    assert order_of_doubles(1.0, 2.0) == -1 and order_of_doubles(2.0, 1.0) == 1
