from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.wire.fast.key_hashes import key_hash, key_hashes
from pyromq.wire.java_hash import java_hash


def by_definition(text: bytes) -> int:
    """Java's loop a unit at a time, then Math.abs, with 0 for the one value that has no positive counterpart."""
    value = 0
    raw = text.decode("utf-8", "replace").encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        value = (31 * value + (raw[at] << 8 | raw[at + 1])) & 0xFFFFFFFF
    value = min(value, (1 << 32) - value)
    return value if value < 1 << 31 else 0


ascii_texts = st.binary(max_size=60).map(lambda raw: bytes(byte & 0x7F for byte in raw))
any_texts = st.one_of(ascii_texts, st.text(max_size=30).map(lambda text: text.encode()), st.binary(max_size=30))


@settings(max_examples=300)
@given(st.lists(ascii_texts, max_size=40))
def test_ascii_texts_of_any_lengths(texts: list[bytes]) -> None:
    assert key_hashes(texts) == list(map(by_definition, texts))


@settings(max_examples=300)
@given(st.lists(any_texts, max_size=30))
def test_texts_that_are_not_ascii_or_not_even_utf_8_among_them(texts: list[bytes]) -> None:
    assert key_hashes(texts) == list(map(by_definition, texts))


@settings(max_examples=300)
@given(st.data(), st.integers(0, 40), st.integers(0, 20), st.integers(0, 40), st.integers(8, 40))
def test_texts_that_begin_and_end_alike(
    data: st.DataObject, before: int, between: int, behind: int, count: int
) -> None:
    def exactly(size: int) -> bytes:
        raw = data.draw(st.binary(min_size=size, max_size=size))
        return bytes(byte & 0x7F for byte in raw)

    head, tail = exactly(before), exactly(behind)
    texts = [head + exactly(between) + tail for _ in range(count)]
    assert key_hashes(texts) == list(map(by_definition, texts))


@settings(max_examples=300)
@given(
    st.lists(ascii_texts, min_size=1, max_size=20), st.sampled_from([b"orders#", b"#", "zo\xeb#".encode(), b"\xff#"])
)
def test_a_prefix_stands_before_each(texts: list[bytes], prefix: bytes) -> None:
    longest = max(map(len, texts))
    for some in (texts, [text.ljust(longest, b"=") for text in texts], [*texts, "\xe9".encode(), b"x" * 300]):
        assert key_hashes(some, prefix) == [by_definition(prefix + text) for text in some]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1_023, 1_024, 1_025, 1_031, 3_000])
def test_any_number_of_texts(count: int) -> None:
    texts = [b"orders#7F0000010B3C18B4AAC2%012X" % number for number in range(count)]
    assert key_hashes(texts) == list(map(by_definition, texts))
    assert key_hashes(texts[:1] * count) == list(map(by_definition, texts[:1] * count)), "all of them the same"


@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 17, 255, 256, 257, 400, 5_000])
def test_lanes_do_not_spill_into_each_other(length: int) -> None:
    highest, lowest = b"\x7f" * length, b"\0" * length
    texts = [highest, b"", highest, b"a" * (length // 2), lowest, highest, b"b", lowest, highest]
    assert key_hashes(texts) == list(map(by_definition, texts))
    equal = [highest, lowest] * 5
    assert key_hashes(equal) == list(map(by_definition, equal))


def test_the_sign_is_dropped_and_what_has_no_positive_counterpart_is_zero() -> None:
    texts = [b"polygenelubricants", b"hello", b"", b"a", b"zzzzzzz", b"zzzzzzzz", b"zzzzzzzzz", b"orders#k"]
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert key_hashes(texts) == [key_hash(text) for text in texts] == list(map(by_definition, texts))
    assert key_hash(b"polygenelubricants") == 0
    assert key_hashes([b"polygenelubricants", b"polygenelubricantt"] * 5)[:2] == [0, (1 << 31) - 1]
