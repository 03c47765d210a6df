from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import PropertiesTooLargeError, RemoteProtocolError
from pyromq.wire.batch import ITEM_OVERHEAD_BYTES, BatchItem, decode_batch, encode_batch

ITEMS = [BatchItem(b"hi", b"TAGS\x01A\x02"), BatchItem(b"", b"", -1), BatchItem(b"\0" * 40, b"K\x01v\x02", 7)]
items = st.builds(
    BatchItem, st.binary(max_size=50), st.binary(max_size=50), st.integers(min_value=-(2**31), max_value=2**31 - 1)
)


@settings(derandomize=True, deadline=None)
@given(st.lists(items, max_size=6))
def test_a_batch_reads_back(batch: list[BatchItem]) -> None:
    encoded = encode_batch(batch)
    assert decode_batch(encoded).items() == batch
    assert len(encoded) == sum(ITEM_OVERHEAD_BYTES + len(item.body) + len(item.properties) for item in batch)


def test_magic_and_checksum_of_an_item_are_ignored() -> None:
    encoded = bytearray(encode_batch(ITEMS[:1]))
    encoded[4:12] = b"\xff" * 8
    assert decode_batch(bytes(encoded)).items() == ITEMS[:1]


def test_every_cut_is_a_typed_error_or_a_whole_number_of_items() -> None:
    encoded = encode_batch(ITEMS)
    ends = {len(encode_batch(ITEMS[:count])): count for count in range(4)}
    for size in range(len(encoded) + 1):
        if size in ends:
            assert decode_batch(encoded[:size]).items() == ITEMS[: ends[size]]
        else:
            with pytest.raises(RemoteProtocolError):
                decode_batch(encoded[:size])


@pytest.mark.parametrize("field", [0, 16, 22])
@pytest.mark.parametrize("value", [-(2**31), -1, 0, 1, 21, 0x7FFF, 2**31 - 1])
def test_lengths_that_do_not_add_up_are_typed_errors(field: int, value: int) -> None:
    encoded = bytearray(encode_batch(ITEMS[:1]))
    if field == 22:
        struct.pack_into(">H", encoded, field, value & 0xFFFF)
    else:
        struct.pack_into(">i", encoded, field, value)
    with pytest.raises(RemoteProtocolError):
        decode_batch(bytes(encoded))


def test_properties_of_an_item_have_a_size_limit() -> None:
    encode_batch([BatchItem(b"", b"x" * 32_767)])
    with pytest.raises(PropertiesTooLargeError):
        encode_batch([BatchItem(b"", b"x" * 32_768)])
