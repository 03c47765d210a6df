from __future__ import annotations

import json

import pytest

from pyromq.wire.codes import VERSION, Language, ResponseCode
from pyromq.wire.command import (
    encode_request,
    encode_response,
    encode_response_head,
)
from pyromq.wire.ext import header_to_ext
from pyromq.wire.frame import Frame, FrameDecoder, SerializeType
from pyromq.wire.header_errors import HeaderFieldError, UndecodableHeaderError
from pyromq.wire.headers.consumer import PullHeader, PullResponseHeader, QueryMessageHeader, UpdateConsumerOffsetHeader
from pyromq.wire.headers.nameserver import GetRouteHeader
from pyromq.wire.headers.producer import SendResponseHeader, SendV2Header
from pyromq.wire.received import CommandFlag, decode_received

JSON, BINARY = SerializeType.JSON, SerializeType.ROCKETMQ
BOTH = pytest.mark.parametrize("serialize_type", [JSON, BINARY])
SEND = SendV2Header(
    producer_group="g",
    topic="t",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=1,
    sys_flag=0,
    born_timestamp=1_718_000_000_000,
    flag=0,
    properties="KEYS\x01k\x02",
    unit_mode=False,
    batch=True,
)


def frame_of(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame


def json_frame(text: str | bytes, body: bytes = b"") -> Frame:
    return Frame(JSON, text.encode() if isinstance(text, str) else text, body)


@BOTH
def test_a_request_arrives_with_its_typed_header(serialize_type: SerializeType) -> None:
    data = encode_request(310, 77, SEND, body=b"b", oneway=True, remark="r", serialize_type=serialize_type)
    request = decode_received(frame_of(data))
    assert (request.code, request.correlation_id, request.version, request.remark) == (310, 77, VERSION, "r")
    assert (request.header, request.body, request.language) == (SEND, b"b", Language.PYTHON)
    assert request.is_oneway and not request.is_response
    assert request.flag == CommandFlag.ONEWAY
    assert request.serialize_type is serialize_type
    assert request.ext() == header_to_ext(SEND)
    assert request.ext()["m"] == "true"


@BOTH
def test_a_response_is_typed_by_the_caller_that_waited_for_it(serialize_type: SerializeType) -> None:
    header = PullResponseHeader(suggest_which_broker_id=0, next_begin_offset=5, min_offset=0, max_offset=9)
    response = decode_received(frame_of(encode_response(0, 3, header, body=b"m", serialize_type=serialize_type)))
    assert response.is_response and not response.is_oneway
    assert response.header_as(PullResponseHeader) == header
    assert response.ext() == {"suggestWhichBrokerId": "0", "nextBeginOffset": "5", "minOffset": "0", "maxOffset": "9"}
    with pytest.raises(HeaderFieldError, match="'msgId' of SendResponseHeader is missing"):
        response.header_as(SendResponseHeader)


@BOTH
def test_the_code_of_a_response_is_not_mistaken_for_that_of_a_request(serialize_type: SerializeType) -> None:
    for code in (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.SERVICE_NOT_AVAILABLE):
        response = decode_received(frame_of(encode_response(code, 1, {"x": "y"}, serialize_type=serialize_type)))
        assert response.code == code
        assert response.ext() == {"x": "y"}


def test_the_head_of_a_response_is_the_response_without_its_body() -> None:
    header = PullResponseHeader(suggest_which_broker_id=0, next_begin_offset=5, min_offset=0, max_offset=9)
    for serialize_type in SerializeType:
        whole = encode_response(0, 3, header, body=b"12345", remark="FOUND", serialize_type=serialize_type)
        head = encode_response_head(0, 3, header, body_size=5, remark="FOUND", serialize_type=serialize_type)
        assert head + b"12345" == whole


def test_every_value_in_the_ext_of_a_response_is_a_json_string() -> None:
    header = SendResponseHeader(msg_id="m", queue_id=-1, queue_offset=2**63 - 1, region="r")
    ext = json.loads(frame_of(encode_response(ResponseCode.SUCCESS, 1, header)).header)["extFields"]
    assert ext == {"msgId": "m", "queueId": "-1", "queueOffset": "9223372036854775807", "MSG_REGION": "r"}


@pytest.mark.parametrize(
    "text",
    [
        '{"code":15,"extFields":%s,"flag":0,"opaque":5}',
        '{"extFields":%s,"opaque":5,"code":15,"flag":0}',
        ' { "opaque" : 5 , "code" : 15 , "extFields" : %s } ',
        '{"code":"15","opaque":"5","extFields":%s}',
    ],
)
@pytest.mark.parametrize(
    "ext",
    [
        '{"consumerGroup":"7","topic":"t","queueId":"3","commitOffset":"-1"}',
        '{"consumerGroup":7,"topic":"t","queueId":3,"commitOffset":-1,"other":null,"AccessKey":"a"}',
    ],
)
def test_order_of_keys_spaces_and_kinds_of_values_make_no_difference(text: str, ext: str) -> None:
    request = decode_received(json_frame(text % ext))
    assert request.header == UpdateConsumerOffsetHeader(consumer_group="7", topic="t", queue_id=3, commit_offset=-1)
    assert (request.code, request.correlation_id) == (15, 5)


def test_the_code_that_counts_is_the_last_one_whatever_the_first_bytes_promise() -> None:
    text = '{"code":310,"extFields":{"topic":"t"},"opaque":1,"code":105}'
    request = decode_received(json_frame(text))
    assert (request.code, request.header) == (105, GetRouteHeader(topic="t"))


WRITTEN_BOOLEANS = [
    ('"true"', True),
    ('"TRUE"', True),
    ('"tRue"', True),
    ("true", True),
    ('"false"', False),
    ("false", False),
    ('"1"', False),
    ("1", False),
    ('"yes"', False),
    ('""', False),
    ("null", None),
]


@pytest.mark.parametrize(("written", "read"), WRITTEN_BOOLEANS)
def test_a_batch_is_one_when_it_says_so_in_any_case(written: str, read: bool | None) -> None:
    """Likewise where the one field is read again as text, whatever other fields of that name there are."""
    ext = '"a":"g","b":"t","c":"TBW102","d":"4","e":"0","f":"0","g":"1","h":"0"'
    for text in (
        f'{{"code":320,"extFields":{{{ext},"m":{written}}}}}',
        f'{{"code":320,"m":"true","extFields":{{"m":"true",{ext},"k":"false","\\u006d":{written}}}}}',
    ):
        header = decode_received(json_frame(text)).header
        assert isinstance(header, SendV2Header)
        assert header.batch is read


@pytest.mark.parametrize(("written", "read"), WRITTEN_BOOLEANS)
def test_a_boolean_is_true_when_it_says_so_in_any_case_and_otherwise_false(written: str, read: bool | None) -> None:
    ext = (
        f'{{"topic":"t","key":"k","maxNum":"1","beginTimestamp":"0","endTimestamp":"1","_UNIQUE_KEY_QUERY":{written}}}'
    )
    header = decode_received(json_frame(f'{{"code":12,"extFields":{ext}}}')).header
    assert isinstance(header, QueryMessageHeader)
    assert header.unique_key_query is read


@pytest.mark.parametrize(
    ("ext", "field"),
    [
        ({"consumerGroup": "g", "topic": "t", "queueId": "three", "commitOffset": "1"}, "queueId"),
        ({"consumerGroup": "g", "topic": "t", "queueId": "0", "commitOffset": ""}, "commitOffset"),
        ({"consumerGroup": "g", "topic": "t", "queueId": "2147483648", "commitOffset": "1"}, "queueId"),
        ({"consumerGroup": "g", "topic": "t", "queueId": "1", "commitOffset": "9" * 30}, "commitOffset"),
        ({"consumerGroup": "g", "topic": "t", "queueId": "1", "commitOffset": "9" * 10_000}, "commitOffset"),
        ({"consumerGroup": "g", "queueId": "1", "commitOffset": "1"}, "topic"),
        ({}, "consumerGroup"),
    ],
)
@BOTH
def test_a_missing_or_unreadable_field_is_named_and_the_request_can_be_answered(
    ext: dict[str, str], field: str, serialize_type: SerializeType
) -> None:
    frame = frame_of(encode_request(15, 42, ext, body=b"b", serialize_type=serialize_type))
    with pytest.raises(HeaderFieldError, match=f"'{field}' of UpdateConsumerOffsetHeader") as caught:
        decode_received(frame)
    assert caught.value.field == field
    request = caught.value.received
    assert request is not None
    assert (request.correlation_id, request.header, request.body, request.is_oneway) == (42, None, b"b", False)
    assert len(str(caught.value)) < 300


def test_fields_a_peer_invents_cannot_replace_what_the_frame_holds() -> None:
    extra = '"pyromq:body":"aGFjaw==","pyromq:frame":{"serialize_type":1,"header":"","body":""}'
    for text in ('{"code":105,"extFields":{"topic":"t"},%s}', '{"opaque":1,"code":34,%s}'):
        frame = json_frame(text % extra, b"body")
        request = decode_received(frame)
        assert (request.body, request.frame) == (b"body", frame)


def test_a_binary_frame_is_not_read_as_json_however_it_begins() -> None:
    frame = Frame(BINARY, b'{"code":105,"extFields":{"topic":"t"},"opaque":1}')
    with pytest.raises(UndecodableHeaderError):
        decode_received(frame)


def test_a_pull_of_the_go_client_keeps_its_empty_subscription() -> None:
    ext = {
        "consumerGroup": "g",
        "topic": "t",
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "2",
        "commitOffset": "0",
        "suspendTimeoutMillis": "20000",
        "subscription": "",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    header = decode_received(frame_of(encode_request(11, 1, ext))).header
    assert isinstance(header, PullHeader)
    assert (header.subscription, header.expression_type) == ("", "TAG")
    header = decode_received(frame_of(encode_request(11, 1, ext, serialize_type=BINARY))).header
    assert header.subscription is None


LOOKS_SENT = {"msgId": "A", "queueId": "3", "queueOffset": "7", "topic": "t", "nextBeginOffset": "8", "minOffset": "0"}


@BOTH
def test_a_response_that_looks_like_that_of_a_send_can_be_another(serialize_type: SerializeType) -> None:
    ext = {**LOOKS_SENT, "maxOffset": "9", "suggestWhichBrokerId": "0"}
    received = decode_received(frame_of(encode_response(0, 7, ext, serialize_type=serialize_type)))
    assert received.header_as(SendResponseHeader).queue_offset == 7
    assert received.header_as(PullResponseHeader).next_begin_offset == 8
    assert received.ext() == ext and received.is_response


def test_what_looks_sent_and_is_not_is_decoded_as_ever() -> None:
    request = decode_received(frame_of(encode_request(0, 7, LOOKS_SENT)))
    assert (request.is_response, request.header) == (False, None)
    lacking = decode_received(frame_of(encode_response(0, 7, {"msgId": "A", "queueId": "x"})))
    with pytest.raises(HeaderFieldError, match="queueId"):
        lacking.header_as(SendResponseHeader)
    long = {"msgId": "A" * (1280 * 1024), "queueId": "3", "queueOffset": "7"}
    with pytest.raises(UndecodableHeaderError, match="are decoded field by field"):
        decode_received(frame_of(encode_response(0, 7, long)))
