"""Requests in, answers out: bytes as clients of every kind need them, and a clear refusal of everything else."""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pyromq.nameserver.kv_config import ORDER_NAMESPACE, KvConfig
from pyromq.nameserver.route_table import RouteTable
from pyromq.nameserver.service import NameServerService
from pyromq.nameserver.settings import NameServerLimits, NameServerSettings
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.command import Command
from pyromq.wire.frame import SerializeType
from pyromq.wire.header_errors import HeaderFieldError
from pyromq.wire.json.registration import body_checksum
from pyromq.wire.json.route import decode_cluster, decode_route, decode_topics
from tests.unit.nameserver.builders import (
    A,
    B,
    answer_of,
    member,
    register_body,
    register_ext,
    request,
)

GO, JAVA_4_9_4, JAVA_5_3_3 = 317, 401, 479


class Asking:
    """A service and the shortest way to ask it."""

    def __init__(self, settings: NameServerSettings | None = None, kv: KvConfig | None = None) -> None:
        self.clock = ManualClock()
        self.service = NameServerService(settings or NameServerSettings(), clock=self.clock, kv=kv)

    def __call__(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", *, over: str = "c", **how: Any
    ) -> Command:
        try:
            return answer_of(self.service.handle(request(code, ext, body, **how), over))
        except HeaderFieldError as error:
            return answer_of(self.service.refuse_header(error))

    def register(self, *names: str, who: Any = None, over: str = "c", **ext: str) -> Command:
        response = self(Code.REGISTER_BROKER, register_ext(who, **ext), register_body(*names), over=over)
        assert response.code == 0, response.remark
        return response

    def route(self, topic: str = "T1", **how: Any) -> Command:
        return self(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, **how)


@pytest.fixture
def ask() -> Asking:
    return Asking()


# --- routes --------------------------------------------------------------------------------------------------------


def test_an_old_client_gets_bare_keys_in_a_compact_text(ask: Asking) -> None:
    ask.register()
    ask.register(who=member(broker_id=1, address=B))
    assert ask.route(peer_version=GO).body == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a",'
        b'"cluster":"c1","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a",'
        b'"perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


@pytest.mark.parametrize("how", [{"peer_version": JAVA_4_9_4}, {"peer_version": JAVA_5_3_3}])
def test_a_new_client_gets_strict_json(ask: Asking, how: dict[str, Any]) -> None:
    ask.register()
    assert ask.route(**how).body == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"broker-a",'
        b'"cluster":"c1","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a",'
        b'"perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


def test_an_old_client_may_ask_for_strict_json(ask: Asking) -> None:
    ask.register()
    ext = {"topic": "T1", "acceptStandardJsonOnly": "true"}
    response = ask(Code.GET_ROUTEINFO_BY_TOPIC, ext, peer_version=GO)
    assert msgspec.json.decode(response.body)["brokerDatas"][0]["brokerAddrs"] == {"0": A}


def test_go_can_cut_broker_addresses_out_of_the_text(ask: Asking) -> None:
    ask.register()
    ask.register(who=member(broker_id=1, address=B))
    text = ask.route(peer_version=GO).body.decode()
    inner = text[text.index('"brokerAddrs":{') + len('"brokerAddrs":{') :]
    pairs = [piece.split(":", 1) for piece in inner[: inner.index("}")].split(",")]
    assert {int(key.strip('"')): value.strip('"') for key, value in pairs} == {0: A, 1: B}


def test_a_topic_that_no_broker_has_is_code_17(ask: Asking) -> None:
    ask.register()
    response = ask.route("nowhere")
    assert (response.code, response.body) == (17, b"") and "'nowhere'" in (response.remark or "")


def test_a_remark_does_not_repeat_an_endless_name(ask: Asking) -> None:
    assert len(ask.route("x" * 10_000).remark or "") < 300


