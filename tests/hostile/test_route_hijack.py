"""Somebody registers under the name of a broker: the broker notices, says so and takes its name back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.model.topic import DataVersion, TopicConfig
from pyromq.wire.codes import VERSION, RequestCode
from pyromq.wire.json.registration import BrokerRegistration, RegisteredTopics, encode_registration
from pyromq.wire.json.route import decode_route
from tests.hostile.rig import Peer, Victim, beside_honest_client, count, victim

pytestmark = pytest.mark.integration

THIEF = "127.0.0.1:6666"
SOON = {"PYROMQ_BROKER_REGISTER_INTERVAL_MS": "1000"}


async def holder(peer: Peer) -> str | None:
    response = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "broker-a"})
    broker = decode_route(response.body).broker("broker-a")
    return broker.master_addr if broker else None


async def take_the_name(server: Victim, peer: Peer, state_version: int) -> None:
    topics = {name: TopicConfig(topic_name=name) for name in ("honest", "other")}
    table = RegisteredTopics(data_version=DataVersion(state_version=state_version), topic_config_table=topics)
    header = {
        "brokerName": "broker-a", "brokerAddr": THIEF, "clusterName": "DefaultCluster", "haServerAddr": "",
        "brokerId": "0", "compressed": "false", "bodyCrc32": "0",
    }  # fmt: skip
    body = encode_registration(BrokerRegistration(topics=table), version=VERSION)
    response = await peer.ask(RequestCode.REGISTER_BROKER, header, body)
    assert response.code == 0, response.remark
    assert await holder(peer) == THIEF


async def test_a_broker_wins_its_name_back(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    times = count(2, 10)
    async with victim(tmp_path, environment=SOON) as server:
        name = "another address under the broker's name"
        async with beside_honest_client(server, name, times, record_property), Peer(server.nameserver) as peer:
            assert await holder(peer) == server.broker
            for _ in range(times):
                await take_the_name(server, peer, (1 << 63) - 1)
                for _ in range(400):
                    if await holder(peer) == server.broker:
                        break
                    await asyncio.sleep(0.05)
                assert await holder(peer) == server.broker
        assert server.log.count("another process is registered under the name of this broker") == times
        async with Peer(server.broker) as peer:
            told = (await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body.decode()
        assert f'"nameTaken":"{times}"' in told and THIEF in told
