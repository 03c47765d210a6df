"""What a master and a replica say to each other, cut anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import RemoteProtocolError
from pyromq.wire.transfer import ReportDecoder, SliceDecoder, encode_head, encode_report

SLICES = st.lists(st.tuples(st.integers(0, 1 << 40), st.binary(max_size=50)), max_size=8)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


def test_the_bytes_are_rocketmqs() -> None:
    assert encode_head(0x0102030405060708, 0x0A0B0C0D) == bytes.fromhex("01020304050607080a0b0c0d")
    assert encode_report(1) == bytes.fromhex("0000000000000001")
    assert encode_report(-1) == b"\xff" * 8


@given(SLICES, st.lists(st.integers(0, 1000), max_size=10))
def test_any_cut_of_the_stream_gives_the_same_bytes_at_the_same_positions(
    slices: list[tuple[int, bytes]], places: list[int]
) -> None:
    stream = b"".join(encode_head(position, len(data)) + data for position, data in slices)
    decoder = SliceDecoder()
    parts = [part for piece in cut(stream, places) for part in decoder.feed(piece)]
    assert sum(not data for _, data in slices) == sum(not part for _, part in parts), "signs of life are not lost"
    wanted = [(position + n, data[n : n + 1]) for position, data in slices for n in range(len(data))]
    found = [(position + n, part[n : n + 1]) for position, part in parts for n in range(len(part))]
    assert found == wanted


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=10), st.lists(st.integers(0, 100), max_size=10))
def test_any_cut_of_reports_gives_the_same_positions(positions: list[int], places: list[int]) -> None:
    decoder = ReportDecoder()
    pieces = cut(b"".join(map(encode_report, positions)), places)
    assert [position for piece in pieces for position in decoder.feed(piece)] == positions


@pytest.mark.parametrize("head", [encode_head(-1, 5), encode_head(0, -1), encode_head(0, 1 << 30), b"HTTP/1.1 400"])
def test_what_no_master_says_is_told(head: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="no master's replication port"):
        SliceDecoder().feed(head)
