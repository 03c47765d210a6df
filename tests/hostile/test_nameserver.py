"""A name server under requests that are as large as it allows, or larger: others are served all the while."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.model.topic import DataVersion, TopicConfig
from pyromq.wire.codes import VERSION, RequestCode
from pyromq.wire.json.registration import BrokerRegistration, RegisteredTopics, encode_registration
from tests.hostile.rig import Peer, beside_honest_client, count, victim

pytestmark = pytest.mark.integration

Record = Callable[[str, object], None]


def header(broker: str = "big", *, compressed: bool = False) -> dict[str, str]:
    return {
        "brokerName": broker, "brokerAddr": "127.0.0.1:7777", "clusterName": "other", "haServerAddr": "",
        "brokerId": "0", "compressed": str(compressed).lower(), "bodyCrc32": "0",
    }  # fmt: skip


def table(names: list[str], version: int, *, compressed: bool = False) -> bytes:
    topics = {name: TopicConfig(topic_name=name) for name in names}
    registered = RegisteredTopics(data_version=DataVersion(counter=version), topic_config_table=topics)
    return encode_registration(BrokerRegistration(topics=registered), version=VERSION, compressed=compressed)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
async def test_the_largest_registrations(compressed: bool, tmp_path: Path, record_property: Record) -> None:
    rounds = count(3, 20)
    names = [f"topic-{number:06d}" for number in range(20_000)]
    async with victim(tmp_path) as server:
        name = f"registrations of 20,000 topics ({'compressed' if compressed else 'plain'})"
        async with beside_honest_client(server, name, rounds, record_property), Peer(server.nameserver) as peer:
            for number in range(rounds):
                body = table(names, number, compressed=compressed)
                response = await peer.ask(RequestCode.REGISTER_BROKER, header(compressed=compressed), body)
                assert response.code == 0, response.remark
            for code in (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, RequestCode.GET_UNIT_TOPIC_LIST):
                assert (await peer.ask(code)).code == 0
            for code in (RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER):
                assert (await peer.ask(code, {"brokerName": "big"})).code == 0
            too_many = table([*names, "one-more"], 99, compressed=compressed)
            refused = await peer.ask(RequestCode.REGISTER_BROKER, header(compressed=compressed), too_many)
            assert refused.code == 1 and "in parts" in (refused.remark or "")
        assert "event loop stalled" not in server.log


async def test_one_bad_topic_leaves_the_others_their_routes(tmp_path: Path, record_property: Record) -> None:
    tries = count(20, 200)
    topics = {
        "good": {"topicName": "good"},
        "many": {"topicName": "many", "readQueueNums": 1_000_000},
        "fat": {"topicName": "fat", "attributes": {"a": "x" * 3_000_000}},
        "odd": {"topicName": "odd", "perm": "none"},
        "bell\a": {"topicName": "bell\a"},
    }
    body = json.dumps({"topicConfigSerializeWrapper": {"topicConfigTable": topics}}).encode()
    async with victim(tmp_path) as server:
        name = "registrations with bad topics among good ones"
        async with beside_honest_client(server, name, tries, record_property), Peer(server.nameserver) as peer:
            for _ in range(tries):
                response = await peer.ask(RequestCode.REGISTER_BROKER, header(), body)
                assert response.code == 0 and "topics left out, the others are registered: 3" in (response.remark or "")
            assert (await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "good"})).code == 0
        assert server.log.count("topics left out") == 1
        assert "\a" not in server.log and "event loop stalled" not in server.log


async def test_rows_of_requests_and_fields(tmp_path: Path, record_property: Record) -> None:
    rows = count(2_000, 20_000)
    many_fields = {f"f{number:06d}": "x" for number in range(60_000)}
    async with victim(tmp_path) as server:
        async with beside_honest_client(server, "config reads in a row", rows, record_property):
            async with Peer(server.nameserver) as peer:
                for _ in range(rows):
                    peer.send(RequestCode.GET_NAMESRV_CONFIG)
                for number in range(1, rows + 1):
                    response = await peer.receive()
                    assert (response.code, response.correlation_id) == (0, number)
            async with Peer(server.nameserver) as peer:
                for _ in range(count(10, 100)):
                    assert (await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, many_fields)).code == 1
                odd = b'{"topicConfigSerializeWrapper":{0:[' + b"1," * 2_000_000 + b"1]}}"
                assert (await peer.ask(RequestCode.REGISTER_BROKER, header(), odd)).code == 1
                small = b"{0:[" + b"1," * 500_000 + b"1]}"
                assert (await peer.ask(RequestCode.QUERY_DATA_VERSION, header(), small)).code == 1
        assert "event loop stalled" not in server.log
