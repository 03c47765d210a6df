from __future__ import annotations

import hpack
import pytest

from pyromq.wire.http2 import frames
from pyromq.wire.http2.frames import Http2Code, Http2Error, Http2FrameDecoder, Http2StreamError
from pyromq.wire.http2.requests import HeaderDecoder, check_trailers, read_request

GOOD = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/x"), (b"te", b"trailers")]


def test_any_cut_of_the_stream_gives_the_same_frames() -> None:
    stream = frames.encode_settings([(1, 2), (3, 4)]) + frames.encode_frame(0, 1, 5, b"data" * 30)
    for size in (1, 3, 9, 10, 64, 1000):
        decoder, found = Http2FrameDecoder(), list[frames.RawFrame]()
        for at in range(0, len(stream), size):
            found += decoder.feed(stream[at : at + size])
        assert [each[:3] for each in found] == [(frames.SETTINGS, 0, 0), (frames.DATA, 1, 5)]
        assert found[1][3] == b"data" * 30
        assert not decoder.half_read_bytes


def test_a_large_frame_is_refused_by_its_head() -> None:
    with pytest.raises(Http2Error) as refused:
        Http2FrameDecoder().feed(frames.frame_head(0, 0, 1, frames.FRAME_BYTES_MAX + 1))
    assert refused.value.code is Http2Code.FRAME_SIZE_ERROR


def test_padding_and_priority_are_taken_off() -> None:
    assert frames.unpadded(b"\x02abc\0\0", frames.PADDED) == b"abc"
    assert frames.header_fragment(b"\x01\0\0\0\x03\x10block\0", frames.PADDED | frames.HAS_PRIORITY, 1) == b"block"
    with pytest.raises(Http2Error):
        frames.unpadded(b"\x05abc", frames.PADDED)
    with pytest.raises(Http2StreamError):
        frames.header_fragment(b"\0\0\0\x01\x10block", frames.HAS_PRIORITY, 1)


@pytest.mark.parametrize(
    ("pair", "code"),
    [((2, 2), 1), ((4, 1 << 31), 3), ((5, 100), 1), ((5, 1 << 24), 1)],
)
def test_settings_that_make_no_sense_are_an_error(pair: tuple[int, int], code: int) -> None:
    payload = frames.encode_settings([pair])[9:]
    with pytest.raises(Http2Error) as refused:
        frames.read_settings(payload)
    assert refused.value.code == code


def test_a_header_bomb_is_not_decoded() -> None:
    encoder = hpack.Encoder()
    first = encoder.encode([("x", "y" * 2_000)])
    decoder = HeaderDecoder()
    decoder.decode(first)
    with pytest.raises(Http2Error) as refused:
        decoder.decode(b"\xbe" * 1_000)  # the same two thousand bytes, a thousand times
    assert refused.value.code is Http2Code.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    "block", [b"\xff\xff\xff\xff\xff\xff", b"\x40", b"\x00\x05ab", b"\xc6\xff", b"\x3f\xff\xff\xff\x7f"]
)
def test_a_damaged_header_block_ends_the_connection(block: bytes) -> None:
    with pytest.raises(Http2Error) as refused:
        HeaderDecoder().decode(block)
    assert refused.value.code is Http2Code.COMPRESSION_ERROR


def test_a_request_is_read() -> None:
    head = read_request([*GOOD, (b"content-length", b"7")])
    assert (head.method, head.path, head.content_length) == (b"POST", b"/x", 7)
    assert head.fields == {b"te": b"trailers", b"content-length": b"7"}


@pytest.mark.parametrize(
    "pairs",
    [
        GOOD[1:],
        [*GOOD[:2], (b":path", b""), GOOD[3]],
        [*GOOD, (b":path", b"/y")],
        [*GOOD[:3], (b":path", b"/y")],
        [*GOOD[:3], (b":status", b"200")],
        [*GOOD, (b"X-Upper", b"1")],
        [*GOOD, (b"connection", b"close")],
        [*GOOD[:3], (b"te", b"gzip")],
        [*GOOD, (b"content-length", b"ten")],
        [*GOOD, (b"", b"")],
    ],
)
def test_malformed_requests_end_their_stream(pairs: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Http2StreamError) as refused:
        read_request(pairs)
    assert refused.value.code is Http2Code.PROTOCOL_ERROR


def test_trailers_have_no_pseudo_headers() -> None:
    check_trailers([(b"grpc-status", b"0")])
    with pytest.raises(Http2StreamError):
        check_trailers([(b":path", b"/")])
