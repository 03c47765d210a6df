"""Batches of acknowledgements: bits, and what hostile ones may cost."""

from __future__ import annotations

from base64 import b64encode

import pytest

from pyromq.errors import RemoteProtocolError
from pyromq.wire.json.batch_ack import OFFSETS_MAX, BatchAck, bits_of, decode_batch_ack, encode_batch_ack


def ack(bits: str, start: int = 100) -> BatchAck:
    return BatchAck(group="g", topic="t", start=start, queue_id=0, number=1, popped_ms=2, bits=bits)


def test_bits_are_offsets_as_rocketmq_writes_them() -> None:
    assert bits_of(0, [0, 3, 9]) == "CQI="
    assert ack(bits_of(100, [100, 103, 5_000])).offsets == [100, 103, 5_000]
    assert decode_batch_ack(encode_batch_ack([ack("CQI=")], "broker-a")) == [ack("CQI=")]


def test_more_messages_than_a_hand_out_has_are_refused_before_they_are_counted_out() -> None:
    full = b64encode(b"\xff" * 65_536).decode()
    with pytest.raises(RemoteProtocolError, match=f"524288 messages .* at most {OFFSETS_MAX}"):
        _ = ack(full).offsets
    with pytest.raises(RemoteProtocolError, match="not base64"):
        _ = ack("%%%").offsets