def test_routes_are_encoded_once_until_something_changes(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    original = RouteTable.route

    def counting(self: RouteTable, topic: str, **how: Any) -> Any:
        asked.append(topic)
        return original(self, topic, **how)

    monkeypatch.setattr(RouteTable, "route", counting)
    ask.register()
    for _ in range(3):
        ask.route()
        ask.route(peer_version=GO)
        ask.register()  # says the same again
    assert asked == ["T1", "T1"]
    ask.register(who=member("broker-b", address=B), over="b")
    assert len(decode_route(ask.route().body).broker_datas) == 2
    ask.service.drop_connection("b")
    assert len(decode_route(ask.route().body).broker_datas) == 1


def test_the_cache_of_routes_is_bounded() -> None:
    ask = Asking(NameServerSettings(limits=NameServerLimits(routes_cached_max=1)))
    ask.register()
    assert ask.route("T1").code == ask.route("T2").code == 0
    assert len(ask.service._state.routes._kept) == 1


def test_a_binary_request_gets_a_binary_response(ask: Asking) -> None:
    ask.register()
    response = ask.route(serialize_type=SerializeType.ROCKETMQ)
    assert (response.code, response.serialize_type, response.correlation_id) == (0, SerializeType.ROCKETMQ, 7)


def test_a_client_may_stay_within_its_zone(ask: Asking) -> None:
    ask.register(who=member("a"), __ZONE_NAME="east")
    ask.register(who=member("b", address=B), __ZONE_NAME="west")
    zone = {"topic": "T1", "__ZONE_MODE": "true", "__ZONE_NAME": "East"}
    route = decode_route(ask(Code.GET_ROUTEINFO_BY_TOPIC, zone).body)
    assert [broker.broker_name for broker in route.broker_datas] == ["a"]
    assert [data.broker_name for data in route.queue_datas] == ["a"]
    off = {**zone, "__ZONE_MODE": "false"}
    assert len(decode_route(ask(Code.GET_ROUTEINFO_BY_TOPIC, off).body).broker_datas) == 2


def test_ordered_topics_come_with_the_route_when_switched_on(ask: Asking) -> None:
    ask.register()
    ask(Code.PUT_KV_CONFIG, {"namespace": ORDER_NAMESPACE, "key": "T1", "value": "broker-a:4"})
    assert decode_route(ask.route().body).order_topic_conf is None
    ask(Code.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
    assert decode_route(ask.route().body).order_topic_conf == "broker-a:4"
    ask(Code.PUT_KV_CONFIG, {"namespace": ORDER_NAMESPACE, "key": "T1", "value": "broker-a:8"})
    assert decode_route(ask.route().body).order_topic_conf == "broker-a:8"


def test_routes_wait_for_brokers_when_switched_on() -> None:
    ask = Asking(NameServerSettings(wait_for_service=True, wait_seconds_for_service=45))
    ask.register()
    assert ask.route().code == ResponseCode.SYSTEM_ERROR
    ask.clock.advance_ms(45_000)
    assert ask.route().code == 0


# --- registration --------------------------------------------------------------------------------------------------


def test_a_master_is_answered_without_fields_and_body(ask: Asking) -> None:
    response = ask.register()
    assert (response.ext, response.body) == ({}, b"")


def test_a_replica_is_told_its_master_and_every_broker_the_ordered_topics(ask: Asking) -> None:
    ask(Code.PUT_KV_CONFIG, {"namespace": ORDER_NAMESPACE, "key": "T1", "value": "broker-a:4"})
    ask.register()
    response = ask.register(who=member(broker_id=1, address=B))
    assert response.ext == {"masterAddr": A, "haServerAddr": "10.0.0.1:10912"}
    assert response.body == b'{"table":{"T1":"broker-a:4"}}'
    ask(Code.UPDATE_NAMESRV_CONFIG, body=b"returnOrderTopicConfigToBroker=false")
    assert ask.register().body == b""


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("peer_version", [36, 399, 413, 479])
def test_every_form_of_registration_is_understood(ask: Asking, compressed: bool, peer_version: int) -> None:
    body = register_body(compressed=compressed, peer_version=peer_version)
    ext = register_ext(compressed=str(compressed).lower(), bodyCrc32=str(body_checksum(body)))
    assert ask(Code.REGISTER_BROKER, ext, body, peer_version=peer_version).code == 0
    assert ask.route("T2").code == 0


def test_a_registration_without_body_has_no_topics(ask: Asking) -> None:
    assert ask(Code.REGISTER_BROKER, register_ext()).code == 0
    assert decode_cluster(ask(Code.GET_BROKER_CLUSTER_INFO).body).cluster_addr_table == {"c1": ["broker-a"]}


def test_a_checksum_that_does_not_match_is_refused(ask: Asking) -> None:
    response = ask(Code.REGISTER_BROKER, register_ext(bodyCrc32="5"), register_body())
    assert response.code == 1 and "checksum" in (response.remark or "")
    assert ask.route().code == 17


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T1":{}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T1":{"topicName":"T1","perm":"x"}}}}',
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("compressed", ["true", "false"])
def test_a_malformed_registration_is_refused_with_code_1(ask: Asking, body: bytes, compressed: str) -> None:
    response = ask(Code.REGISTER_BROKER, register_ext(compressed=compressed), body)
    assert response.code == 1 and response.remark
    assert ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body == b'{"topicList":[]}'


