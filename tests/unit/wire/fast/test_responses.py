"""Responses from templates against ``encode_response`` of the typed header, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import decode_command, encode_request, encode_response
from pyromq.wire.fast.responses import SendResponses, correlation_ids, success, with_status
from pyromq.wire.frame import FrameDecoder, SerializeType
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.received import Received, decode_received

HOST = "7F00000100002A9F"
I32 = st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1)
I64 = st.integers(min_value=0, max_value=(1 << 63) - 1)
KEYS = st.text("0123456789ABCDEF", min_size=1, max_size=40) | st.text(st.characters(exclude_categories=["Cs"]))
REGIONS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def asked(correlation_id: int, serialize_type: SerializeType = SerializeType.JSON, *, oneway: bool = False) -> Any:
    data = encode_request(RequestCode.HEART_BEAT, correlation_id, oneway=oneway, serialize_type=serialize_type)
    [frame] = FrameDecoder().feed(data)
    return decode_received(frame)


def plain(request: Received[Any], region: str, **fields: Any) -> bytes:
    header = SendResponseHeader(region=region, trace_on="true", **fields)
    return encode_response(ResponseCode.SUCCESS, request.correlation_id, header, serialize_type=request.serialize_type)


@settings(max_examples=300)
@given(I32, st.sampled_from(SerializeType), REGIONS, I32, I64, I64, KEYS, st.booleans(), st.none() | KEYS)
@example(7, SerializeType.JSON, "Zürich", 0, 0, 0, "A", True, None)
@example(7, SerializeType.JSON, '100 %d "<on disk>" <position>', 0, 0, 0, "A", True, None)
@example(123_454_321, SerializeType.JSON, "r", 111_111_111, 222_222_222, 0, "A", True, None)
def test_a_response_to_a_send_is_that_of_the_typed_header(
    correlation_id: int,
    serialize_type: SerializeType,
    region: str,
    queue_id: int,
    position: int,
    offset: int,
    key: str,
    is_on_disk: bool,
    handle: str | None,
) -> None:
    request, on_disk = asked(correlation_id, serialize_type), "true" if is_on_disk else "false"
    given_back = SendResponses(HOST, region).encode(request, queue_id, position, offset, key, on_disk, handle)
    assert given_back == plain(
        request,
        region,
        msg_id=f"{HOST}{position:016X}",
        queue_id=queue_id,
        queue_offset=offset,
        transaction_id=key,
        recall_handle=handle,
        on_disk=on_disk,
    )


@settings(max_examples=200)
@given(I32, st.sampled_from(SerializeType), REGIONS, I32, st.lists(I64, min_size=1, max_size=40), I64, st.none() | KEYS)
@example(5, SerializeType.JSON, "here", 3, [16, 255], 9, None)
@example(5, SerializeType.JSON, '100 %d "<on disk>" <ids>', 3, [(1 << 63) - 1], 9, None)
def test_a_response_to_a_batch_names_all_messages(
    correlation_id: int,
    serialize_type: SerializeType,
    region: str,
    queue_id: int,
    positions: list[int],
    offset: int,
    key: str | None,
) -> None:
    request = asked(correlation_id, serialize_type)
    given_back = SendResponses(HOST, region).encode_batch(request, queue_id, positions, offset, key, "true")
    ids = ",".join(f"{HOST}{position:016X}" for position in positions)
    assert given_back == plain(
        request, region, msg_id=ids, queue_id=queue_id, queue_offset=offset, transaction_id=key, on_disk="true"
    )


@settings(max_examples=100)
@given(I32, st.sampled_from(SerializeType))
def test_success_is_an_empty_response(correlation_id: int, serialize_type: SerializeType) -> None:
    request = asked(correlation_id, serialize_type)
    assert success(request) == encode_response(ResponseCode.SUCCESS, correlation_id, serialize_type=serialize_type)


def test_a_one_way_request_has_no_response() -> None:
    assert success(asked(5, oneway=True)) == b""


@settings(max_examples=200)
@given(
    st.lists(st.tuples(I32, st.sampled_from(SerializeType), KEYS), max_size=4), REGIONS, st.sampled_from([1, 10, 12])
)
@example([(7, SerializeType.JSON, '"opaque":1,"serializeTypeCurrentRPC":"JSON"')], '{"code":0,', 10)
def test_another_status_is_what_a_response_with_that_status_would_have_been(
    facts: list[tuple[int, SerializeType, str]], remark: str, code: int
) -> None:
    """The facts are carried over: ids, offset and key come out as they would have gone in."""
    found, wanted = b"", []
    for correlation_id, serialize_type, key in facts:
        request = asked(correlation_id, serialize_type)
        found += SendResponses(HOST, "r").encode(request, 3, 4, 5, key, "true", None)
        header = SendResponseHeader(
            msg_id=f"{HOST}{4:016X}",
            queue_id=3,
            queue_offset=5,
            transaction_id=key,
            region="r",
            trace_on="true",
            on_disk="true",
        )
        wanted.append(encode_response(code, correlation_id, header, remark=remark, serialize_type=serialize_type))
    assert list(correlation_ids(found)) == [correlation_id for correlation_id, _, _ in facts]
    late = [decode_command(frame) for each in with_status(found, code, remark) for frame in FrameDecoder().feed(each)]
    assert late == [decode_command(frame) for each in wanted for frame in FrameDecoder().feed(each)]


@pytest.mark.parametrize("serialize_type", SerializeType)
def test_a_response_that_says_something_else_than_success_keeps_its_status(serialize_type: SerializeType) -> None:
    """Such as that of a reply that is stored, and did not reach its client."""
    header = SendResponseHeader(msg_id=HOST, queue_id=3, queue_offset=5)
    found = encode_response(
        ResponseCode.SYSTEM_ERROR, 7, header, remark="the client is gone", serialize_type=serialize_type
    )
    assert list(with_status(found, ResponseCode.FLUSH_SLAVE_TIMEOUT, "late")) == [found]
