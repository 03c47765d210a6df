"""Heads of a batch's records against ``FIXED``, byte for byte."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.wire.fast.record_batch import BATCH_HEADS, pack_shared
from pyromq.wire.record import Draft
from pyromq.wire.record_layout import FIXED, MAGIC_V1
from tests.unit.wire.records import I32, I64, drafts

U32 = st.integers(min_value=0, max_value=(1 << 32) - 1)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(drafts, st.integers(min_value=0, max_value=3), st.tuples(U32, U32, I32, I64, I64, I32, I64))
def test_a_head_in_parts_is_the_head_as_a_whole(draft: Draft, kind: int, own: tuple[int, ...]) -> None:
    size, crc, flag, offset, position, body_bytes, stored_ms = own
    sys_flag = draft.sys_flag | kind << 4
    store_host = bytes(range(20)) if kind & 2 else bytes(range(8))
    born_host = bytes(range(50, 70)) if kind & 1 else bytes(range(50, 58))
    shared = Draft(
        topic=draft.topic,
        queue_id=draft.queue_id,
        body=b"",
        born_ms=draft.born_ms,
        born_host=born_host,
        delivery_attempt=draft.delivery_attempt,
        prepared_position=draft.prepared_position,
    )
    middle = pack_shared(shared, sys_flag, stored_ms, store_host)
    head = BATCH_HEADS[kind](size, MAGIC_V1, crc, shared.queue_id, flag, offset, position, middle, body_bytes)
    assert head == FIXED[kind].pack(
        *(size, MAGIC_V1, crc, shared.queue_id, flag, offset, position, sys_flag, shared.born_ms, born_host),
        *(stored_ms, store_host, shared.delivery_attempt, shared.prepared_position, body_bytes),
    )


def test_what_does_not_fit_is_refused_once_for_all() -> None:
    with pytest.raises(struct.error):
        pack_shared(Draft(topic="t", queue_id=1 << 31, body=b""), 0, 0, bytes(8))
