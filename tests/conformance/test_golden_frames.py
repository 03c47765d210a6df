"""Frames as real peers write them, byte by byte."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from pyromq.wire.codes import Language, RequestCode, ResponseCode
from pyromq.wire.command import Command, decode_command, encode_command, encode_request, encode_response
from pyromq.wire.frame import Frame, FrameDecoder, SerializeType
from pyromq.wire.headers.consumer import PullHeader, PullResponseHeader, QueryConsumerOffsetHeader
from pyromq.wire.headers.nameserver import GetRouteHeader
from pyromq.wire.headers.producer import EndTransactionHeader, SendHeader, SendResponseHeader, SendV2Header
from pyromq.wire.received import decode_received

JSON, BINARY = SerializeType.JSON, SerializeType.ROCKETMQ

ROUTE_BINARY = bytes.fromhex(
    "00 00 00 2d  01 00 00 29  00 69 00 01 df 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 14"
    "00 05 74 6f 70 69 63 00 00 00 09 54 6f 70 69 63 54 65 73 74"
)
ROUTE_JSON = (
    bytes.fromhex("00 00 00 87  00 00 00 83")
    + b'{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":1,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)


def frame_of(data: bytes) -> Frame:
    (frame,) = FrameDecoder().feed(data)
    return frame


def json_frame(header: str, body: bytes = b"") -> Frame:
    return Frame(JSON, header.encode(), body)


@pytest.mark.parametrize(("data", "serialize_type"), [(ROUTE_JSON, JSON), (ROUTE_BINARY, BINARY)])
def test_a_java_clients_route_request_is_read_and_written_byte_by_byte(
    data: bytes, serialize_type: SerializeType
) -> None:
    command = Command(
        code=105,
        correlation_id=1,
        language=Language.JAVA,
        version=479,
        ext={"topic": "TopicTest"},
        serialize_type=serialize_type,
    )
    assert decode_command(frame_of(data)) == command
    assert encode_command(command) == data

    request = decode_received(frame_of(data))
    assert (request.code, request.header) == (RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic="TopicTest"))
    header = GetRouteHeader(topic="TopicTest")
    assert encode_request(105, 1, header, language=Language.JAVA, serialize_type=serialize_type) == data


def test_a_java_send_v2() -> None:
    frame = json_frame(
        '{"code":310,"extFields":{"a":"g","b":"TopicTest","c":"TBW102","d":"4","e":"2","f":"0","g":"1718000000000",'
        '"h":"0","i":"UNIQ_KEY\\u0001AC11\\u0002WAIT\\u0001true","j":"0","k":"false","m":"false","n":"broker-a"},'
        '"flag":0,"language":"JAVA","opaque":12,"serializeTypeCurrentRPC":"JSON","version":479}',
        b"Hello",
    )
    request = decode_received(frame)
    assert request.header == SendV2Header(
        producer_group="g",
        topic="TopicTest",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=2,
        sys_flag=0,
        born_timestamp=1_718_000_000_000,
        flag=0,
        properties="UNIQ_KEY\x01AC11\x02WAIT\x01true",
        reconsume_times=0,
        unit_mode=False,
        batch=False,
        broker_name="broker-a",
    )
    assert (request.body, request.language, request.version) == (b"Hello", Language.JAVA, 479)


def test_an_ali_ons_send_v2_with_numbers_and_booleans() -> None:
    frame = json_frame(
        '{"code":310,"language":"JAVA","opaque":3,"flag":0,"version":121,"extFields":{"a":"g","b":"T","c":"TBW102",'
        '"d":4,"e":3,"f":0,"g":1718000000000,"h":0,"i":"TAGS\\u0001undefined\\u0002","j":0,"k":false,"l":16}}'
    )
    request = decode_received(frame)
    assert isinstance(request.header, SendV2Header)
    header = request.header
    assert (header.queue_id, header.born_timestamp, header.unit_mode, header.batch) == (
        3,
        1_718_000_000_000,
        False,
        None,
    )
    assert request.ext()["k"] == "false"
    assert request.ext()["g"] == "1718000000000"
    assert request.version == 121


def test_an_ali_ons_group_that_looks_like_a_number() -> None:
    text = '{"code":14,"opaque":3,"extFields":{"consumerGroup":42,"topic":"T","queueId":0}}'
    header = QueryConsumerOffsetHeader(consumer_group="42", topic="T", queue_id=0)
    assert decode_received(json_frame(text)).header == header


def test_a_go_send_with_long_names_and_text_booleans() -> None:
    frame = json_frame(
        '{"code":10,"language":"GO","version":317,"opaque":5,"flag":0,"remark":"","extFields":{"producerGroup":"g",'
        '"topic":"T","defaultTopic":"TBW102","defaultTopicQueueNums":"4","queueId":"1","sysFlag":"0",'
        '"bornTimestamp":"1718000000000","flag":"0","properties":"","reconsumeTimes":"0","unitMode":"false",'
        '"maxReconsumeTimes":"0","batch":"false","bname":"broker-a"}}'
    )
    request = decode_received(frame)
    assert isinstance(request.header, SendHeader)
    assert (request.header.broker_name, request.header.batch, request.language) == ("broker-a", False, Language.GO)


def test_a_go_pull() -> None:
    frame = json_frame(
        '{"code":11,"language":"GO","version":317,"opaque":6,"flag":0,"remark":"","extFields":{"consumerGroup":"g",'
        '"topic":"T","queueId":"1","queueOffset":"12","maxMsgNums":"32","sysFlag":"2","commitOffset":"0",'
        '"suspendTimeoutMillis":"20000","subscription":"","subVersion":"0","expressionType":"TAG"}}'
    )
    header = decode_received(frame).header
    assert isinstance(header, PullHeader)
    assert (header.queue_offset, header.suspend_timeout_millis, header.subscription) == (12, 20_000, "")


@pytest.mark.parametrize("ext", ["", '"extFields":{},', '"extFields":null,'])
def test_a_heartbeat_has_no_ext_fields_and_is_known_by_its_body(ext: str) -> None:
    body = b'{"clientID":"10.0.0.1@1","consumerDataSet":[],"producerDataSet":[{"groupName":"g"}]}'
    request = decode_received(
        json_frame(f'{{"code":34,{ext}"flag":0,"language":"JAVA","opaque":2,"version":479}}', body)
    )
    assert (request.code, request.header, request.body) == (RequestCode.HEART_BEAT, None, body)


def test_the_response_to_a_heartbeat_is_as_small_as_javas() -> None:
    assert encode_response(ResponseCode.SUCCESS, 2) == bytes.fromhex("00000065 00000061") + (
        b'{"code":0,"flag":1,"language":"PYTHON","opaque":2,"serializeTypeCurrentRPC":"JSON","version":479}'
    )


def test_a_send_response_in_both_forms() -> None:
    header = SendResponseHeader(
        msg_id="7F0000010000", queue_id=3, queue_offset=42, region="DefaultRegion", trace_on="true"
    )
    assert encode_response(0, 12, header)[8:] == (
        b'{"code":0,"extFields":{"msgId":"7F0000010000","queueId":"3","queueOffset":"42","MSG_REGION":"DefaultRegion",'
        b'"TRACE_ON":"true"},"flag":1,"language":"PYTHON","opaque":12,"serializeTypeCurrentRPC":"JSON","version":479}'
    )
    binary = SendResponseHeader(msg_id="A", queue_id=3, queue_offset=42)
    assert encode_response(0, 12, binary, serialize_type=BINARY) == bytes.fromhex(
        "00000046 01000042 0000 03 01df 0000000c 00000001 00000000 0000002d"
        "0005 6d73674964 00000001 41"
        "0007 71756575654964 00000001 33"
        "000b 71756575654f6666736574 00000002 3432"
    )


def test_a_pull_response_carries_all_four_numbers() -> None:
    header = PullResponseHeader(suggest_which_broker_id=0, next_begin_offset=12, min_offset=0, max_offset=12)
    data = encode_response(ResponseCode.PULL_NOT_FOUND, 6, header, remark="OFFSET_OVERFLOW_ONE")
    assert frame_of(data).header == (
        b'{"code":19,"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"12","minOffset":"0","maxOffset":"12"},'
        b'"flag":1,"language":"PYTHON","opaque":6,"remark":"OFFSET_OVERFLOW_ONE","serializeTypeCurrentRPC":"JSON",'
        b'"version":479}'
    )


def test_a_java_end_of_a_transaction_is_one_way() -> None:
    request = decode_received(
        json_frame(
            '{"code":37,"extFields":{"producerGroup":"g","tranStateTableOffset":"1","commitLogOffset":"512",'
            '"commitOrRollback":"8","fromTransactionCheck":"true","msgId":"AC11","transactionId":"AC11","topic":"T"},'
            '"flag":2,"language":"JAVA","opaque":9,"remark":"boom","version":479}'
        )
    )
    assert request.is_oneway
    assert request.remark == "boom"
    assert request.header == EndTransactionHeader(
        topic="T",
        producer_group="g",
        tran_state_table_offset=1,
        commit_log_offset=512,
        commit_or_rollback=8,
        from_transaction_check=True,
        msg_id="AC11",
        transaction_id="AC11",
    )


def test_ext_fields_that_no_header_knows_are_there_for_the_signature() -> None:
    signed = '{"code":105,"extFields":{"Signature":"s","topic":"TopicTest","AccessKey":"ak"},"opaque":1}'
    ext = decode_received(json_frame(signed)).ext()
    content = "".join(ext[name] for name in sorted(ext) if name != "Signature")
    digest = hmac.digest(b"sk12345678", content.encode(), hashlib.sha1)
    assert base64.b64encode(digest) == b"+6btn2NsgYAznu9MzWzOCoydu/w="
