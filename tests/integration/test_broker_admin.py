"""What admin tools and less usual clients ask of a broker, spoken to with bare requests."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.store.settings import StoreSettings
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.admin import (
    GetBrokerConfigResponseHeader,
    GetBrokerConsumeStatsHeader,
    QueryConsumeQueueHeader,
    QueryCorrectionOffsetHeader,
    ViewBrokerStatsHeader,
)
from pyromq.wire.headers.shared import (
    TopicHeader,
)
from pyromq.wire.json import bodies, java_json
from pyromq.wire.json.heartbeat import (
    ConsumerData,
    Heartbeat,
    Subscription,
    encode_heartbeat,
)
from pyromq.wire.json.route import decode_route
from pyromq.wire.received import Received
from tests.integration.test_broker import Client, pull, pull_header, running, send, send_header
from tests.integration.test_broker_clients import commit, joined
from tests.integration.waiting import LOOK_AGAIN_S, PATIENCE_S, until

pytestmark = pytest.mark.integration


# --- progress of groups ----------------------------------------------------------------------------------------------


async def test_the_lag_of_all_groups_is_told_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        for n in range(5):
            await send(client, b"%d" % n)
        await commit(client, 2)
        await commit(client, 4, group="others")
        code = RequestCode.GET_BROKER_CONSUME_STATS
        answer = await client.ask(code, GetBrokerConsumeStatsHeader(is_order=False))
        stats = java_json.parse(answer.body)
        assert (stats["totalDiff"], stats["brokerAddr"]) == (4, str(broker.address))
        assert _consumed(stats) == ["others", "readers"]
        ordered = await client.ask(code, GetBrokerConsumeStatsHeader(is_order=True))
        assert _consumed(java_json.parse(ordered.body)) == []


def _consumed(stats: Any) -> list[str]:
    """Groups that have consumed something."""
    return [name for each in stats["consumeStatsList"] for name, topics in each.items() if topics]


async def test_correction_offsets_are_those_of_the_slowest_other_group(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        for n in range(8):
            await send(client, b"%d" % n, queue_id=n % 2)
        for group, first, second in (("a", 3, 1), ("b", 2, 4), ("slow", 1, 1)):
            await commit(client, first, group, 0)
            await commit(client, second, group, 1)
        header = QueryCorrectionOffsetHeader(topic="orders", compare_group="b", filter_groups="slow")
        answer = await client.ask(RequestCode.QUERY_CORRECTION_OFFSET, header)
        found = java_json.decode(answer.body, bodies.CorrectionOffsets).correction_offsets
        assert found == {0: 2, 1: 1}
        header = QueryCorrectionOffsetHeader(topic="orders", compare_group="slow", filter_groups="slow")
        answer = await client.ask(RequestCode.QUERY_CORRECTION_OFFSET, header)
        found = java_json.decode(answer.body, bodies.CorrectionOffsets).correction_offsets
        assert found == {0: 2**63 - 1, 1: 1}
        assert broker.parts.tables.progress.committed("slow", "orders", 0) == 1


async def test_entries_of_a_queue_are_shown_with_what_a_group_takes_of_them(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        for tag in ("A", "B", "A"):
            await send(client, b"x", properties=f"TAGS\x01{tag}\x02")
        subscription = Subscription(topic="orders", sub_string="A", sub_version=1, code_set=frozenset((65,)))
        group = ConsumerData(group_name="readers", subscription_data_set=(subscription,))
        await client.ask(
            RequestCode.HEART_BEAT, body=encode_heartbeat(Heartbeat(client_id="c", consumer_data_set=(group,)))
        )
        header = QueryConsumeQueueHeader(topic="orders", queue_id=0, index=1, count=100, consumer_group="readers")
        answer = await client.ask(RequestCode.QUERY_CONSUME_QUEUE, header)
        view = bodies.decode(answer.body, bodies.QueueView)
        assert (view.min_queue_index, view.max_queue_index, view.subscription_data) == (0, 3, subscription)
        assert [(each.tags_code, each.eval) for each in view.queue_data] == [(66, False), (65, True)]
        assert view.queue_data[0].physic_offset > 0 and view.queue_data[0].physic_size > 0
        never = QueryConsumeQueueHeader(topic="orders", queue_id=3, index=0, count=1)
        assert (await client.ask(RequestCode.QUERY_CONSUME_QUEUE, never)).code == ResponseCode.SYSTEM_ERROR


async def test_statistics_of_topics_and_groups_are_told(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        for n in range(3):
            await send(client, b"%d" % n)
        await pull(client, pull_header())

        async def ask(name: str, key: str) -> Received[Any]:
            header = ViewBrokerStatsHeader(stats_name=name, stats_key=key)
            return await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, header)

        async def day(name: str, key: str) -> bodies.StatsItem:
            return bodies.decode((await ask(name, key)).body, bodies.StatsData).stats_day

        put = await day("TOPIC_PUT_NUMS", "orders")
        assert (put.sum, put.avgpt) == (3, 1.0)
        assert (await day("TOPIC_PUT_SIZE", "orders")).sum > 3
        got = await day("GROUP_GET_NUMS", "orders@readers")
        assert (got.sum, got.avgpt) == (3, 3.0)
        assert (await day("BROKER_PUT_NUMS", "DefaultCluster")).sum == 3
        for name, key in (("TOPIC_PUT_NUMS", "unknown"), ("NONSENSE", "orders"), ("TOPIC_PUT", "orders")):
            assert (await ask(name, key)).code == ResponseCode.SYSTEM_ERROR


# --- cleaning --------------------------------------------------------------------------------------------------------


async def test_queues_of_topics_that_do_not_exist_any_more_are_cleaned(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"x")
        await commit(client, 1)
        broker.parts.tables.topics.delete("orders")
        assert (await client.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
        assert broker.store.reader.range_of("orders", 0) is None
        assert broker.parts.tables.progress.committed("readers", "orders", 0) is None
        assert (await send(client, b"y")).queue_offset == 0


async def test_expired_files_are_deleted_when_a_tool_says_so(tmp_path: Path) -> None:
    store = StoreSettings(segment_bytes=64 * 1024, keep_ms=0, delete_hours=(), full_percent=100, clean_percent=100,
                          force_clean_percent=100)  # fmt: skip
    async with running(tmp_path, store=store) as (broker, client):
        for _ in range(6):
            await send(client, b"x" * 20_000)
        first = broker.store.first_position
        for code in (RequestCode.DELETE_EXPIRED_COMMITLOG, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE):
            assert (await client.ask(code)).code == 0
        await until(lambda: broker.store.first_position > first)
        await until(lambda: broker.store.queues["orders", 0].first > 0)


async def test_delay_offsets_are_told_as_on_file(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        answer = await client.ask(RequestCode.GET_ALL_DELAY_OFFSET)
        table = java_json.parse(answer.body)
        assert table["offsetTable"] == {} and table["dataVersion"]["timestamp"] > 0


async def test_a_broker_is_a_master_that_nobody_follows(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"x")
        told = java_json.parse((await client.ask(RequestCode.GET_BROKER_HA_STATUS)).body)
        assert (told["master"], told["inSyncSlaveNums"], told["haConnectionInfo"]) == (True, 0, [])
        assert told["masterCommitLogMaxOffset"] == broker.store.end_position > 0


async def test_offsets_are_told_with_what_groups_have_pulled(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        for n in range(3):
            await send(client, b"%d" % n)
        await pull(client, pull_header())
        await commit(client, 2)
        told = java_json.parse((await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)).body)
        assert told["pullOffsetTable"] == {"orders@readers": {0: 3}}
        assert told["offsetTable"] == {"orders@readers": {0: 2}} and told["groupTopicMap"] == {"readers": ["orders"]}


# --- configuration ---------------------------------------------------------------------------------------------------


async def config_of(client: Client) -> tuple[dict[str, str], dict[str, int]]:
    answer = await client.ask(RequestCode.GET_BROKER_CONFIG)
    pairs = [line.partition("=") for line in answer.body.decode().splitlines()]
    version = answer.header_as(GetBrokerConfigResponseHeader).version or ""
    return {key: value for key, _, value in pairs}, java_json.parse(version)


async def test_settings_change_while_the_broker_runs_and_are_told_as_they_are(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        values, version = await config_of(client)
        assert (values["listenPort"], values["fileReservedTime"]) == (str(broker.address.port), "72")
        text = b"# by an operator\nautoCreateTopicEnable=false\nfileReservedTime=24\ndeleteWhen=03;15\n"
        assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text)).code == 0
        changed, newer = await config_of(client)
        assert (changed["fileReservedTime"], changed["deleteWhen"]) == ("24", "03;15")
        assert broker.store.settings.keep_ms == 24 * 3_600_000
        assert newer["counter"] == version["counter"] + 1 and newer["timestamp"] >= version["timestamp"]
        refused = await client.ask(RequestCode.SEND_MESSAGE_V2, send_header("brand-new"), b"x")
        assert refused.code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(
    ("text", "code", "remark"),
    [
        (b"brokerName=other\n", ResponseCode.NO_PERMISSION, "brokerName is unknown or cannot be changed"),
        (b"configBlackList=\n", ResponseCode.NO_PERMISSION, "configBlackList"),
        (b"fileReservedTime=1\nnonsense=2\n", ResponseCode.NO_PERMISSION, "nonsense"),
        (b"brokerPermission=9\n", ResponseCode.INVALID_PARAMETER, "outside [0, 7]"),
        (b"longPollingEnable=perhaps\n", ResponseCode.INVALID_PARAMETER, "longPollingEnable: 'perhaps'"),
        (b"fileReservedTime\n", ResponseCode.INVALID_PARAMETER, "key=value"),
        (b"\xff=1\n", ResponseCode.INVALID_PARAMETER, "UTF-8"),
    ],
)
async def test_settings_that_cannot_be_changed_are_refused_and_nothing_changes(
    tmp_path: Path, text: bytes, code: ResponseCode, remark: str
) -> None:
    async with running(tmp_path) as (_, client):
        before = await config_of(client)
        answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text)
        assert answer.code == code and remark in (answer.remark or ""), answer.remark
        assert await config_of(client) == before


async def test_sends_are_refused_until_the_moment_that_is_set(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"before")
        end = broker.store.end_position
        moment_ms = int(time.time() * 1000) + 3_600_000
        text = b"startAcceptSendRequestTimeStamp=%d\n" % moment_ms
        assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text)).code == 0
        for code, header in (
            (RequestCode.SEND_MESSAGE_V2, send_header("orders")),
            (RequestCode.SEND_BATCH_MESSAGE, send_header("orders", batch=True)),
        ):
            refused = await client.ask(code, header, b"x")
            assert refused.code == ResponseCode.SYSTEM_ERROR and "unable to service, until" in (refused.remark or "")
        assert broker.store.end_position == end, "nothing is stored"
        assert (await pull(client, pull_header(0)))[0] == ResponseCode.SUCCESS, "and everything is read"
        text = b"startAcceptSendRequestTimeStamp=%d\n" % 0
        assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text)).code == 0
        await send(client, b"after")


async def test_when_the_moment_has_come_sends_are_taken_again(tmp_path: Path) -> None:
    soon_ms = int(time.time() * 1000) + 1_500
    async with running(tmp_path, sends_from_ms=soon_ms) as (broker, client):
        assert broker.settings.sends_from_ms == soon_ms
        async with asyncio.timeout(PATIENCE_S):
            while (await client.ask(RequestCode.SEND_MESSAGE_V2, send_header("orders"), b"x")).code:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_AGAIN_S)
        assert time.time() * 1000 >= soon_ms
        assert (await config_of(client))[0]["startAcceptSendRequestTimeStamp"] == str(soon_ms)


async def test_a_changed_permission_reaches_the_name_server(tmp_path: Path) -> None:
    async with NameServer(NameServerSettings(port=0)) as nameserver:
        async with running(tmp_path, nameservers=(str(nameserver.address),)) as (_, client):
            ns = Client()
            await ns.connect(nameserver)  # type: ignore[arg-type]
            text = b"brokerPermission=4\n"
            assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text)).code == 0
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    answer = await ns.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicHeader(topic="BenchmarkTest"))
                    route = decode_route(answer.body)
                    if not route.publishable_queues("BenchmarkTest"):
                        break
                    await asyncio.sleep(LOOK_AGAIN_S)
            assert len(route.readable_queues("BenchmarkTest")) == 1024
            ns.connection.close()


# --- assignments -----------------------------------------------------------------------------------------------------


async def assigned(client: Client, client_id: str, **changes: str) -> list[int]:
    fields = {"topic": "BenchmarkTest", "consumer_group": "readers", "client_id": client_id} | changes
    body = bodies.encode(bodies.AssignmentRequest(**fields))
    answer = await client.ask(RequestCode.QUERY_ASSIGNMENT, body=body)
    assert answer.code == 0, answer.remark
    found = bodies.decode(answer.body, bodies.AssignmentResponse).message_queue_assignments
    assert {each.mode for each in found} <= {"PULL"}
    return [each.message_queue.number for each in found]


@pytest.mark.parametrize("with_nameserver", [False, True])
async def test_the_broker_shares_out_queues_for_those_who_ask(tmp_path: Path, with_nameserver: bool) -> None:
    async with NameServer(NameServerSettings(port=0)) as nameserver:
        names = (str(nameserver.address),) if with_nameserver else ()
        async with running(tmp_path, nameservers=names) as (broker, client):
            for client_id in ("c2", "c1", "c3"):
                await joined(broker, Client(), client_id)
            shares = [await assigned(client, each) for each in ("c1", "c2", "c3")]
            assert [number for share in shares for number in share] == list(range(1024)) and [
                len(share) for share in shares
            ] == [342, 341, 341]
            assert await assigned(client, "c2", strategy_name="AVG_BY_CIRCLE") == list(range(1, 1024, 3))
            assert len(await assigned(client, "c2", message_model="BROADCASTING")) == 1024
            assert await assigned(client, "stranger") == []
            assert await assigned(client, "c1", topic="unknown") == []
            body = bodies.encode(
                bodies.AssignmentRequest(
                    topic="BenchmarkTest", consumer_group="readers", client_id="c1", strategy_name="MINE"
                )
            )
            refused = await client.ask(RequestCode.QUERY_ASSIGNMENT, body=body)
            assert refused.code == ResponseCode.SYSTEM_ERROR and "AVG_BY_CIRCLE" in (refused.remark or "")


async def test_request_modes_are_kept_over_a_restart(tmp_path: Path) -> None:
    mode = bodies.RequestMode(topic="orders", consumer_group="readers", mode="POP", pop_share_queue_num=2)
    async with running(tmp_path) as (_, client):
        assert (await client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=bodies.encode(mode))).code == 0
        unknown = bodies.RequestMode(topic="orders", consumer_group="readers", mode="PUSH")
        refused = await client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=bodies.encode(unknown))
        assert refused.code == ResponseCode.SYSTEM_ERROR and "PULL and POP" in (refused.remark or "")
        retry = bodies.RequestMode(topic="%RETRY%readers", consumer_group="readers")
        refused = await client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=bodies.encode(retry))
        assert refused.code == ResponseCode.NO_PERMISSION
    async with running(tmp_path) as (_, client):
        answer = await client.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        table = java_json.parse(answer.body)["messageRequestModeMap"]
        assert java_json.convert(table["orders"]["readers"], bodies.RequestMode) == mode
