"""The tag of an entry against the value of the property, found in the plain way."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyromq.model.names import SCHEDULE_TOPIC
from pyromq.store.derived.entry_tag import entry_tag
from pyromq.wire.java_hash import java_hash
from pyromq.wire.record import checksum_property, plain_properties, with_checksum_room

STORED_MS, LADDER_MS = 1_700_000_000_000, (1_000, 5_000)
ODD = st.lists(
    st.sampled_from(
        [b"TAGS\1", b"MY_TAGS\1", b"TagA", b"\xc3\xbc", b"\xff", b"\1", b"\2", b"\2TAGS\1TagB\2", b"\2__CRC32#\1"]
    ),
    max_size=12,
).map(b"".join)


@settings(max_examples=1_000)
@given(ODD)
def test_it_is_the_hash_of_the_value(raw: bytes) -> None:
    items = [item.partition(b"\1") for item in raw.split(b"\2")]
    tags = [value for name, _, value in items if name == b"TAGS" and value]  # an item without a value is none
    expected = java_hash(tags[-1].decode("utf-8", "replace")) if tags else 0
    assert entry_tag("orders", raw, STORED_MS, LADDER_MS) == expected


@settings(max_examples=1_000)
@given(ODD)
@example(b"TAGS\1TagA\2TAGS\1\2__CRC32#\1TAGS\1\2")
def test_it_is_the_same_for_what_is_sent_and_for_what_is_stored(raw: bytes) -> None:
    sent = entry_tag("orders", raw, STORED_MS, LADDER_MS)
    stored = with_checksum_room(raw) + checksum_property(7), plain_properties(raw)
    assert [entry_tag("orders", each, STORED_MS, LADDER_MS) for each in stored] == [sent, sent]


@pytest.mark.parametrize(
    ("raw", "after_ms"),
    [(b"DELAY\x012\x02TAGS\x01A\x02", 5_000), (b"DELAY\x019\x02", 5_000), (b"DELAY\x01x\x02", 1_000)],
)
def test_in_the_topic_of_delay_levels_it_is_the_time_of_delivery(raw: bytes, after_ms: int) -> None:
    assert entry_tag(SCHEDULE_TOPIC, raw, STORED_MS, LADDER_MS) == STORED_MS + after_ms
