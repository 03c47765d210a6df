from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, RemoteProtocolError
from pyromq.wire.codes import VERSION, Language, RequestCode, ResponseCode
from pyromq.wire.command import (
    Command,
    decode_command,
    encode_command,
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
deterministic = settings(derandomize=True, deadline=None, max_examples=150)

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
texts = st.text(min_size=1, max_size=20)
commands = st.builds(
    Command,
    code=int16,
    correlation_id=int32,
    flag=int32,
    language=st.sampled_from(Language),
    version=int16,
    remark=st.none() | texts,
    ext=st.dictionaries(texts, texts, max_size=5),
    body=st.binary(max_size=20),
    serialize_type=st.sampled_from(SerializeType),
)


def frame_of(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame


def json_frame(text: str | bytes, body: bytes = b"") -> Frame:
    return Frame(JSON, text.encode() if isinstance(text, str) else text, body)


def binary(remark: bytes = b"", ext: bytes = b"", code: int = 105, language: int = 0) -> Frame:
    fixed = struct.pack(">hBhiii", code, language, VERSION, 7, 0, len(remark))
    return Frame(BINARY, fixed + remark + struct.pack(">i", len(ext)) + ext)


def entry(key: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value


@deterministic
@given(commands)
def test_what_was_encoded_decodes_to_the_same(command: Command) -> None:
    assert decode_command(frame_of(encode_command(command))) == command


# --- JSON ---


def test_numbers_and_booleans_in_ext_become_strings_and_null_is_absent() -> None:
    frame = json_frame('{"code":310,"opaque":1,"extFields":{"e":3,"k":false,"m":true,"x":null,"f":1.5,"b":"t"}}')
    assert decode_command(frame).ext == {"e": "3", "k": "false", "m": "true", "f": "1.5", "b": "t"}


@pytest.mark.parametrize("ext", ["", ',"extFields":null', ',"extFields":{}'])
def test_ext_may_be_absent_null_or_empty(ext: str) -> None:
    frame = json_frame(f'{{"code":34,"opaque":1{ext}}}')
    assert decode_command(frame).ext == {}
    received = decode_received(frame)
    assert received.header is None
    assert received.ext() == {}


def test_unknown_keys_and_languages_are_no_errors() -> None:
    command = decode_command(json_frame('{"foo":[1,{"a":2}],"language":"KLINGON","code":34,"opaque":9}'))
    assert (command.code, command.correlation_id, command.language, command.version) == (34, 9, None, 0)


def test_a_language_may_be_a_number_too() -> None:
    assert decode_received(json_frame('{"code":34,"language":9}')).language is Language.GO
    assert decode_received(json_frame('{"code":34,"language":99}')).language is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"opaque":1}',
        '{"code":null}',
        '{"code":"many"}',
        '{"code":3000000000}',
        '{"code":1,"opaque":99999999999}',
        '{"code":1,"flag":"x"}',
        '{"code":1}trailing',
        '{"code":1,"extFields":[]}',
        '{"code":1,"extFields":{"a":{}}}',
        '{"code":1,"extFields":{"a":["b"]}}',
        '{"code":1,"extFields":"text"}',
        '{"code":1,"remark":{}}',
        b'{"code":1,"remark":"\xff"}',
        b'{"code":1,"extFields":{"a":"\xff\xfe"}}',
        b'{"code":1,"extFields":{"a":"raw \x01 control"}}',
        '{"code":1,"extFields":{"a":"\\ud800"}}',
        '{"code":1,"deep":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"code":1,"extFields":' + '{"a":' * 100_000 + "1" + "}" * 100_001,
        '{"code":' + "9" * 10_000 + "}",
    ],
)
def test_what_is_no_header_is_refused(text: str | bytes) -> None:
    with pytest.raises(UndecodableHeaderError) as caught:
        decode_command(json_frame(text))
    assert isinstance(caught.value, RemoteProtocolError)


def test_control_characters_are_escaped_and_other_text_is_not() -> None:
    data = encode_request(10, 1, {"properties": 'KEYS\x01ü"\x02'})
    assert '"properties":"KEYS\\u0001ü\\"\\u0002"'.encode() in data
    assert decode_command(frame_of(data)).ext == {"properties": 'KEYS\x01ü"\x02'}


