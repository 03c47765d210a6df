from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.wire.codes import Language, RequestCode, ResponseCode
from pyromq.wire.command import decode_command, encode_request, encode_response
from pyromq.wire.ext import header_to_ext
from pyromq.wire.frame import Frame, FrameDecoder, SerializeType
from pyromq.wire.headers import REQUEST_HEADERS, RESPONSE_HEADERS, Header, admin, consumer, nameserver, producer, shared
from pyromq.wire.received import decode_header, decode_received

ALL_TYPES = sorted({*REQUEST_HEADERS.values(), *RESPONSE_HEADERS.values()}, key=lambda kind: kind.__name__)
few = settings(max_examples=20)


def headers(header_type: type[Header]) -> st.SearchStrategy[Header]:
    """Any instance; strings are not empty, since a binary header cannot tell an empty one from none."""
    return st.builds(header_type, **{field.name: values(field.type) for field in msgspec.structs.fields(header_type)})


def values(kind: object) -> st.SearchStrategy[object]:
    if kind is str:
        return st.text(min_size=1, max_size=12)
    if kind is bool:
        return st.booleans()
    if kind is type(None):
        return st.none()
    first, *others = get_args(kind)
    if first is int and others and isinstance(others[0], msgspec.Meta):
        bounds = others[0]
        return st.integers(int(bounds.ge or 0), int(bounds.le or 0))
    return st.one_of(values(first), *map(values, others))


def frame_of(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame


@pytest.mark.parametrize("code", REQUEST_HEADERS, ids=lambda code: code.name)
def test_a_request_header_arrives_as_it_was_sent(code: RequestCode) -> None:
    @few
    @given(headers(REQUEST_HEADERS[code]))
    def check(header: Header) -> None:
        request = decode_received(frame_of(encode_request(code, 1, header)))
        assert (request.code, request.header, request.ext()) == (code, header, header_to_ext(header))
        if code <= 32_767:
            binary = encode_request(code, 1, header, serialize_type=SerializeType.ROCKETMQ)
            assert decode_received(frame_of(binary)).header == header

    check()


@pytest.mark.parametrize("code", RESPONSE_HEADERS, ids=lambda code: code.name)
def test_a_response_header_arrives_as_it_was_sent(code: RequestCode) -> None:
    header_type = RESPONSE_HEADERS[code]

    @few
    @given(headers(header_type), st.sampled_from(SerializeType))
    def check(header: Header, serialize_type: SerializeType) -> None:
        frame = frame_of(encode_response(ResponseCode.SUCCESS, 1, header, serialize_type=serialize_type))
        assert decode_received(frame).header_as(header_type) == header
        assert decode_header(decode_command(frame).ext, header_type) == header

    check()


@pytest.mark.parametrize("header_type", ALL_TYPES, ids=lambda kind: kind.__name__)
def test_every_header_is_written_with_strings_only(header_type: type[Header]) -> None:
    @few
    @given(headers(header_type))
    def check(header: Header) -> None:
        ext = json.loads(frame_of(encode_response(0, 1, header)).header)["extFields"]
        assert ext == header_to_ext(header)
        assert all(type(value) is str for value in ext.values())

    check()


@pytest.mark.parametrize("header_type", ALL_TYPES, ids=lambda kind: kind.__name__)
def test_headers_are_frozen_hold_scalars_and_stay_out_of_the_garbage_collectors_way(header_type: type[Header]) -> None:
    config = header_type.__struct_config__
    assert config.frozen and not config.gc
    for field in msgspec.structs.fields(header_type):
        kinds = {kind for kind in (field.type, *get_args(field.type)) if isinstance(kind, type)}
        assert kinds <= {str, int, bool, type(None)}


@pytest.mark.parametrize(
    ("header_type", "names"),
    [
        (producer.SendV2Header, "a b c d e f g h i j k l m n"),
        (
            producer.SendHeader,
            "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag properties "
            "reconsumeTimes unitMode maxReconsumeTimes batch bname",
        ),
        (
            producer.SendResponseHeader,
            "msgId queueId queueOffset transactionId batchUniqId recallHandle MSG_REGION TRACE_ON ON_DISK",
        ),
        (
            consumer.PullHeader,
            "consumerGroup topic queueId queueOffset maxMsgNums sysFlag commitOffset suspendTimeoutMillis subscription "
            "subVersion expressionType maxMsgBytes requestSource proxyFrowardClientId bname",
        ),
        (consumer.QueryMessageHeader, "topic key maxNum beginTimestamp endTimestamp _UNIQUE_KEY_QUERY placesOnly"),
        (consumer.QueryMessageResponseHeader, "indexLastUpdateTimestamp indexLastUpdatePhyoffset olderUnseen allFound"),
        (consumer.UnregisterClientHeader, "clientID producerGroup consumerGroup"),
        (
            consumer.HeartbeatResponseHeader,
            "IS_SUPPORT_HEART_BEAT_V2 IS_SUB_CHANGE PYROMQ_FAILURE_STORY PYROMQ_ODD_SUBSCRIPTIONS",
        ),
        (consumer.ViewMessageHeader, "topic offset"),
        (
            nameserver.RegisterBrokerHeader,
            "brokerName brokerAddr clusterName haServerAddr brokerId heartbeatTimeoutMillis enableActingMaster "
            "compressed bodyCrc32 __ZONE_NAME",
        ),
        (admin.GetTopicConfigHeader, "topic lo"),
        (shared.ConsumerRunningInfoHeader, "consumerGroup clientId jstackEnable"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_wire_names_are_those_of_rocketmq(header_type: type[Header], names: str) -> None:
    assert header_type.__struct_encode_fields__ == tuple(names.split())


def test_both_forms_of_a_send_have_the_same_attributes() -> None:
    assert producer.SendHeader.__struct_fields__ == producer.SendV2Header.__struct_fields__
    assert issubclass(producer.SendV2Header, producer.SendHeader)


def test_no_two_codes_look_alike_and_languages_are_the_known_ones() -> None:
    assert len({code.value for code in RequestCode}) == len(RequestCode.__members__)
    assert len({code.value for code in ResponseCode}) == len(ResponseCode.__members__)
    assert [language.value for language in Language] == list(range(14))
