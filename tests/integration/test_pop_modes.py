"""Groups that pop, seen from outside: their modes and assignments, a switch of one group and back, statistics."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.model.queue import QueueId
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.admin import GetConsumeStatsHeader, ViewBrokerStatsHeader
from pyromq.wire.json import bodies
from tests.integration.test_broker import Client, pull, pull_header, running, send
from tests.integration.test_broker_clients import commit, joined
from tests.integration.test_pop import GROUP, TOPIC, ack, pop

pytestmark = [pytest.mark.integration, pytest.mark.both_modes]
READERS = "readers"


async def set_mode(client: Client, mode: str, share: int = 0) -> None:
    body = bodies.RequestMode(topic=TOPIC, consumer_group=READERS, mode=mode, pop_share_queue_num=share)
    answer = await client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=bodies.encode(body))
    assert answer.code == 0, answer.remark


async def assigned(client: Client, client_id: str = "c1") -> set[tuple[str, int]]:
    """Mode and queue of each assignment of a member."""
    body = bodies.AssignmentRequest(topic=TOPIC, consumer_group=READERS, client_id=client_id)
    answer = await client.ask(RequestCode.QUERY_ASSIGNMENT, body=bodies.encode(body))
    assert answer.code == 0, answer.remark
    found = bodies.decode(answer.body, bodies.AssignmentResponse).message_queue_assignments
    return {(each.mode, each.message_queue.number) for each in found}


async def test_a_mode_that_is_set_is_what_members_are_assigned_and_it_can_be_taken_back(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"x")
        for client_id in ("c1", "c2", "c3", "c4"):
            await joined(broker, Client(), client_id)
        assert await assigned(client) == {("PULL", 0)}
        await set_mode(client, "POP")
        assert await assigned(client) == {("POP", -1)}, "any queue of this broker"
        await set_mode(client, "POP", share=1)
        assert await assigned(client) == {("POP", 0), ("POP", 1)}, "its own, and those of the next member"
        assert await assigned(client, "c4") == {("POP", 3), ("POP", 0)}
        await set_mode(client, "PULL")
        assert await assigned(client) == {("PULL", 0)}


def committed(broker: Broker) -> int | None:
    return broker.parts.tables.progress.committed(READERS, TOPIC, 0)


async def test_one_group_is_switched_from_pop_to_queues_and_back_and_misses_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        for number in range(5):
            await send(client, b"%d" % number)
        await set_mode(client, "POP")
        popped = await pop(client, consumer_group=READERS)
        for at in (0, 1, 3):
            assert await ack(client, *popped[at], consumer_group=READERS) == 0
        assert committed(broker) == 2, "up to the first message that is not acknowledged"

        await set_mode(client, "PULL")
        _, pulled, _ = await pull(client, pull_header(2))
        assert [record.body for record in pulled] == [b"2", b"3", b"4"]
        await commit(client, 4)
        await send(client, b"5")

        await set_mode(client, "POP")
        again = await pop(client, consumer_group=READERS)
        assert [record.body for record, _ in again] == [b"4", b"5"], "what was committed meanwhile does not come"
        stale = await ack(client, *popped[2], consumer_group=READERS)
        assert stale == ResponseCode.NO_MESSAGE, "a receipt from before the switch"
        for each in again:
            assert await ack(client, *each, consumer_group=READERS) == 0
        assert committed(broker) == 6
        assert await pop(client, consumer_group=READERS) == []


async def test_members_of_one_group_that_pop_and_that_pull_at_once_miss_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        for number in range(6):
            await send(client, b"%d" % number)
        popped = await pop(client, consumer_group=READERS, max_msg_nums=3)
        _, pulled, _ = await pull(client, pull_header(committed(broker) or 0))
        bodies_seen = {record.body for record, _ in popped} | {record.body for record in pulled}
        assert bodies_seen == {b"%d" % number for number in range(6)}
        for each in popped:
            assert await ack(client, *each, consumer_group=READERS) == 0
        assert committed(broker) == 3, "an acknowledgement never commits what only a pull has seen"
        assert [record.body for record, _ in await pop(client, consumer_group=READERS)] == [b"3", b"4", b"5"]


async def test_pops_count_in_the_statistics_of_group_and_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        for number in range(5):
            await send(client, b"%d" % number)

        async def day(name: str) -> bodies.StatsItem:
            header = ViewBrokerStatsHeader(stats_name=name, stats_key=f"{TOPIC}@{GROUP}")
            answer = await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, header)
            assert answer.code == 0, answer.remark
            return bodies.decode(answer.body, bodies.StatsData).stats_day

        assert len(await pop(client, max_msg_nums=2)) == 2
        assert len(await pop(client, max_msg_nums=1)) == 1
        assert await pop(client, queue_id=3) == []
        got = await day("GROUP_GET_NUMS")
        assert (got.sum, got.avgpt) == (3, 1.5), "messages, and messages of a pop that found some"
        assert got.tps > 0
        assert (await day("GROUP_GET_SIZE")).sum > 3


async def test_lag_of_a_popping_group_is_what_nobody_acknowledged(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        for number in range(5):
            await send(client, b"%d" % number)

        async def progress() -> tuple[int, int, int]:
            header = GetConsumeStatsHeader(consumer_group=GROUP, topic=TOPIC)
            answer = await client.ask(RequestCode.GET_CONSUME_STATS, header)
            assert answer.code == 0, answer.remark
            table = bodies.decode(answer.body, bodies.ConsumeStatsBody).offset_table
            row = table[QueueId(TOPIC, "broker-a", 0)]
            return row.broker_offset, row.consumer_offset, row.pull_offset

        popped = await pop(client, max_msg_nums=3)
        assert await progress() == (5, 0, 3), "three are in flight, none is acknowledged"
        assert await ack(client, *popped[0]) == 0
        assert await ack(client, *popped[2]) == 0
        assert await progress() == (5, 1, 3)
        assert await ack(client, *popped[1]) == 0
        assert await progress() == (5, 3, 3)
