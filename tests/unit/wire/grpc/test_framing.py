from __future__ import annotations

import gzip
import zlib

import pytest

from pyromq.wire.grpc.authorization import AuthorizationError, parse_authorization
from pyromq.wire.grpc.framing import GrpcError, GrpcStatus, MessageCutter, message_text, timeout_ms, with_prefix
from pyromq.wire.signature import SigningKey


def test_any_cut_of_the_stream_gives_the_same_messages() -> None:
    stream = with_prefix(b"one") + with_prefix(b"") + with_prefix(b"three" * 100)
    for size in (1, 2, 5, 7, 100, 1000):
        cutter, found = MessageCutter(1_000), list[bytes]()
        for at in range(0, len(stream), size):
            found += cutter.feed(stream[at : at + size])
        assert found == [b"one", b"", b"three" * 100], size
        assert not cutter.buffer


def test_a_message_that_is_too_large_is_refused_by_its_prefix() -> None:
    with pytest.raises(GrpcError) as refused:
        MessageCutter(100).feed(b"\0\0\0\0\x65")
    assert refused.value.status is GrpcStatus.RESOURCE_EXHAUSTED


def test_messages_may_be_compressed_and_bombs_are_not_inflated() -> None:
    packed = gzip.compress(b"a" * 500)
    assert MessageCutter(1_000, b"gzip").feed(b"\1" + len(packed).to_bytes(4, "big") + packed) == [b"a" * 500]
    deflated = zlib.compress(b"b" * 500)
    assert MessageCutter(1_000, b"deflate").feed(b"\1" + len(deflated).to_bytes(4, "big") + deflated) == [b"b" * 500]
    bomb = gzip.compress(b"\0" * 1_000_000)
    with pytest.raises(GrpcError) as refused:
        MessageCutter(10_000, b"gzip").feed(b"\1" + len(bomb).to_bytes(4, "big") + bomb)
    assert refused.value.status is GrpcStatus.RESOURCE_EXHAUSTED
    with pytest.raises(GrpcError) as unknown:
        MessageCutter(10_000, b"snappy").feed(b"\1\0\0\0\1x")
    assert unknown.value.status is GrpcStatus.UNIMPLEMENTED
    with pytest.raises(GrpcError):
        MessageCutter(10_000, b"gzip").feed(b"\1\0\0\0\1x")
    with pytest.raises(GrpcError):
        MessageCutter(10_000).feed(b"\7\0\0\0\1x")


@pytest.mark.parametrize(
    ("text", "ms"),
    [(b"3S", 3000), (b"250m", 250), (b"1H", 3_600_000), (b"2M", 120_000), (b"5000000n", 5), (b"7000u", 7)],
)
def test_timeouts_are_read_in_every_unit(text: bytes, ms: float) -> None:
    assert timeout_ms(text) == pytest.approx(ms)


@pytest.mark.parametrize("text", [None, b"", b"S", b"-1S", b"1x", b"123456789S", b"1.5S"])
def test_what_is_not_a_timeout_is_none(text: bytes | None) -> None:
    assert timeout_ms(text) is None


def test_texts_of_statuses_are_percent_encoded() -> None:
    assert message_text("50% öl\n") == b"50%25 %C3%B6l%0A"


def test_a_signature_in_either_case_becomes_that_of_the_remoting_protocol() -> None:
    signed = SigningKey("secret").sign(b"20261116T120000Z").decode()
    digits = __import__("base64").b64decode(signed).hex()
    for text in (digits, digits.upper()):
        found = parse_authorization(
            f"MQv2-HMAC-SHA1 Credential=alice/more, SignedHeaders=x-mq-date-time, Signature={text}"
        )
        assert found == ("alice", signed)


@pytest.mark.parametrize(
    "text",
    ["", "Basic abc", "MQv2-HMAC-SHA1 Credential=a", "MQv2-HMAC-SHA1 Credential=a, Signature=xyz", "MQv2-HMAC-SHA1"],
)
def test_what_is_no_authorization_is_an_error(text: str) -> None:
    with pytest.raises(AuthorizationError):
        parse_authorization(text)
