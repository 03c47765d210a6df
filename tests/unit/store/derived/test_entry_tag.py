"""The tag of an entry against the value of the property, found in the plain way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.model.names import SCHEDULE_TOPIC
from pyromq.store.derived.entry_tag import entry_tag
from pyromq.wire.java_hash import java_hash
from pyromq.wire.properties import find_property

STORED_MS, LADDER_MS = 1_700_000_000_000, (1_000, 5_000)
ODD = st.lists(
    st.sampled_from([b"TAGS\1", b"MY_TAGS\1", b"TagA", b"\xc3\xbc", b"\xff", b"\1", b"\2", b"\2TAGS\1TagB\2"]),
    max_size=12,
).map(b"".join)


@settings(derandomize=True, deadline=None, max_examples=1_000)
@given(ODD)
def test_it_is_the_hash_of_the_value(raw: bytes) -> None:
    start = max((at for at in range(len(raw)) if _begins_item(raw, at)), default=-1)
    last = raw[start + 5 :].split(b"\2")[0] if start >= 0 else b""  # of the last item of that name
    tag = last if raw.rfind(b"TAGS\1") == start else find_property(raw, b"TAGS") or b""
    assert entry_tag("orders", raw, STORED_MS, LADDER_MS) == (java_hash(tag.decode("utf-8", "replace")) if tag else 0)


def _begins_item(raw: bytes, at: int) -> bool:
    return raw.startswith(b"TAGS\1", at) and (at == 0 or raw[at - 1 : at] == b"\2")


@pytest.mark.parametrize(
    ("raw", "after_ms"),
    [(b"DELAY\x012\x02TAGS\x01A\x02", 5_000), (b"DELAY\x019\x02", 5_000), (b"DELAY\x01x\x02", 1_000)],
)
def test_in_the_topic_of_delay_levels_it_is_the_time_of_delivery(raw: bytes, after_ms: int) -> None:
    assert entry_tag(SCHEDULE_TOPIC, raw, STORED_MS, LADDER_MS) == STORED_MS + after_ms
