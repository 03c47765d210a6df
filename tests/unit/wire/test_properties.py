from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, PropertiesTooLargeError, RemoteProtocolError
from pyromq.wire.properties import (
    PROPERTIES_BYTES_MAX,
    closed_properties,
    decode_properties,
    encode_properties,
    find_property,
    message_keys,
)

words = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x01\x02"), min_size=1, max_size=12)
# Raw texts made of pieces that matter, in any order: names that end in each other, empty names and values, no ends.
raws = st.lists(st.sampled_from([b"\x01", b"\x02", b"K", b"KEYS", b"TAGS", b"v", b" ", b"\0"]), max_size=14).map(
    b"".join
)


@given(st.dictionaries(words, words, max_size=8))
def test_properties_read_back(properties: dict[str, str]) -> None:
    raw = encode_properties(properties)
    assert decode_properties(raw) == properties
    assert decode_properties(raw[:-1]) == properties, "the last 0x02 is optional"
    for name, value in properties.items():
        assert find_property(raw, name.encode()) == value.encode()


def test_the_stored_form() -> None:
    assert encode_properties({"TAGS": "A", "KEYS": "k1 k2"}) == b"TAGS\x01A\x02KEYS\x01k1 k2\x02"
    assert encode_properties({}) == b""
    assert decode_properties(b"") == {}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"A\x01b", {"A": "b"}),
        (b"A\x02B\x01c\x02", {"B": "c"}),
        (b"\x01b\x02B\x01c\x02", {"B": "c"}),
        (b"A\x01\x02B\x01c\x02", {"B": "c"}),
        (b"A\x01b\x02A\x01c\x02", {"A": "c"}),
        (b"A\x01b\x02A\x01\x02", {"A": "b"}),
        (b"A\x01b\x01c\x02", {"A": "b\x01c"}),
        (b"\x02\x02\x01\x02", {}),
    ],
)
def test_odd_items_are_ignored_and_the_last_of_a_name_counts(raw: bytes, expected: dict[str, str]) -> None:
    assert decode_properties(raw) == expected


@pytest.mark.parametrize("properties", [{"": "v"}, {"n": ""}, {"a\x01b": "v"}, {"n": "a\x02b"}, {"n\x02": "v"}])
def test_what_could_not_be_read_back_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_properties(properties)


def test_properties_have_a_size_limit_in_bytes() -> None:
    fits = PROPERTIES_BYTES_MAX - len(b"n\x01\x02")
    assert len(encode_properties({"n": "v" * fits})) == PROPERTIES_BYTES_MAX
    with pytest.raises(PropertiesTooLargeError) as caught:
        encode_properties({"n": "v" * (fits - 1) + "é"})
    assert caught.value.size_bytes == PROPERTIES_BYTES_MAX + 1


def test_what_is_not_utf_8_is_a_typed_error() -> None:
    with pytest.raises(RemoteProtocolError):
        decode_properties(b"A\x01\xff\x02")


@settings(max_examples=1_000)
@given(raws)
def test_one_property_is_found_as_decoding_everything_finds_it(raw: bytes) -> None:
    decoded = decode_properties(raw)
    for name in ("K", "KEYS", "TAGS", "v"):
        expected = decoded.get(name)
        assert find_property(raw, name.encode()) == (None if expected is None else expected.encode())


def test_thousands_of_empty_items_do_not_hide_a_value() -> None:
    raw = b"KEYS\x01found\x02" + b"KEYS\x01\x02" * 5_000
    assert find_property(raw, b"KEYS") == b"found"


@pytest.mark.parametrize(
    ("raw", "keys"),
    [
        (b"", []),
        (b"TAGS\x01A\x02", []),
        (b"KEYS\x01k1 k2\x02UNIQ_KEY\x01u\x02", [b"u", b"k1", b"k2"]),
        (b"KEYS\x01  k1   k2  \x02", [b"k1", b"k2"]),
        (b"KEYS\x01 \x02", []),
        (b"UNIQ_KEY\x01u", [b"u"]),
        (b"MY_UNIQ_KEY\x01u\x02MY_KEYS\x01k\x02", []),
        (b"A\x01KEYS\x01k\x02", []),
        (b"A\x01b\x02KEYS\x01k\x02KEYS\x01\x02", [b"k"]),
        (b"A\x01b\x02UNIQ_KEY\x01u\x02MY_UNIQ_KEY\x01v\x02", [b"u"]),
        (b"UNIQ_KEY\x01u\x02A\x01UNIQ_KEY\x01v\x02", [b"u"]),
    ],
)
def test_the_unique_key_comes_first_then_each_word_of_the_keys(raw: bytes, keys: list[bytes]) -> None:
    assert message_keys(raw) == keys


def test_properties_are_closed_once() -> None:
    assert [closed_properties(raw) for raw in (b"", b"A\x011", b"A\x011\x02")] == [b"", b"A\x011\x02", b"A\x011\x02"]


ODD = st.lists(
    st.sampled_from([b"UNIQ_KEY\1", b"KEYS\1", b"MY_KEYS\1", b"k1 k2", b" ", b"k", b"\1", b"\2", b"\2KEYS\1k\2"]),
    max_size=12,
).map(b"".join)


@settings(max_examples=1_000)
@given(ODD)
def test_keys_of_odd_properties_are_those_of_their_values(raw: bytes) -> None:
    unique, words = find_property(raw, b"UNIQ_KEY"), find_property(raw, b"KEYS")
    keys = [] if words is None else words.split(b" ")
    assert message_keys(raw) == [each for each in (unique, *keys) if each]
