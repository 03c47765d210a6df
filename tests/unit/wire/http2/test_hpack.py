"""HPACK against the examples of RFC 7541, and against the package of the python-hyper project."""

from __future__ import annotations

import hpack
import pytest
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import given
from hypothesis import strategies as st

from pyromq.wire.http2.hpack import STATIC, HeaderListTooLargeError, HpackDecoder, HpackError, decode_huffman

LIST_BYTES_MAX = 32 << 10
PLAIN = [  # RFC 7541, C.3
    "828684410f7777772e6578616d706c652e636f6d",
    "828684be58086e6f2d6361636865",
    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
]
CODED = [  # C.4: the same by Huffman's code
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    "828684be5886a8eb10649cbf",
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
]
REQUESTS = [
    [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")],
    [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":path", b"/"),
        (b":authority", b"www.example.com"),
        (b"cache-control", b"no-cache"),
    ],
    [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":path", b"/index.html"),
        (b":authority", b"www.example.com"),
        (b"custom-key", b"custom-value"),
    ],
]


def test_the_static_table_is_that_of_the_rfc() -> None:
    assert STATIC == hpack.table.HeaderTable.STATIC_TABLE
    assert len(STATIC) == 61


@pytest.mark.parametrize("blocks", [PLAIN, CODED])
def test_requests_of_the_rfc(blocks: list[str]) -> None:
    decoder = HpackDecoder(LIST_BYTES_MAX)
    assert [decoder.decode(bytes.fromhex(block)) for block in blocks] == REQUESTS


def test_literals_of_the_rfc() -> None:
    decoder = HpackDecoder(LIST_BYTES_MAX)
    not_indexed = bytes.fromhex("040c2f73616d706c652f70617468")
    never_indexed = bytes.fromhex("100870617373776f726406736563726574")
    assert decoder.decode(not_indexed) == [(b":path", b"/sample/path")]
    assert decoder.decode(never_indexed) == [(b"password", b"secret")]
    with pytest.raises(HpackError):
        decoder.decode(b"\xbe")  # neither of them is in the table


def test_old_fields_leave_a_small_table() -> None:
    """RFC 7541, C.5: a table of 256 bytes, set by the peer."""
    decoder = HpackDecoder(LIST_BYTES_MAX)
    resized = b"\x3f\xe1\x01"
    first = bytes.fromhex(
        "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54"
        "6e1768747470733a2f2f7777772e6578616d706c652e636f6d"
    )
    assert decoder.decode(resized + first)[0] == (b":status", b"302")
    assert decoder.decode(bytes.fromhex("4803333037c1c0bf"))[0] == (b":status", b"307")
    with pytest.raises(HpackError):
        decoder.decode(b"\xc2")  # the oldest one had to go


@pytest.mark.parametrize("symbol", range(256))
def test_every_code_of_huffman(symbol: int) -> None:
    size = REQUEST_CODES_LENGTH[symbol]
    pad = -size % 8
    bits = REQUEST_CODES[symbol] << pad | (1 << pad) - 1
    assert decode_huffman(bits.to_bytes((size + pad) // 8, "big")) == bytes((symbol,))


@pytest.mark.parametrize(
    "data",
    [b"\xff\xff\xff\xff", b"\xff\xff\xff\xfc", b"\xff", b"\x00\x00", b"\xfe"],
    ids=["end within", "end at the end", "eight ones", "zeros behind", "cut"],
)
def test_texts_that_end_wrongly(data: bytes) -> None:
    with pytest.raises(HpackError):
        decode_huffman(data)


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # index 0
        b"\xff\xff\xff\xff\xff\x0f",  # a number without end
        b"\xff",  # cut behind the first byte of a number
        b"\x40\x03ab",  # a name that is cut
        b"\x40\x01a",  # without value
        b"\x82\x20",  # another size behind a field
        b"\x3f\xe2\x1f",  # 4097 bytes
        b"\xbe",  # beyond the tables
    ],
)
def test_blocks_that_cannot_be_decoded(block: bytes) -> None:
    with pytest.raises(HpackError):
        HpackDecoder(LIST_BYTES_MAX).decode(block)


def test_a_list_that_is_too_large() -> None:
    decoder = HpackDecoder(100)
    decoder.decode(b"\x40\x01a\x01b")
    with pytest.raises(HeaderListTooLargeError):
        decoder.decode(b"\xbe\xbe\xbe")


TEXTS = st.binary(max_size=60) | st.text(alphabet="abcxyz0189-:/ .", max_size=60).map(str.encode)
FIELDS = st.lists(st.tuples(TEXTS.filter(bool), TEXTS, st.booleans()), max_size=12)


@given(st.lists(st.tuples(FIELDS, st.booleans(), st.sampled_from([None, 0, 100, 4_096])), max_size=6))
def test_what_another_encoder_writes_is_read(
    blocks: list[tuple[list[tuple[bytes, bytes, bool]], bool, int | None]],
) -> None:
    encoder, decoder = hpack.Encoder(), HpackDecoder(1 << 20)
    for fields, huffman, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        block = encoder.encode(fields, huffman=huffman)
        assert decoder.decode(block) == [(name, value) for name, value, _ in fields]


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_are_read_as_another_decoder_reads_them(blocks: list[bytes]) -> None:
    other, ours = hpack.Decoder(LIST_BYTES_MAX), HpackDecoder(LIST_BYTES_MAX)
    for block in blocks:
        try:
            wanted = other.decode(block, raw=True)
        except (hpack.HPACKError, IndexError, ValueError, TypeError):
            return
        try:
            found = ours.decode(block)
        except HpackError as error:  # we have a bound for numbers
            assert "too large" in str(error)
            return
        assert found == wanted