def test_every_cut_of_a_compressed_registration_is_refused(ask: Asking) -> None:
    body = register_body(compressed=True)
    for size in range(1, len(body) - 4):  # the last four bytes are a checksum that zlib asks for at the end only
        assert ask(Code.REGISTER_BROKER, register_ext(compressed="true"), body[:size]).code == 1


def test_large_registrations_are_refused_before_they_are_read() -> None:
    ask = Asking(NameServerSettings(limits=NameServerLimits(registration_bytes_max=400, inflated_bytes_max=2_000)))
    names = [f"T{number}" for number in range(100)]
    plain = ask(Code.REGISTER_BROKER, register_ext(), register_body(*names))
    assert plain.code == 1 and "400" in (plain.remark or "")
    packed = ask(Code.REGISTER_BROKER, register_ext(compressed="true"), register_body(*names, compressed=True))
    assert packed.code == 1 and packed.remark


def test_a_first_registration_with_one_topic_is_refused(ask: Asking) -> None:
    assert ask(Code.REGISTER_BROKER, register_ext(), register_body("T1")).code == 1


def test_an_outranked_broker_is_answered_with_success(ask: Asking, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    body = register_body().replace(b'"stateVersion":0', b'"stateVersion":3')
    assert ask(Code.REGISTER_BROKER, register_ext(), body).code == 0
    ask.register(who=member(address=B))
    assert decode_route(ask.route().body).broker_datas[0].broker_addrs == {0: A}


def test_a_broker_says_goodbye(ask: Asking) -> None:
    ask.register()
    assert ask(Code.UNREGISTER_BROKER, register_ext()).code == 0
    assert ask.route().code == 17
    assert ask(Code.UNREGISTER_BROKER, register_ext()).code == 0


def test_a_lost_connection_and_silence_take_brokers_away(ask: Asking) -> None:
    ask.register(over="one")
    ask.register(who=member("broker-b", address=B), over="two")
    assert [each.broker for each in ask.service.drop_connection("one")] == ["broker-a"]
    ask.clock.advance_ms(120_001)
    assert [each.connection for each in ask.service.drop_silent()] == ["two"]
    assert ask.route().code == 17


def test_a_broker_asks_whether_its_version_is_known(ask: Asking) -> None:
    unknown = ask(Code.QUERY_DATA_VERSION, register_ext(), b"{}")
    assert (unknown.ext, unknown.body) == ({"changed": "true"}, b"")
    ask.register()
    known = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
    same = ask(Code.QUERY_DATA_VERSION, register_ext(), known)
    assert (same.ext, same.body) == ({"changed": "false"}, known)
    assert ask(Code.QUERY_DATA_VERSION, register_ext(), b"nonsense").code == 1


def test_a_heartbeat_is_oneway_and_keeps_the_broker(ask: Asking) -> None:
    ask.register()
    ask.clock.advance_ms(100_000)
    heartbeat = request(Code.BROKER_HEARTBEAT, register_ext(), oneway=True)
    assert ask.service.handle(heartbeat, "c") is None
    ask.clock.advance_ms(100_000)
    assert ask.service.drop_silent() == []


def test_a_topic_is_added_to_known_brokers(ask: Asking) -> None:
    ask.register()
    body = b'{"queueDatas":[{"brokerName":"%s","readQueueNums":2,"writeQueueNums":2,"perm":6}]}'
    assert ask(Code.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T3"}, body % b"broker-a").code == 0
    assert ask(Code.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T4"}, body % b"broker-z").code == 0
    assert ask(Code.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T5"}).code == 0
    assert ask(Code.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T6"}, b"x").code == 1
    assert decode_topics(ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body).topic_list == ["T1", "T2", "T3"]


def test_members_of_a_broker_are_told_with_bare_keys(ask: Asking) -> None:
    ask.register()
    ext = {"clusterName": "c1", "brokerName": "broker-a"}
    assert ask(Code.GET_BROKER_MEMBER_GROUP, ext).body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"c1"}}'
    )
    assert b'"brokerAddrs":{}' in ask(Code.GET_BROKER_MEMBER_GROUP, {**ext, "brokerName": "z"}).body


# --- lists ---------------------------------------------------------------------------------------------------------


def test_cluster_info_is_always_in_the_lenient_form(ask: Asking) -> None:
    ask.register()
    assert ask(Code.GET_BROKER_CLUSTER_INFO).body == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"c1",'
        b'"enableActingMaster":false}},"clusterAddrTable":{"c1":["broker-a"]}}'
    )


@pytest.mark.parametrize(
    ("code", "ext", "body"),
    [
        (Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, b'{"topicList":["T1","T2"]}'),
        (Code.GET_TOPICS_BY_CLUSTER, {"cluster": "c1"}, b'{"topicList":["T1","T2"]}'),
        (Code.GET_TOPICS_BY_CLUSTER, {"cluster": "c9"}, b'{"topicList":[]}'),
        (Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, {}, b'{"brokerAddr":"10.0.0.1:10911","topicList":["broker-a","c1"]}'),
        (Code.GET_UNIT_TOPIC_LIST, {}, b'{"topicList":[]}'),
        (Code.GET_HAS_UNIT_SUB_TOPIC_LIST, {}, b'{"topicList":[]}'),
        (Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, {}, b'{"topicList":[]}'),
    ],
)
def test_topics_are_listed(ask: Asking, code: Code, ext: dict[str, str], body: bytes) -> None:
    ask.register()
    assert ask(code, ext).body == body


def test_lists_may_be_switched_off(ask: Asking) -> None:
    ask(Code.UPDATE_NAMESRV_CONFIG, body=b"enableAllTopicList=false\nenableTopicList=false\n")
    assert ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).code == 1
    assert ask(Code.GET_UNIT_TOPIC_LIST).code == 1


