"""Bodies, ids and signatures whose exact bytes other implementations write or expect."""

# ruff: noqa: E501  (a golden text is easier to compare in one piece)

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from pyromq.errors import RemoteProtocolError
from pyromq.model.queue import QueueId
from pyromq.model.topic import DataVersion, GroupConfig, TopicConfig
from pyromq.wire.compression import decompress
from pyromq.wire.json import bodies, heartbeat, java_json
from pyromq.wire.json.registration import BrokerRegistration, TopicTableBody, decode_registration, encode_registration
from pyromq.wire.json.route import ClusterInfo, TopicList, decode_route, encode_route
from pyromq.wire.message_id import Host, decode_offset_id, encode_offset_id
from pyromq.wire.signature import sign, verify

DATA_VERSION = '{"counter":3,"stateVersion":0,"timestamp":1700000000000}'
TOPIC = '{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"TopicTest","topicSysFlag":0,"writeQueueNums":4}'
MQ = '{"brokerName":"broker-a","queueId":0,"topic":"TopicTest"}'
SUBSCRIPTION = '{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA","subVersion":1700000000000,"tagsSet":["TagA"],"topic":"TopicTest"}'
RETRY_SUBSCRIPTION = '{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":1700000000000,"tagsSet":[],"topic":"%RETRY%g"}'
ROUTE = '{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
STRICT_ROUTE = ROUTE.replace("0:", '"0":', 1).replace(",1:", ',"1":', 1)
REGISTRATION = '{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1700000000000},"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1700000000000},"topicConfigTable":{"TopicTest":TOPIC},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'.replace(
    "TOPIC", TOPIC
)
CLIENT = '"clientId":"10.0.0.5@1#123"'

BODIES: list[tuple[type[Any], str]] = [
    (QueueId, MQ),
    (DataVersion, DATA_VERSION),
    (TopicConfig, TOPIC),
    (TopicTableBody, f'{{"dataVersion":{DATA_VERSION},"topicConfigTable":{{"TopicTest":{TOPIC}}}}}'),
    (BrokerRegistration, REGISTRATION),
    (TopicList, '{"brokerAddr":"10.0.0.1:10911","topicList":["TopicTest","TBW102"]}'),
    (
        ClusterInfo,
        '{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}',
    ),
    (
        GroupConfig,
        '{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}',
    ),
    (bodies.GroupMemberIds, '{"consumerIdList":["10.0.0.5@1#123","10.0.0.6@2#456"]}'),
    (bodies.LockRequest, f'{{{CLIENT},"consumerGroup":"g","mqSet":[{MQ}],"onlyThisBroker":false}}'),
    (bodies.LockResponse, f'{{"lockOKMQSet":[{MQ}]}}'),
    (
        bodies.AssignmentRequest,
        f'{{{CLIENT},"consumerGroup":"g","messageModel":"CLUSTERING","strategyName":"AVG","topic":"T"}}',
    ),
    (bodies.AssignmentResponse, f'{{"messageQueueAssignments":[{{"messageQueue":{MQ},"mode":"PULL"}}]}}'),
    (bodies.KeyValues, '{"table":{"k":"v"}}'),
    (
        bodies.ConsumeStatsBody,
        f'{{"consumeTps":0.0,"offsetTable":{{{MQ}:{{"brokerOffset":10,"consumerOffset":7,"lastTimestamp":1700000000000,"pullOffset":9}}}}}}',
    ),
    (
        bodies.TopicStats,
        f'{{"offsetTable":{{{MQ}:{{"lastUpdateTimestamp":1700000000000,"maxOffset":10,"minOffset":0}}}},"topicPutTps":0.0}}',
    ),
    (bodies.ResetOffsets, f'{{"offsetTable":{{{MQ}:5}}}}'),
    (bodies.ClientOffsets, f'{{"messageQueueTable":{{{MQ}:5}}}}'),
    (bodies.GroupOffsets, f'{{"consumerTable":{{"clientId":{{{MQ}:5}}}}}}'),
    (heartbeat.CheckClient, f'{{{CLIENT},"group":"g","subscriptionData":{SUBSCRIPTION}}}'),
    (
        heartbeat.Heartbeat,
        f'{{"clientID":"10.0.0.5@1#123","consumerDataSet":[{{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":[{SUBSCRIPTION},{RETRY_SUBSCRIPTION}],"unitMode":false}}],"heartbeatFingerprint":0,"producerDataSet":[{{"groupName":"CLIENT_INNER_PRODUCER"}}],"withoutSub":false}}',
    ),
    (
        heartbeat.ConsumerConnections,
        f'{{"connectionSet":[{{"clientAddr":"10.0.0.5:51000",{CLIENT},"language":"JAVA","version":479}}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{{"TopicTest":{SUBSCRIPTION}}}}}',
    ),
    (
        heartbeat.ProducerConnections,
        f'{{"connectionSet":[{{"clientAddr":"10.0.0.5:51000",{CLIENT},"language":"GO","version":317}}]}}',
    ),
]


