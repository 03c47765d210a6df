from __future__ import annotations

import msgspec
import pytest

from pyromq.errors import RemoteProtocolError
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.wire.json.route import (
    ClusterInfo,
    TopicList,
    decode_cluster,
    decode_route,
    decode_topics,
    encode_cluster,
    encode_route,
    encode_topics,
    wants_strict_json,
)

ROUTE = TopicRoute(
    broker_datas=(
        BrokerData(cluster="c", broker_name="a", broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}),
        BrokerData(cluster="c", broker_name="b", broker_addrs={0: "10.0.0.3:10911"}, zone_name="zöne/1"),
    ),
    queue_datas=(
        QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=6),
        QueueData(broker_name="b", read_queue_nums=8, write_queue_nums=2, perm=4, topic_sys_flag=1),
    ),
    order_topic_conf="a:4",
)


@pytest.mark.parametrize("strict", [False, True])
def test_a_route_reads_back_from_either_form(strict: bool) -> None:
    assert decode_route(encode_route(ROUTE, strict=strict)) == ROUTE


def test_the_lenient_form_has_bare_broker_ids_and_no_space() -> None:
    body = encode_route(ROUTE)
    assert b'"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"}' in body
    assert b" " not in body


def test_the_strict_form_is_ordinary_json_in_ascii_and_no_space() -> None:
    body = encode_route(ROUTE, strict=True)
    assert b'"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"}' in body
    assert rb'"zoneName":"z\u00F6ne\/1"' in body
    assert body.isascii() and b" " not in body
    msgspec.json.decode(body)


@pytest.mark.parametrize(
    "version, asked, strict",
    [(317, False, False), (400, False, False), (400, True, True), (401, False, True), (479, True, True)],
)
def test_the_form_depends_on_version_and_wish(version: int, asked: bool, strict: bool) -> None:
    assert wants_strict_json(version, asked) is strict


def test_a_broker_without_address_is_left_out_because_go_would_panic() -> None:
    dead = BrokerData(cluster="c", broker_name="a", broker_addrs={})
    route = msgspec.structs.replace(ROUTE, broker_datas=(dead, ROUTE.broker_datas[1]))
    sent = decode_route(encode_route(route))
    assert [broker.broker_name for broker in sent.broker_datas] == ["b"]
    assert [queue.broker_name for queue in sent.queue_datas] == ["b"]


@pytest.mark.parametrize(
    "flags, expected", [('"topicSynFlag":2', 2), ('"topicSynFlag":2,"topicSysFlag":1', 1), ('"x":0', 0)]
)
def test_the_flag_is_understood_under_its_old_name(flags: str, expected: int) -> None:
    body = f'{{"queueDatas":[{{"brokerName":"a","perm":6,"readQueueNums":4,{flags},"writeQueueNums":4}}]}}'
    assert decode_route(body.encode()).queue_datas[0].topic_sys_flag == expected


def test_unknown_and_absent_fields_are_tolerated() -> None:
    body = b'{"brokerDatas":[{"brokerAddrs":{0:"x"},"brokerName":"a","cluster":"c"}],"queueDatas":[],"new":{1:2}}'
    route = decode_route(body)
    assert route.broker_datas[0].enable_acting_master is False
    assert route.order_topic_conf is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"brokerDatas":5}',
        b'{"queueDatas":[5]}',
        b'{"queueDatas":[{}]}',
        b'{"brokerDatas":[{"brokerAddrs":{"x":"y"},"brokerName":"a","cluster":"c"}]}',
    ],
)
def test_a_route_of_another_shape_is_a_typed_error(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_route(body)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{0:", b"\xff"])
def test_other_bodies_are_typed_errors(body: bytes) -> None:
    for decode in (decode_route, decode_cluster, decode_topics):
        with pytest.raises(RemoteProtocolError):
            decode(body)


def test_a_cluster_reads_back() -> None:
    cluster = ClusterInfo(
        broker_addr_table={broker.broker_name: broker for broker in ROUTE.broker_datas},
        cluster_addr_table={"c": ["a", "b"]},
    )
    assert decode_cluster(encode_cluster(cluster)) == cluster


def test_a_topic_list_reads_back_with_and_without_address() -> None:
    for topics in (TopicList(topic_list=["t", "主题"]), TopicList(topic_list=[], broker_addr="10.0.0.1:10911")):
        assert decode_topics(encode_topics(topics)) == topics
    assert encode_topics(TopicList()) == b'{"topicList":[]}'
