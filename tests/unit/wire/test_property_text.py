"""Properties read and changed as text; ``wire.properties`` is the reference."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError
from pyromq.wire.properties import decode_properties, encode_properties
from pyromq.wire.property_text import (
    closed,
    encode_text,
    item_key,
    join_items,
    number_of,
    split_items,
    value_of,
    with_values,
    without,
)

WORDS = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=("Cs",)), min_size=1, max_size=8)
PROPERTIES = st.dictionaries(WORDS, WORDS, max_size=6)


@given(PROPERTIES, WORDS)
def test_a_value_is_what_decoding_everything_finds(properties: dict[str, str], name: str) -> None:
    text = encode_properties(properties).decode()
    for each in (*properties, name):
        assert value_of(text, each) == properties.get(each, "")


@given(PROPERTIES, PROPERTIES)
def test_values_replace_those_of_the_same_name(properties: dict[str, str], values: dict[str, str]) -> None:
    text = with_values(encode_properties(properties).decode(), values)
    assert decode_properties(text.encode()) == properties | values
    assert text.count("\x02") == len(properties | values), "nothing is there twice"


@given(PROPERTIES, st.sets(WORDS))
def test_what_is_left_out_is_gone_and_the_rest_stays(properties: dict[str, str], names: set[str]) -> None:
    names |= set(list(properties)[:2])
    text = without(encode_properties(properties).decode(), names)
    assert decode_properties(text.encode()) == {name: properties[name] for name in properties if name not in names}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A\x011\x02", "1"),
        ("A\x011", "1"),
        ("AA\x012\x02", ""),
        ("AA\x012\x02A\x013\x02", "3"),
        ("A\x011\x02B\x01A\x012", "1"),
        ("A\x011\x02A\x012\x02", "2"),
        ("", ""),
    ],
)
def test_only_whole_names_count_and_the_last_of_them(text: str, value: str) -> None:
    assert value_of(text, "A") == value


def test_numbers_and_ends() -> None:
    assert number_of("DELAY\x01-1\x02", "DELAY") == -1
    assert number_of("DELAY\x01soon\x02", "DELAY") is None
    assert number_of("", "DELAY") is None
    assert (closed(""), closed("A\x011"), closed("A\x011\x02")) == ("", "A\x011\x02", "A\x011\x02")


@given(PROPERTIES)
def test_items_joined_are_what_is_stored_and_come_apart_again(properties: dict[str, str]) -> None:
    text = join_items(properties.items())
    assert encode_text(text) == encode_properties(properties)
    assert split_items(text) == split_items(text.removesuffix("\x02")) == properties
    assert all(item_key(name) in text for name in properties)


def test_text_that_is_no_unicode_is_a_typed_error() -> None:
    with pytest.raises(LocalProtocolError):
        encode_text("\ud800")


# Names inside of names and of values, items without an end: whatever names and marks can be put together to.
ODD = st.lists(st.sampled_from(["A", "BA", "x", "\x01", "\x02", "A\x01", "\x02A\x01"]), max_size=12).map("".join)


def last_value(text: str, name: str) -> str:
    """The plain form of ``value_of``: every place where the name may stand, from the end."""
    for start in range(len(text), -1, -1):
        if text.startswith(f"{name}\x01", start) and (start == 0 or text[start - 1] == "\x02"):
            return text[start + len(name) + 1 :].split("\x02")[0]
    return ""


@settings(max_examples=1_000)
@given(ODD)
def test_odd_texts_give_the_value_that_a_walk_from_the_end_finds(text: str) -> None:
    for name in ("A", "BA", "x"):
        assert value_of(text, name) == last_value(text, name)