# --- administration ------------------------------------------------------------------------------------------------


def test_write_permission_is_counted_in_the_answer(ask: Asking) -> None:
    ask.register()
    assert ask(Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}).ext == {"wipeTopicCount": "2"}
    assert decode_route(ask.route().body).queue_datas[0].perm == 4
    assert ask(Code.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}).ext == {"addTopicCount": "2"}
    assert ask(Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "z"}).ext == {"wipeTopicCount": "0"}


def test_a_topic_is_deleted(ask: Asking) -> None:
    ask.register()
    assert ask(Code.DELETE_TOPIC_IN_NAMESRV, {"topic": "T1", "clusterName": "c9"}).code == 0
    assert ask.route().code == 0
    assert ask(Code.DELETE_TOPIC_IN_NAMESRV, {"topic": "T1"}).code == 0
    assert ask.route().code == 17


def test_key_values_are_kept_listed_and_deleted(ask: Asking) -> None:
    place = {"namespace": "n", "key": "k"}
    assert ask(Code.GET_KV_CONFIG, place).code == 22
    assert ask(Code.GET_KVLIST_BY_NAMESPACE, place).code == 22
    assert ask(Code.PUT_KV_CONFIG, {**place, "value": "v"}).code == 0
    assert ask(Code.GET_KV_CONFIG, place).ext == {"value": "v"}
    assert ask(Code.GET_KVLIST_BY_NAMESPACE, place).body == b'{"table":{"k":"v"}}'
    assert ask(Code.DELETE_KV_CONFIG, place).code == ask(Code.DELETE_KV_CONFIG, place).code == 0
    assert ask(Code.GET_KV_CONFIG, place).code == 22


