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


@given(st.lists(items, max_size=6))
def test_a_batch_reads_back(batch: list[BatchItem]) -> None:
    encoded = encode_batch(batch)
    assert decode_batch(encoded).items() == batch
    assert len(encoded) == sum(ITEM_OVERHEAD_BYTES + len(item.body) + len(item.properties) for item in batch)


@settings(max_examples=200)
@given(items, st.integers(1, 6), st.sampled_from([0, 12, 16]), st.integers(0, 5), st.integers(-2, 2))
def test_items_that_are_alike_read_back_unless_one_of_them_is_not(
    item: BatchItem, count: int, field: int, number: int, more: int
) -> None:
    """One of them gets another total size, flag or body size: only the flag may be any."""
    encoded = bytearray(encode_batch([item] * count))
    at = number % count * (len(encoded) // count) + field
    value = struct.unpack_from(">i", encoded, at)[0] + more
    struct.pack_into(">i", encoded, at, max(-(1 << 31), min((1 << 31) - 1, value)))
    if field != 12 and more:
        with pytest.raises(RemoteProtocolError):
            decode_batch(bytes(encoded))
    else:
        found = decode_batch(bytes(encoded)).items()
        assert [(each.body, each.properties) for each in found] == [(item.body, item.properties)] * count
        assert b"".join(encode_batch([each]) for each in found) == bytes(encoded)


@settings(max_examples=300)
@given(st.lists(items, min_size=1, max_size=4), st.integers(0, 400), st.integers(0, 255))
def test_one_byte_of_another_value_never_gives_what_was_not_sent(batch: list[BatchItem], at: int, byte: int) -> None:
    encoded = bytearray(encode_batch(batch * 2))
    encoded[at % len(encoded)] = byte
    try:
        found = decode_batch(bytes(encoded))
    except RemoteProtocolError:
        return
    sizes = [ITEM_OVERHEAD_BYTES + len(each.body) + len(each.properties) for each in found.items()]
    assert sum(sizes) == len(encoded)
    start = 0
    for each, size in zip(found.items(), sizes, strict=True):
        item = bytes(encoded[start : start + size])
        assert struct.unpack_from(">i8xii", item) == (size, each.flag, len(each.body))
        assert item[20:] == each.body + len(each.properties).to_bytes(2, "big") + each.properties
        start += size


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