@pytest.mark.parametrize("type_, text", BODIES, ids=[type_.__name__ for type_, _ in BODIES])
def test_a_body_is_written_byte_for_byte_as_java_does(type_: type[Any], text: str) -> None:
    assert java_json.dumps(java_json.decode(text, type_)).decode() == text


@pytest.mark.parametrize(
    "text",
    [
        *(text for _, text in BODIES),
        ROUTE,
        STRICT_ROUTE,
        '{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"remark":"…","spentTimeMills":5}',
        '{"acks":[{"b":"CQI=","c":"g","it":60000,"pt":1700000000000,"q":0,"r":"0","rq":3,"so":100,"t":"TopicTest"}],"brokerName":"broker-a"}',
    ],
)
def test_reading_and_writing_without_types_changes_no_byte(text: str) -> None:
    assert java_json.dumps(java_json.parse(text)).decode() == text


def test_a_route_has_its_lenient_form() -> None:
    assert encode_route(decode_route(ROUTE.encode())).decode() == ROUTE


def test_a_route_has_its_strict_form() -> None:
    assert encode_route(decode_route(ROUTE.encode()), strict=True).decode() == STRICT_ROUTE
    assert decode_route(STRICT_ROUTE.encode()) == decode_route(ROUTE.encode())


def test_a_registration_has_its_plain_form() -> None:
    assert (
        encode_registration(decode_registration(REGISTRATION.encode(), version=479), version=479).decode()
        == REGISTRATION
    )


def test_a_registration_has_its_compressed_form() -> None:
    registration = decode_registration(REGISTRATION.encode(), version=479)
    inflated = decompress(encode_registration(registration, compressed=True, version=479), 1)
    version = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
    topic = b"TopicTest 4 4 6 SINGLE_TAG {}"
    assert inflated == b"".join(
        (b"\0\0\0\x38", version, b"\0\0\0\x01", b"\0\0\0\x1d", topic, b"\0\0\0\x02", b"[]", b"\0\0\0\0")
    )


def test_the_list_form_of_a_reset_has_the_offset_beside_the_queue() -> None:
    offsets = bodies.ResetOffsets(offset_table={QueueId("TopicTest", "broker-a", 0): 5})
    expected = b'{"offsetTable":[{"brokerName":"broker-a","offset":5,"queueId":0,"topic":"TopicTest"}]}'
    assert bodies.encode_reset_list(offsets) == expected


def test_an_offset_id_has_its_known_text() -> None:
    assert encode_offset_id(Host.parse("127.0.0.1:10911"), 4096) == "7F00000100002A9F0000000000001000"
    assert decode_offset_id("7F00000100002A9F0000000000001000") == (Host(b"\x7f\0\0\x01", 10911), 4096)


def test_a_signature_has_its_known_text() -> None:
    fields = {"AccessKey": "ak", "topic": "TopicTest"}
    assert sign(fields, None, "sk12345678") == "+6btn2NsgYAznu9MzWzOCoydu/w="
    assert verify({**fields, "Signature": "+6btn2NsgYAznu9MzWzOCoydu/w="}, None, "sk12345678")


@pytest.mark.parametrize(
    "text, value",
    [
        (
            '{ "dataVersion":{"counter":2},\n  "offsetTable":{"orders@g1":{0:120,1:98},"%RETRY%g1@g1":{0:3}}}',
            {"dataVersion": {"counter": 2}, "offsetTable": {"orders@g1": {0: 120, 1: 98}, "%RETRY%g1@g1": {0: 3}}},
        ),
        ('{"offsetTable":{1:10,3:44} }', {"offsetTable": {1: 10, 3: 44}}),
        ('{\n\t"offsetTable":{\n\t\t1:10\n\t}\n}', {"offsetTable": {1: 10}}),
    ],
)
def test_configuration_files_of_java_are_read(text: str, value: Any) -> None:
    assert java_json.parse(text) == value


def test_configuration_files_are_written_as_java_indents_them() -> None:
    table = TopicTableBody(topic_config_table={"orders": TopicConfig(topic_name="orders", read_queue_nums=4)})
    lines = java_json.dumps_pretty(table).decode().splitlines()
    assert lines[:2] == ["{", '\t"dataVersion":{']
    assert '\t\t"orders":{' in lines
    assert '\t\t\t"attributes":{},' in lines


def test_damaged_bodies_give_a_value_or_a_typed_error() -> None:
    seed = 1_234_567
    print(f"seed={seed}")
    rng = random.Random(seed)
    alphabet = b'{}[]:,"\\-.0159eE \x00\xff'
    for case in range(20_000):
        type_, text = BODIES[case % len(BODIES)]
        damaged = bytearray(text.encode())
        for _ in range(rng.randrange(1, 4)):
            spot = rng.randrange(len(damaged))
            damaged[spot : spot + rng.randrange(3)] = rng.choices(alphabet, k=rng.randrange(3))
        for read in (heartbeat.decode_heartbeat, decode_route, lambda data, type_=type_: bodies.decode(data, type_)):
            with suppress(RemoteProtocolError):
                read(bytes(damaged))
