from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, RemoteProtocolError
from pyromq.wire.frame import (
    FRAME_BYTES_MAX,
    Frame,
    FrameDecoder,
    FrameError,
    FrameTooLargeError,
    SerializeType,
    encode_frame,
)

frames = st.builds(Frame, st.sampled_from(SerializeType), st.binary(max_size=60), st.binary(max_size=60))
deterministic = settings(max_examples=200)

ONE = Frame(SerializeType.JSON, b'{"code":1}', b"body")
TWO = Frame(SerializeType.ROCKETMQ, b"header", b"")


def prefix(length: int, word: int) -> bytes:
    return struct.pack(">II", length & 0xFFFF_FFFF, word)


def feed_in_pieces(data: bytes, cuts: list[int]) -> list[Frame]:
    decoder = FrameDecoder()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [frame for start, end in pairwise(edges) for frame in decoder.feed(data[start:end])]


def test_a_frame_is_its_length_the_type_with_the_header_size_the_header_and_the_body() -> None:
    assert encode_frame(ONE) == bytes.fromhex("00000012 0000000a") + b'{"code":1}body'
    assert encode_frame(TWO) == bytes.fromhex("0000000a 01000006") + b"header"


@deterministic
@given(st.lists(frames, max_size=6), st.lists(st.integers(min_value=0), max_size=8))
def test_any_split_of_the_stream_gives_the_same_frames(sent: list[Frame], cuts: list[int]) -> None:
    assert feed_in_pieces(b"".join(map(encode_frame, sent)), cuts) == sent


def test_frames_come_out_as_soon_as_their_last_byte_is_in() -> None:
    decoder = FrameDecoder()
    data = encode_frame(ONE) + encode_frame(TWO)
    arrived = [decoder.feed(data[at : at + 1]) for at in range(len(data))]
    assert [at for at, some in enumerate(arrived) if some] == [len(encode_frame(ONE)) - 1, len(data) - 1]
    assert [frame for some in arrived for frame in some] == [ONE, TWO]
    assert decoder.buffered_bytes == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_may_be_fed_and_reused_afterwards(kind: type) -> None:
    buffer = bytearray(encode_frame(ONE))
    decoder = FrameDecoder()
    assert decoder.feed(kind(buffer[:-2])) == []
    (frame,) = decoder.feed(kind(buffer[-2:]))
    buffer[:] = bytes(len(buffer))
    assert frame == ONE
    assert type(frame.header) is type(frame.body) is bytes


@pytest.mark.parametrize("size", range(len(encode_frame(ONE))))
def test_a_frame_cut_at_any_byte_is_waited_for(size: int) -> None:
    decoder = FrameDecoder()
    assert decoder.feed(encode_frame(ONE)[:size]) == []
    assert decoder.buffered_bytes == size


@pytest.mark.parametrize(
    ("length", "word", "text"),
    [
        (-1, 0, r"negative length \(-1\)"),
        (-(2**31), 0, "negative length"),
        (0, 0, "too short"),
        (3, 0, "too short"),
        (FRAME_BYTES_MAX - 3, 0, "16777217 bytes, at most 16777216"),
        (2**31 - 1, 0, "at most 16777216"),
        (4, 1, "claims a header of 1 bytes"),
        (100, 0x00_FF_FF_FF, "claims a header of 16777215 bytes"),
        (100, 0x02_00_00_10, "unknown serialize type 2"),
        (100, 0xFF_00_00_10, "unknown serialize type 255"),
    ],
)
def test_a_bad_prefix_is_refused_when_its_eighth_byte_is_in(length: int, word: int, text: str) -> None:
    data = prefix(length, word)
    decoder = FrameDecoder()
    assert decoder.feed(data[:7]) == []
    with pytest.raises(FrameError, match=text) as caught:
        decoder.feed(data[7:])
    assert isinstance(caught.value, RemoteProtocolError)


def test_a_decoder_that_failed_fails_again() -> None:
    decoder = FrameDecoder()
    for data in (prefix(2, 0), encode_frame(ONE), b""):
        with pytest.raises(FrameError, match="too short"):
            decoder.feed(data)


def test_frames_before_the_damage_are_handed_out_with_the_error() -> None:
    with pytest.raises(FrameError) as caught:
        FrameDecoder().feed(encode_frame(ONE) + encode_frame(TWO) + b"GET / HTTP/1.1\r\n")
    assert caught.value.whole_frames == [ONE, TWO]


def test_the_limit_counts_the_whole_frame_and_can_be_set() -> None:
    data = encode_frame(ONE)
    assert FrameDecoder(len(data)).feed(data) == [ONE]
    with pytest.raises(FrameTooLargeError):
        FrameDecoder(len(data) - 1).feed(data[:8])
    with pytest.raises(LocalProtocolError, match="larger than"):
        encode_frame(ONE, bytes_max=len(data) - 1)


def test_the_largest_frame_passes_and_one_byte_more_cannot_be_written() -> None:
    largest = Frame(SerializeType.JSON, b"{}", bytes(FRAME_BYTES_MAX - 10))
    assert FrameDecoder().feed(encode_frame(largest)) == [largest]
    with pytest.raises(LocalProtocolError, match="16777217"):
        encode_frame(Frame(SerializeType.JSON, b"{}", bytes(FRAME_BYTES_MAX - 9)))


def test_a_header_too_long_for_three_bytes_cannot_be_written() -> None:
    with pytest.raises(LocalProtocolError, match="header of 16777216 bytes"):
        encode_frame(Frame(SerializeType.JSON, bytes(1 << 24)), bytes_max=1 << 26)


def test_a_claimed_size_reserves_no_memory() -> None:
    decoder = FrameDecoder()
    decoder.feed(prefix(FRAME_BYTES_MAX - 4, 0) + b"x")
    assert decoder.half_read.__sizeof__() < 200


def test_a_large_frame_in_tiny_pieces_is_collected_without_copying_it_again_and_again() -> None:
    large = Frame(SerializeType.JSON, b"{}", bytes(2_000_000))
    data = encode_frame(large)
    decoder = FrameDecoder()
    got = [frame for at in range(0, len(data), 10) for frame in decoder.feed(data[at : at + 10])]
    assert got == [large]
