"""One request must not stop the others: what a request may name is bounded, and long responses are made in steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.model.topic import TopicConfig
from pyromq.store.files.disk import RealDisk
from pyromq.store.tables.topics import TopicTable
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.codes import ResponseCode
from pyromq.wire.properties import encode_properties
from tests.hostile.every_request import request_of
from tests.hostile.rig import Peer, beside_honest_client, count, no_stall, victim

pytestmark = pytest.mark.integration
Record = Callable[[str, object], None]
INVALID, BUSY = int(ResponseCode.INVALID_PARAMETER), int(ResponseCode.SYSTEM_BUSY)
QUEUES = 65_536


def heartbeat(groups: int) -> bytes:
    subscriptions = [{"topic": "honest", "subString": "*"}]
    consumers = [{"groupName": f"group-{n}", "subscriptionDataSet": subscriptions} for n in range(groups)]
    return json.dumps({"clientID": "c1", "consumerDataSet": consumers}).encode()


async def test_a_heartbeat_names_only_so_many_groups(tmp_path: Path, record_property: Record) -> None:
    rounds = count(2, 20)
    large, many, allowed = heartbeat(100_000), heartbeat(5_000), heartbeat(1_000)
    async with victim(tmp_path) as server:
        name = "heartbeats with 100 000, 5 000 and 1 000 groups"
        async with beside_honest_client(server, name, 3 * rounds, record_property), Peer(server.broker) as peer:
            for _ in range(rounds):
                for body in (large, many):
                    response = await peer.ask(Code.HEART_BEAT, body=body)
                    assert response.code == INVALID, response.remark
                number = peer.send(Code.HEART_BEAT, body=allowed)
                while not (response := await peer.receive()).is_response:
                    pass  # a notice to a member of one of the groups
                assert (response.correlation_id, response.code) == (number, 0), response.remark
                assert (await peer.ask(Code.UNREGISTER_CLIENT, {"clientID": "c1"})).code == 0
        await no_stall(server)


async def test_a_list_of_topics_is_saved_once(tmp_path: Path, record_property: Record) -> None:
    topics = count(1_000, 3_000)
    configs = [{"topicName": f"topic-{n}", "readQueueNums": 1, "writeQueueNums": 1} for n in range(topics)]
    body = json.dumps({"topicConfigList": configs}).encode()
    async with victim(tmp_path) as server:
        name = "a list of topics to create"
        async with beside_honest_client(server, name, topics, record_property), Peer(server.broker) as peer:
            response = await peer.ask(Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, body)
            assert response.code == 0, response.remark
            for _ in range(count(3, 20)):
                told = await peer.ask(Code.GET_ALL_TOPIC_CONFIG)
                assert len(json.loads(told.body)["topicConfigTable"]) >= topics
        await no_stall(server)


async def test_a_topic_beside_very_many_others_is_created_in_steps(tmp_path: Path, record_property: Record) -> None:
    topics, created = count(20_000, 60_000), count(5, 50)
    table = TopicTable.load(RealDisk(), tmp_path / "data")
    for number in range(topics):
        table.put(TopicConfig(topic_name=f"topic-{number}", read_queue_nums=1, write_queue_nums=1), 1)
    table.save()
    async with victim(tmp_path) as server:
        name = f"topics created beside {topics:,} others"
        async with beside_honest_client(server, name, created, record_property), Peer(server.broker) as peer:
            for number in range(created):
                fields, body = request_of(Code.UPDATE_AND_CREATE_TOPIC, f"new-{number}", "readers")
                response = await peer.ask(Code.UPDATE_AND_CREATE_TOPIC, fields, body)
                assert response.code == 0, response.remark
                saved = (tmp_path / "data" / "config" / TopicTable.file_name).read_bytes()
                assert b'"new-%d"' % number in saved, "durable when it is acknowledged"
        await no_stall(server)


@pytest.mark.parametrize("code", [Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO, Code.GET_ALL_TOPIC_CONFIG])
async def test_requests_in_a_row_leave_room_for_others(code: Code, tmp_path: Path, record_property: Record) -> None:
    tries = count(400, 4_000)
    async with victim(tmp_path) as server:
        name = f"{code.name} without waiting for responses"
        async with beside_honest_client(server, name, tries, record_property), Peer(server.broker) as peer:
            numbers = [peer.send(code) for _ in range(tries)]
            responses = [await peer.receive() for _ in range(tries)]
            assert [each.correlation_id for each in responses] == numbers, "in order"
            assert {each.code for each in responses} == {0}
        await no_stall(server)


async def test_statistics_of_a_topic_with_every_queue_it_may_have(tmp_path: Path, record_property: Record) -> None:
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        fields, _ = request_of(Code.UPDATE_AND_CREATE_TOPIC, "wide", "readers")
        wide = fields | {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
        assert (await peer.ask(Code.UPDATE_AND_CREATE_TOPIC, wide)).code == 0
        fields, body = request_of(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "wide", "readers")
        assert (await peer.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, fields, body)).code == 0
        codes = (
            *(Code.GET_TOPIC_STATS_INFO, Code.QUERY_CONSUME_TIME_SPAN),
            *(Code.GET_CONSUME_STATS, Code.INVOKE_BROKER_TO_RESET_OFFSET),
        )
        codes = codes[: count(2, 4)]
        name = "statistics of 65 536 queues"
        async with beside_honest_client(server, name, len(codes), record_property):
            for code in codes:
                fields, _ = request_of(code, "wide", "readers")
                fields.pop("queueId", None)  # of a reset: all of them
                response = await peer.ask(code, fields)
                assert response.code == 0 and response.body.count(b'"queueId"') == QUEUES
        await no_stall(server)


async def test_watches_on_every_queue_and_on_every_topic_that_a_request_may_name(
    tmp_path: Path, record_property: Record
) -> None:
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        fields, _ = request_of(Code.UPDATE_AND_CREATE_TOPIC, "wide", "readers")
        wide = fields | {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
        assert (await peer.ask(Code.UPDATE_AND_CREATE_TOPIC, wide)).code == 0
        unknown = [f"unknown-{number}" for number in range(9_999)]
        many = json.dumps({"topics": ["wide", *unknown], "group": "readers"}).encode()
        too_many = json.dumps({"topics": ["wide", "orders", *unknown]}).encode()
        rounds = count(3, 30)
        name = "watches on 65 536 queues of 10 000 topics"
        async with beside_honest_client(server, name, 3 * rounds, record_property):
            for _ in range(rounds):
                response = await peer.ask(Code.QUERY_QUEUE_RANGES, {"watch": "true"}, many)
                assert response.code == 0 and len(json.loads(response.body)["topics"]["wide"]) == QUEUES
                waits = ("-5", "1", str(1 << 62), "0")  # each ends the one before
                for wait_ms in waits:
                    peer.send(Code.AWAIT_QUEUE_RANGES, {"watchId": response.ext["watchId"], "waitMillis": wait_ms})
                assert {(await peer.receive()).code for _ in waits} == {0}
                assert (await peer.ask(Code.QUERY_QUEUE_RANGES, {}, too_many)).code != 0
                for rows in (10_000, 60_000):  # beyond their ends, and too many
                    commits = {"group": "readers", "topics": {"wide": [[number, 9] for number in range(rows)]}}
                    assert (await peer.ask(Code.UPDATE_CONSUMER_OFFSETS, {}, json.dumps(commits).encode())).code != 0
        await no_stall(server)


async def test_more_long_responses_than_can_wait_are_refused(tmp_path: Path) -> None:
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        fields, _ = request_of(Code.UPDATE_AND_CREATE_TOPIC, "wide", "readers")
        wide = fields | {"readQueueNums": "4096", "writeQueueNums": "4096"}
        assert (await peer.ask(Code.UPDATE_AND_CREATE_TOPIC, wide)).code == 0
        for _ in range(200):
            peer.send(Code.GET_TOPIC_STATS_INFO, {"topic": "wide"})
        first = await peer.receive()
        assert first.code == BUSY and "ask again" in (first.remark or "")


async def test_the_budget_of_a_filter_counts_terms(tmp_path: Path, record_property: Record) -> None:
    messages, pulls = 200, count(10, 100)
    names = [f"a{number:03}" for number in range(250)]
    text = encode_properties(dict.fromkeys(names, "v" * 100)).decode()
    sql = " AND ".join(f"({name} <> 'x' OR {name} = 'v')" for name in names[:120]) + " AND none = 1"
    async with victim(tmp_path) as server, Peer(server.broker) as peer:
        fields, _ = request_of(Code.SEND_MESSAGE_V2, "filtered", "senders")
        for _ in range(messages):
            peer.send(Code.SEND_MESSAGE_V2, fields | {"i": text}, b"x")
        assert {(await peer.receive()).code for _ in range(messages)} == {0}
        name = "pulls with an SQL filter of 480 terms"
        async with beside_honest_client(server, name, pulls, record_property):
            fields, _ = request_of(Code.PULL_MESSAGE, "filtered", "readers")
            wanted = fields | {"sysFlag": "4", "subscription": sql, "expressionType": "SQL92", "maxMsgNums": "32"}
            offset = 0
            for _ in range(pulls):
                response = await peer.ask(Code.PULL_MESSAGE, wanted | {"queueOffset": str(offset % messages)})
                assert response.code == ResponseCode.PULL_RETRY_IMMEDIATELY, response.remark
                looked = int(response.ext["nextBeginOffset"]) - offset % messages
                assert 0 < looked < messages, "a part of them, then the others have their turn"
                offset += looked
        await no_stall(server)
