"""The text of a message's properties against ``encode_properties`` of the same names and values, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import PropertiesTooLargeError
from pyromq.model import property_names as names
from pyromq.model.message import Message
from pyromq.wire.fast.message_properties import properties_text
from pyromq.wire.properties import encode_properties
from pyromq.wire.property_text import join_items

WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Zs", "Cc"], exclude_characters="|\x01\x02"), min_size=1, max_size=12
)
DELAYS = st.sampled_from([{}, {"delay_level": 3}, {"delay_ms": 50}, {"deliver_at_ms": 1_700_000_000_000}])


@settings(max_examples=300)
@given(
    st.just("") | WORDS,
    st.lists(WORDS, max_size=3),
    st.dictionaries(WORDS.map(lambda word: f"x{word}"), WORDS, max_size=3),
    st.just("") | WORDS,
    st.booleans(),
    DELAYS,
    st.booleans(),
)
def test_the_text_has_all_that_a_message_says(
    tags: str,
    keys: list[str],
    own: dict[str, str],
    sharding_key: str,
    wait_stored: bool,
    delay: dict[str, int],
    has_system: bool,
) -> None:
    delay = {} if sharding_key else delay  # a delayed message keeps no order, so a message has one or the other
    message = Message(
        "t",
        b"x",
        tags=tags,
        keys=tuple(keys),
        properties=own,
        sharding_key=sharding_key,
        wait_stored=wait_stored,
        **delay,
    )
    system = {names.TIME_TO_LIVE: "5"} if has_system else {}
    expected = {
        names.UNIQUE_KEY: "ID",
        **system,
        names.TAGS: tags,
        names.KEYS: " ".join(keys),
        **own,
        names.SHARDING_KEY: sharding_key,
        names.WAIT: "" if wait_stored else "false",
        names.DELAY: str(delay.get("delay_level", "")),
        names.TIMER_DELAY_MS: str(delay.get("delay_ms", "")),
        names.TIMER_DELIVER_MS: str(delay.get("deliver_at_ms", "")),
    }
    text = properties_text(message, "ID", join_items(system.items()))
    assert text.encode() == encode_properties({name: value for name, value in expected.items() if value})


def test_properties_are_measured_in_bytes() -> None:
    properties_text(Message("t", b"x", properties={"x": "a" * 32_000}), "ID")
    with pytest.raises(PropertiesTooLargeError):
        properties_text(Message("t", b"x", properties={"x": "ü" * 17_000}), "ID")
