"""Pulls read in one step against frames and their decoding."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import RemoteProtocolError
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_request
from pyromq.wire.fast.pull_request import read_pull
from pyromq.wire.frame import FrameDecoder, SerializeType
from pyromq.wire.headers.consumer import PullHeader
from pyromq.wire.received import HEADER_BYTES_DECODED_MAX, Received, decode_received

EXT = {
    "consumerGroup": "readers",
    "topic": "orders",
    "queueId": "1",
    "queueOffset": "64",
    "maxMsgNums": "32",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subscription": "*",
    "subVersion": "0",
    "expressionType": "TAG",
}
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.sampled_from(["01", "1e2", " 1", "-7"])
)


def frame(header: Any, body: bytes = b"") -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    return (len(text) + len(body) + 4).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body


def pull(**odd: Any) -> dict[str, Any]:
    header = {"code": 11, "extFields": EXT, "flag": 0, "language": "JAVA", "opaque": 7, "version": 479}
    return header | odd


def facts(received: Received[Any]) -> tuple[object, ...]:
    return received.code, received.header, received.correlation_id, received.flag, received.version, received.remark


def test_a_pull_is_read_and_where_it_ends() -> None:
    data = frame(pull())
    for at, text in ((0, data), (3, b"abc" + data), (0, memoryview(data + b"more")), (0, bytearray(data))):
        found = read_pull(text, at)
        assert found is not None
        received, end = found
        assert isinstance(received.header, PullHeader)
        assert (received.header.queue_offset, received.correlation_id, end) == (64, 7, at + len(data))


def test_anything_else_is_left() -> None:
    data = frame(pull())
    for size in range(len(data)):
        assert read_pull(data[:size], 0) is None
    assert read_pull(frame(pull(), b"body"), 0) is None
    assert read_pull(frame(pull(flag=1)), 0) is None
    assert read_pull(frame(pull(flag=2)), 0) is None
    assert read_pull(frame(pull(code=361)), 0) is None
    assert read_pull(frame(pull(extFields={})), 0) is None
    assert read_pull(frame([]), 0) is None
    assert read_pull(frame(pull(remark="x" * HEADER_BYTES_DECODED_MAX)), 0) is None
    binary = encode_request(RequestCode.PULL_MESSAGE, 1, EXT, serialize_type=SerializeType.ROCKETMQ)
    assert read_pull(binary, 0) is None
    for prefix in (b"\x00" * 8, b"\xff" * 8, b"\x00\x00\x00\x04" + b"\x00" * 4, b"\x7f\xff\xff\xff\x7f\xff\xff\xfb"):
        assert read_pull(prefix + data, 0) is None


@settings(max_examples=400)
@given(
    st.dictionaries(st.sampled_from([*EXT, "maxMsgBytes", "requestSource", "bname", "odd"]), ODD, max_size=3),
    st.dictionaries(
        st.sampled_from(["flag", "opaque", "version", "remark", "language", "code", "odd"]), ODD, max_size=2
    ),
    st.integers(min_value=8, max_value=500),
    st.integers(min_value=-1, max_value=255),
)
def test_what_is_read_is_what_a_frame_decodes_to(ext: dict[str, Any], odd: dict[str, Any], at: int, byte: int) -> None:
    data = bytearray(frame(pull(extFields=EXT | ext) | odd))
    if byte >= 0 and at < len(data):
        data[at] = byte
    found = read_pull(data, 0)
    if found is None:
        return
    assert found[1] == len(data)
    try:
        (whole,) = FrameDecoder().feed(bytes(data))
        expected = decode_received(whole)
    except RemoteProtocolError as error:
        raise AssertionError(f"it must not be read: {data!r}") from error
    assert facts(found[0]) == facts(expected)
