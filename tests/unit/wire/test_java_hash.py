from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.wire.java_hash import java_hash, tag_hash


def by_definition(text: str) -> int:
    """Java's loop, a unit at a time."""
    value = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        value = (31 * value + (raw[at] << 8 | raw[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0), ("a", 97), ("TagA", 2598919), ("TagB", 2598920), ("null", 3392903), ("hello", 99162322),
        ("é", 233), ("中文", 646394), ("\U0001f600", 1772899), ("a\U0001f600b", 57849694),
        ("polygenelubricants", -2147483648), ("\ud83d", 0xD83D), ("\0\0a", 97),
    ],
)  # fmt: skip
def test_known_hashes(text: str, expected: int) -> None:
    assert java_hash(text) == by_definition(text) == expected


@given(st.text(max_size=80))
def test_any_text_hashes_as_java_does(text: str) -> None:
    assert java_hash(text) == by_definition(text)


@pytest.mark.parametrize("length", [511, 512, 513, 5_000])
@pytest.mark.parametrize("character", ["z", "é", "\U0001f600"])
def test_long_texts_hash_as_java_does(length: int, character: str) -> None:
    text = "a" + character * length
    assert java_hash(text) == by_definition(text)


def test_a_tag_is_hashed_as_text_and_no_tag_is_zero() -> None:
    assert tag_hash(b"TagA") == 2598919
    assert tag_hash("é".encode()) == 233
    assert tag_hash(b"") == 0
    assert isinstance(tag_hash(b"\xff\xfe"), int)
