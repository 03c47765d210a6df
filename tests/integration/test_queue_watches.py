"""Requests 31050 to 31052: many queues at once, and waiting for any of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.broker import Broker
from pyromq.broker.pulling.queue_watches import WATCHES_PER_CONNECTION
from pyromq.model.topic import TopicConfig
from pyromq.store.queue_reader import QueueReader
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.consumer import AwaitRangesHeader, QueryRangesHeader, RangesResponseHeader
from pyromq.wire.json.heartbeat import ConsumerData, Heartbeat, Subscription, encode_heartbeat
from tests.integration.test_broker import Client, running, send
from tests.integration.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.both_modes]


async def query(client: Client, *topics: str, group: str = "", watch: bool = True) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"topics": topics, "group": group}).encode()
    answer = await client.ask(RequestCode.QUERY_QUEUE_RANGES, QueryRangesHeader(watch=watch), body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.header_as(RangesResponseHeader).watch_id, json.loads(answer.body)["topics"]


async def changes(client: Client, watch_id: int, wait_ms: int = 0) -> tuple[RangesResponseHeader, dict[str, Any]]:
    header = AwaitRangesHeader(watch_id=watch_id, wait_millis=wait_ms)
    answer = await client.ask(RequestCode.AWAIT_QUEUE_RANGES, header)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.header_as(RangesResponseHeader), json.loads(answer.body)["topics"] if answer.body else {}


async def commit(client: Client, group: str, **topics: list[list[int]]) -> Any:
    body = json.dumps({"group": group, "topics": topics}).encode()
    return await client.ask(RequestCode.UPDATE_CONSUMER_OFFSETS, None, body)


async def test_all_queues_of_topics_come_in_one_response(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await send(client, b"1", queue_id=2)
        await send(client, b"2", topic="bills", queue_id=0)
        assert (await commit(client, "readers", orders=[[2, 1]])).code == ResponseCode.SUCCESS
        watch_id, found = await query(client, "orders", "bills", "none", group="readers", watch=False)
        assert watch_id == 0 and found.keys() == {"orders", "bills"}
        assert found["orders"] == [[0, 0, 0, -1], [1, 0, 0, -1], [2, 0, 1, 1], [3, 0, 0, -1]]
        assert found["bills"][0] == [0, 0, 1, -1]


async def test_a_watch_tells_only_what_changed(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await send(client, b"1")
        watch_id, _ = await query(client, "orders")
        assert await changes(client, watch_id) == (RangesResponseHeader(watch_id=watch_id), {})
        await send(client, b"2", queue_id=1)
        await send(client, b"3", queue_id=1)
        _, found = await changes(client, watch_id)
        assert found == {"orders": [[1, 0, 2, -1]]}
        assert (await changes(client, watch_id))[1] == {}


async def test_a_request_waits_for_a_message_of_any_queue(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"1")
        await send(client, b"1", topic="others")
        watch_id, _ = await query(client, "orders")
        waiting = asyncio.create_task(changes(client, watch_id, 30_000))
        await until(lambda: waits_at(broker) == 1)
        await send(client, b"2", topic="others")
        assert not waiting.done()
        await send(client, b"2", queue_id=3)
        _, found = await asyncio.wait_for(waiting, PATIENCE_S)
        assert found == {"orders": [[3, 0, 1, -1]]} and waits_at(broker) == 0


async def test_a_wait_ends_when_its_time_is_over_or_another_one_comes(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"1")
        watch_id, _ = await query(client, "orders")
        assert (await changes(client, watch_id, 100))[1] == {}
        first = asyncio.create_task(changes(client, watch_id, 30_000))
        await until(lambda: waits_at(broker) == 1)
        assert (await changes(client, watch_id, 1))[1] == {}
        assert (await asyncio.wait_for(first, PATIENCE_S))[1] == {}


async def test_a_watch_is_over_when_topics_change(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"1")
        watch_id, _ = await query(client, "orders")
        waiting = asyncio.create_task(changes(client, watch_id, 30_000))
        await until(lambda: waits_at(broker) == 1)
        broker.parts.tables.topics.update(TopicConfig(topic_name="new", read_queue_nums=1, write_queue_nums=1))
        assert (await asyncio.wait_for(waiting, PATIENCE_S))[0].watch_id == 0
        assert (await changes(client, watch_id))[0].watch_id == 0
        assert len(broker.parts.handlers.watches.watches) == 0


async def test_a_watch_belongs_to_its_connection_and_ends_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"1")
        watch_id, _ = await query(client, "orders")
        other = Client()
        await other.connect(broker)
        assert (await changes(other, watch_id))[0].watch_id == 0
        for _ in range(WATCHES_PER_CONNECTION + 5):
            await query(other, "orders")
        assert len(broker.parts.handlers.watches.watches) == WATCHES_PER_CONNECTION + 1
        other.connection.close()
        await until(lambda: len(broker.parts.handlers.watches.watches) == 1)


async def test_more_queues_than_fit_come_in_the_next_response(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        config = TopicConfig(topic_name="wide", read_queue_nums=700, write_queue_nums=700)
        broker.parts.tables.topics.update(config)
        watch_id, found = await query(client, "wide")
        assert len(found["wide"]) == 700
        for number in range(700):
            await send(client, b"x", topic="wide", queue_id=number)
        found_rows, sizes = list[Any](), list[int]()
        more = True
        while more:
            answer, some = await changes(client, watch_id)
            found_rows += some["wide"]
            sizes.append(len(some["wide"]))
            more = answer.more
        assert sorted(row[0] for row in found_rows) == list(range(700)), "each of them once"
        assert len(sizes) > 1 and max(sizes) <= 512


async def test_queues_whose_files_have_to_be_made_come_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as (broker, client):
        broker.parts.tables.topics.update(TopicConfig(topic_name="wide", read_queue_nums=100, write_queue_nums=100))
        watch_id, _ = await query(client, "wide")
        for number in range(100):
            await send(client, b"x", topic="wide", queue_id=number)
        monkeypatch.setattr(QueueReader, "lacks_file", lambda *_: True)  # else the broker may have made them meanwhile
        sizes, more = list[int](), True
        while more:
            answer, some = await changes(client, watch_id)
            sizes.append(len(some["wide"]))
            more = answer.more
        assert sizes == [32, 32, 32, 4]


async def test_commits_that_are_right_are_taken_beside_one_that_is_not(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await send(client, b"1")
        await send(client, b"1", queue_id=1)
        await query(client, "orders", group="readers")
        answer = await commit(client, "readers", orders=[[0, 1], [9, 1], [1, 7], [1, 1]])
        assert answer.code == ResponseCode.INVALID_PARAMETER and "queue 9" in (answer.remark or "")
        _, found = await query(client, "orders", group="readers")
        assert [row[3] for row in found["orders"]] == [1, 1, -1, -1]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"topics": 1}', json.dumps({"topics": ["t"] * 10_001}).encode()])
async def test_bodies_that_cannot_be_read_are_refused(body: bytes, tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        for code in (RequestCode.QUERY_QUEUE_RANGES, RequestCode.UPDATE_CONSUMER_OFFSETS):
            assert (await client.ask(code, None, body)).code != ResponseCode.SUCCESS


async def test_a_group_is_told_of_its_consumers_and_of_others_that_watch_for_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"1")
        assert await users(client) == (0, 0)
        other = Client()
        await other.connect(broker)
        assert await users(other) == (0, 1)
        assert await users(client) == (0, 1)
        assert await users(client, "another") == (0, 0)
        consumer = ConsumerData(group_name="readers", subscription_data_set=(Subscription(topic="orders"),))
        beat = encode_heartbeat(Heartbeat(client_id="c1", consumer_data_set=(consumer,)))
        assert (await other.ask(RequestCode.HEART_BEAT, None, beat)).code == ResponseCode.SUCCESS
        assert await users(client) == (1, 1)
        before = len(broker.parts.handlers.watches.watches)
        other.connection.close()
        await until(lambda: len(broker.parts.handlers.watches.watches) == before - 1)
        assert await users(client) == (0, 0)


async def users(client: Client, group: str = "readers") -> tuple[int, int]:
    body = json.dumps({"topics": ["orders"], "group": group}).encode()
    answer = await client.ask(RequestCode.QUERY_QUEUE_RANGES, QueryRangesHeader(watch=True), body)
    told = answer.header_as(RangesResponseHeader)
    return told.members, told.watchers


def waits_at(broker: Broker) -> int:
    return len(broker.parts.handlers.watches.watches.waiting)