def test_changes_of_the_configuration_are_logged_with_the_client(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    ask, place = Asking(), {"namespace": "n", "key": "k"}
    for value in ("v", "v", "w"):
        ask(Code.PUT_KV_CONFIG, {**place, "value": value}, over="10.0.0.9:5")
    for _ in range(2):
        ask(Code.DELETE_KV_CONFIG, place, over="10.0.0.9:6")
    told = [line for line in caplog.messages if line.startswith("configuration")]
    assert told == [
        "configuration set: namespace='n' key='k' characters=1 client=10.0.0.9:5",
        "configuration set: namespace='n' key='k' characters=1 client=10.0.0.9:5",
        "configuration deleted: namespace='n' key='k' client=10.0.0.9:6",
    ]


def test_settings_are_shown_and_changed(ask: Asking) -> None:
    assert b"scanNotActiveBrokerInterval=5000\n" in ask(Code.GET_NAMESRV_CONFIG).body
    assert ask(Code.UPDATE_NAMESRV_CONFIG, body=b"scanNotActiveBrokerInterval=1000\n").code == 0
    assert b"scanNotActiveBrokerInterval=1000\n" in ask(Code.GET_NAMESRV_CONFIG).body
    assert ask.service.settings.scan_interval_ms == 1000


@pytest.mark.parametrize("key", ["kvConfigPath", "configStorePath", "configBlackList", "listenPort", "bindAddress"])
def test_a_protected_setting_is_code_16(ask: Asking, key: str) -> None:
    response = ask(Code.UPDATE_NAMESRV_CONFIG, body=f"enableTopicList=false\n{key}=1\n".encode())
    assert response.code == 16 and key in (response.remark or "")
    assert ask.service.settings.topic_list_enable, "nothing of it counts"


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE, Code.HEART_BEAT, 9999])
def test_an_unknown_request_is_code_3_with_rocketmqs_words(ask: Asking, code: int) -> None:
    response = ask(code)
    assert (response.code, response.remark) == (3, f" request type {int(code)} not supported")


@pytest.mark.parametrize(
    ("code", "ext"),
    [
        (Code.GET_ROUTEINFO_BY_TOPIC, {}),
        (Code.REGISTER_BROKER, {"brokerName": "a"}),
        (Code.REGISTER_BROKER, register_ext() | {"brokerId": "x"}),
        (Code.PUT_KV_CONFIG, {"namespace": "n", "key": "k"}),
        (Code.PUT_KV_CONFIG, {"namespace": "", "key": "k", "value": "v"}),
        (Code.GET_TOPICS_BY_CLUSTER, {}),
    ],
)
def test_missing_and_senseless_fields_are_code_1(ask: Asking, code: Code, ext: dict[str, str]) -> None:
    response = ask(code, ext)
    assert response.code == 1 and response.remark


def test_a_bad_header_of_a_oneway_request_is_not_answered(ask: Asking) -> None:
    with pytest.raises(HeaderFieldError) as raised:
        request(Code.BROKER_HEARTBEAT, {}, oneway=True)
    assert ask.service.refuse_header(raised.value) is None


def test_a_oneway_request_that_fails_is_not_answered(ask: Asking) -> None:
    assert ask.service.handle(request(9999, oneway=True), "c") is None
    assert ask.service.handle(request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "x"}, oneway=True), "c") is None


