"""Confluent's wire format, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pyromq.typed.schemas.framing import framed, indexed, schema_id_of


def test_an_id_stands_before_a_body() -> None:
    assert framed(7, b"{}") == b"\x00\x00\x00\x00\x07{}"
    assert schema_id_of(b"\x00\x00\x01\x00\x02rest") == 0x010002


def test_the_first_type_of_a_file_is_one_byte() -> None:
    assert framed(1, b"m", (0,)) == b"\x00\x00\x00\x00\x01\x00m"
    assert framed(1, b"m", (1, 0)) == b"\x00\x00\x00\x00\x01\x04\x02\x00m", "zigzag: two indexes, 1 and 0"
    assert indexed(b"\x00\x00\x00\x00\x01\x00m") == ((0,), 6)


@given(some.integers(0, 2**32 - 1), some.lists(some.integers(0, 10_000), min_size=1, max_size=8), some.binary())
def test_what_is_framed_is_read(number: int, indexes: list[int], body: bytes) -> None:
    made = framed(number, body, indexes)
    found, place = indexed(made)
    assert (schema_id_of(made), found, made[place:]) == (number, tuple(indexes), body)


@pytest.mark.parametrize("body", [b"", b"\x00\x00\x00\x00", b'{"id": 1}', b"\x01\x00\x00\x00\x07{}"])
def test_a_body_without_an_id_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="no schema id"):
        schema_id_of(body)


@pytest.mark.parametrize("rest", [b"", b"\x80", b"\x04\x02", b"\xff\xff\xff\xff\xff\xff", b"\x01", b"\xfe\x01"])
def test_indexes_that_are_none_are_refused(rest: bytes) -> None:
    with pytest.raises(ValueError):
        indexed(b"\x00\x00\x00\x00\x01" + rest)
