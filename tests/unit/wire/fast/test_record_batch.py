"""Records of a batch against ``encode_record`` of each message, and their heads against ``FIXED``, byte for byte."""

from __future__ import annotations

import struct

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.wire.batch import Batch, BatchItem
from pyromq.wire.fast.record_batch import BATCH_HEADS, Places, SharedFields, encode_records, pack_shared
from pyromq.wire.record import Draft, encode_record, record_magic, topic_field
from pyromq.wire.record_layout import BORN_V6, FIXED, HOST_V4_BYTES, MAGIC_V1, STORE_V6
from tests.unit.wire.records import I32, I64, POSITIONS, drafts, hosts, properties

U32 = st.integers(min_value=0, max_value=(1 << 32) - 1)


@settings(max_examples=300)
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


batches = st.lists(st.builds(BatchItem, st.binary(max_size=300), properties, I32), min_size=1, max_size=8)


@settings(max_examples=300)
@given(drafts, batches, hosts, POSITIONS, st.integers(0, 1 << 40), st.booleans())
def test_records_that_are_made_together_are_those_of_each_message(
    shared: Draft, items: list[BatchItem], store_host: bytes, start: int, offset: int, checksums: bool
) -> None:
    expected, positions, position = [], [], start
    for number, item in enumerate(items):
        draft = msgspec.structs.replace(shared, body=item.body, properties=item.properties, flag=item.flag)
        record = encode_record(
            draft, offset=offset + number, position=position, stored_ms=17, store_host=store_host, checksum=checksums
        )
        expected.append(record)
        positions.append(position)
        position += len(record)
    flag = shared.sys_flag | (BORN_V6 if len(shared.born_host) > HOST_V4_BYTES else 0)
    flag |= STORE_V6 if len(store_host) > HOST_V4_BYTES else 0
    topic, middle = shared.topic.encode(), pack_shared(shared, flag, 17, store_host)
    fields = SharedFields(flag >> 4 & 3, record_magic(topic), shared.queue_id, middle, topic_field(topic), checksums)
    places = Places(positions, list(map(len, expected)), offset)
    parts = list(encode_records(Batch.of(items), fields, places))
    assert b"".join(parts) == b"".join(expected)
    assert all(any(part is item.body for part in parts) for item in items), "a body was copied"
