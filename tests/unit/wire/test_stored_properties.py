from __future__ import annotations

import pytest

from pyromq.wire.record import Draft, decode_record, encode_record, stored_properties

V4, V6 = bytes(8), bytes(20)


@pytest.mark.parametrize("topic", ["t", "t" * 127, "t" * 200])
@pytest.mark.parametrize(("born_host", "store_host"), [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
@pytest.mark.parametrize("checksum", [True, False])
def test_properties_are_found_in_every_form_of_a_record(
    topic: str, born_host: bytes, store_host: bytes, checksum: bool
) -> None:
    for body, properties in ((b"", b""), (b"x" * 70_000, b"a\x01b\x02"), (b"\xff" * 5, b"a\x01" + b"v" * 3_000)):
        draft = Draft(topic=topic, queue_id=0, body=body, properties=properties, born_host=born_host)
        record = encode_record(draft, offset=3, position=9, stored_ms=7, store_host=store_host, checksum=checksum)
        assert stored_properties(memoryview(record)) == decode_record(record).properties