def test_json_is_compact_with_keys_in_javas_order() -> None:
    data = encode_response(ResponseCode.SYSTEM_ERROR, 5, {"a": "b"}, remark="no", body=b"!")
    frame = frame_of(data)
    assert frame.header == (
        b'{"code":1,"extFields":{"a":"b"},"flag":1,"language":"PYTHON","opaque":5,"remark":"no",'
        b'"serializeTypeCurrentRPC":"JSON","version":479}'
    )
    assert frame.body == b"!"


# --- binary ---


def test_empty_strings_of_a_binary_header_are_absent_and_later_entries_win() -> None:
    ext = (
        entry(b"a", b"1")
        + entry(b"b", b"")
        + entry(b"a", b"2")
        + entry(b"", b"x")
        + entry(b"c", b"3")
        + entry(b"c", b"")
    )
    command = decode_command(binary(ext=ext))
    assert command.ext == {"a": "2"}
    assert command.remark is None


def test_an_unknown_language_of_a_binary_header_is_no_error() -> None:
    assert decode_command(binary(language=200)).language is None


@pytest.mark.parametrize("size", range(len(binary(b"remark", entry(b"topic", b"TopicTest")).header)))
def test_a_binary_header_cut_at_any_byte_is_refused(size: int) -> None:
    whole = binary(b"remark", entry(b"topic", b"TopicTest"))
    with pytest.raises(UndecodableHeaderError):
        decode_command(Frame(BINARY, whole.header[:size]))


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (struct.pack(">hBhiii", 1, 0, 1, 1, 0, -1) + bytes(4), "remark claims -1 bytes"),
        (struct.pack(">hBhiii", 1, 0, 1, 1, 0, 2**31 - 1) + bytes(4), "remark claims 2147483647 bytes"),
        (struct.pack(">hBhiiii", 1, 0, 1, 1, 0, 0, -5), "ext block claims -5 bytes"),
        (struct.pack(">hBhiiii", 1, 0, 1, 1, 0, 0, 2**31 - 1), "ext block claims 2147483647 bytes"),
        (binary(ext=b"\xff\xffabcdef").header, "key claims -1 bytes"),
        (binary(ext=b"\x7f\xffabcdef").header, "ends too early"),
        (binary(ext=b"\x00\x01a\xff\xff\xff\xff").header, "value claims -1 bytes"),
        (binary(ext=b"\x00\x01a\x00\x00\x00\x05abc").header + b"de", "value claims 5 bytes, 3 are left"),
        (binary(ext=b"\x00").header + bytes(20), "ends too early"),
        (binary(ext=entry(b"a", b"\xff")).header, "not UTF-8"),
        (binary(ext=entry(b"\xff", b"a")).header, "not UTF-8"),
        (binary(remark=b"\xc3").header, "not UTF-8"),
    ],
)
def test_binary_lengths_and_text_are_checked(header: bytes, text: str) -> None:
    with pytest.raises(UndecodableHeaderError, match=text):
        decode_command(Frame(BINARY, header))


def test_pop_codes_cannot_travel_in_a_binary_header() -> None:
    with pytest.raises(LocalProtocolError, match="200050"):
        encode_request(RequestCode.POP_MESSAGE, 1, {}, serialize_type=BINARY)


@BOTH
def test_text_that_is_not_unicode_cannot_be_sent(serialize_type: SerializeType) -> None:
    for ext, remark in (({"a": "\ud800"}, None), ({}, "\ud800")):
        with pytest.raises(LocalProtocolError):
            encode_response(0, 1, ext, remark=remark, serialize_type=serialize_type)


def test_what_does_not_fit_a_binary_header_cannot_be_sent() -> None:
    for command in (
        Command(code=1, version=2**15, serialize_type=BINARY),
        Command(code=1, correlation_id=2**31, serialize_type=BINARY),
        Command(code=1, ext={"k" * 40_000: "v"}, serialize_type=BINARY),
    ):
        with pytest.raises(LocalProtocolError):
            encode_command(command)


def test_a_frame_larger_than_peers_accept_cannot_be_sent() -> None:
    with pytest.raises(LocalProtocolError, match="larger than"):
        encode_response(0, 1, body=bytes(1 << 24))
    with pytest.raises(LocalProtocolError, match="larger than"):
        encode_response_head(0, 1, body_size=1 << 24)


# --- typed ---

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


@pytest.mark.parametrize(
    ("written", "read"),
    [
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
    ],
)
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