def test_an_answer_too_large_for_a_frame_becomes_a_refusal(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.nameserver.lookup_requests.encode_topics", lambda _: bytes(17_000_000))
    response = ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert response.code == 1 and response.remark


def test_a_mistake_of_ours_is_answered_and_logged(
    ask: Asking, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("secret detail")

    monkeypatch.setattr(RouteTable, "cluster_info", broken)
    response = ask(Code.GET_BROKER_CLUSTER_INFO)
    assert (response.code, response.remark) == (1, "internal error of the name server")
    assert "request failed: code=106" in caplog.text


def test_large_bodies_of_small_requests_are_refused() -> None:
    ask = Asking(NameServerSettings(limits=NameServerLimits(small_body_bytes_max=10)))
    for code, ext in ((Code.QUERY_DATA_VERSION, register_ext()), (Code.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T"})):
        assert ask(code, ext, b" " * 11).code == 1


# --- one bad entry never takes the rest with it ----------------------------------------------------------------------

GOOD = '"{0}":{{"topicName":"{0}","readQueueNums":4,"writeQueueNums":4,"perm":6}}'


def plain(*entries: str, rest: str = "") -> bytes:
    version = '"dataVersion":{"counter":1}'
    return f'{{"topicConfigSerializeWrapper":{{{version},"topicConfigTable":{{{",".join(entries)}}}{rest}}}}}'.encode()


@pytest.mark.parametrize(
    "bad",
    [
        '"bad":{"topicName":"bad","readQueueNums":1000000}',
        '"bad":{"topicName":"bad","readQueueNums":"many"}',
        '"bad":{"topicName":"bad","perm":99999999999999999999999}',
        '"bad":{"topicName":"bad","topicFilterType":"ODD"}',
        '"bad":{"topicName":"bad","attributes":[1]}',
        '"bad":{}',
        '"bad":7',
        '"bad":{"topicName":"\\u0007"}',
    ],
)
@pytest.mark.parametrize("rest", ["", ',"topicQueueMappingInfoMap":{"s":{"currIdMap":{0:0}}}'])
def test_a_topic_that_cannot_be_taken_is_left_out(
    ask: Asking, bad: str, rest: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = plain(GOOD.format("T1"), bad, GOOD.format("T2"), rest=rest)
    for _ in range(3):
        response = ask(Code.REGISTER_BROKER, register_ext(), body)
        assert response.code == 0 and "topics left out, the others are registered: 1" in (response.remark or "")
    assert ask.route("T1").code == ask.route("T2").code == 0
    assert ask.route("bad").code == ResponseCode.TOPIC_NOT_EXIST
    assert caplog.text.count("topics left out") == 1, "it is logged when it begins, not with every registration"


def test_an_unreadable_topic_of_a_compressed_registration_is_left_out(ask: Asking) -> None:
    lines = [b"T1 4 4 6 SINGLE_TAG {}", b"bad x 4 6 SINGLE_TAG {}", b"T2 4 4 6 SINGLE_TAG"]
    blocks = [b"{}", *lines, b"[]"]
    framed = [struct.pack(">i", len(block)) + block for block in blocks]
    framed.insert(1, struct.pack(">i", len(lines)))
    body = zlib.compress(b"".join(framed))
    response = ask(Code.REGISTER_BROKER, register_ext(compressed="true"), body, peer_version=317)
    assert response.code == 0 and "'bad'" in (response.remark or "")
    assert ask.route("T1").code == ask.route("T2").code == 0


def test_text_that_needs_the_slow_parser_is_bounded(ask: Asking) -> None:
    entries = [GOOD.format(f"T{number}") for number in range(5_000)]
    response = ask(Code.REGISTER_BROKER, register_ext(), plain(*entries, rest=',"odd":{0:0}'))
    assert response.code == 1 and "at most 131072 are allowed" in (response.remark or "")
    assert ask(Code.REGISTER_BROKER, register_ext(), plain(*entries)).code == 0
