"""Parts of a record against ``decode_record``, which reads all of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import CorruptRecordError
from pyromq.wire.fast.record_parts import HEAD, body_range, check_lengths, stored_properties, topic_range
from pyromq.wire.record import Draft, decode_record
from tests.unit.wire.records import POSITIONS, drafts, hosts, stored

V4, V6 = bytes(8), bytes(20)


@settings(max_examples=300)
@given(drafts, hosts, POSITIONS, st.booleans())
def test_parts_are_those_of_the_whole_record(draft: Draft, store_host: bytes, position: int, checksum: bool) -> None:
    data = stored(draft, position, store_host=store_host, checksum=checksum)
    record = decode_record(data)
    head = (record.size, record.magic, record.queue_id, record.offset, record.position, record.sys_flag)
    assert HEAD.unpack_from(data) == head
    check_lengths(data, record.magic, record.sys_flag, position)
    assert data[slice(*body_range(data, record.sys_flag))] == record.body
    topic = topic_range(data, record.sys_flag)
    assert data[slice(*topic)] == record.topic and data[topic[1] + 2 :] == record.properties
    assert stored_properties(memoryview(data)) == record.properties


@pytest.mark.parametrize("topic", ["t", "t" * 127, "t" * 200])
@pytest.mark.parametrize(("born_host", "store_host"), [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
@pytest.mark.parametrize("checksum", [True, False])
def test_properties_are_found_in_every_form_of_a_record(
    topic: str, born_host: bytes, store_host: bytes, checksum: bool
) -> None:
    for body, properties in ((b"", b""), (b"x" * 70_000, b"a\x01b\x02"), (b"\xff" * 5, b"a\x01" + b"v" * 3_000)):
        draft = Draft(topic=topic, queue_id=0, body=body, properties=properties, born_host=born_host)
        record = stored(draft, 9, store_host=store_host, checksum=checksum)
        assert stored_properties(memoryview(record)) == decode_record(record).properties


@pytest.mark.parametrize("topic", ["t", "t" * 200])
@pytest.mark.parametrize("store_host", [V4, V6])
def test_a_record_that_is_cut_or_too_long_is_refused(topic: str, store_host: bytes) -> None:
    data = stored(Draft(topic=topic, queue_id=0, body=b"body", properties=b"a\x01b\x02"), 9, store_host=store_host)
    record = decode_record(data)
    for wrong in (*(data[:size] for size in range(len(data))), data + b"\0"):
        with pytest.raises(CorruptRecordError):
            check_lengths(wrong, record.magic, record.sys_flag, record.position)
