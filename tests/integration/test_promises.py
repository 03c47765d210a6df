"""Promises that a broker makes to its peers, asked for over the wire: what it says of the disk, and what it refuses."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.queue import QueueId
from pyromq.store.settings import Flush
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.flags import SysFlag
from pyromq.wire.headers.consumer import UpdateConsumerOffsetHeader
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.headers.shared import ResetOffsetHeader
from pyromq.wire.json import bodies
from tests.integration.test_broker import Client, pull, pull_header, running, send, send_header, settings
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

NOT_WAITING = "WAIT\x01false\x02"
ITEMS = encode_batch([BatchItem(b"0", b""), BatchItem(b"1", b"")])


async def send_batch(client: Client, properties: str = "", **changes: Any) -> SendResponseHeader:
    header = send_header(batch=True, properties=properties, **changes)
    answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, header, ITEMS)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.header_as(SendResponseHeader)


# --- what a receipt says of the disk ---


async def test_a_receipt_says_on_disk_when_the_answer_waited_for_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        assert (await send(client, b"waits")).on_disk == "true"
        assert broker.store.flushed_position == broker.store.end_position
        assert (await send_batch(client)).on_disk == "true"
        assert broker.store.flushed_position == broker.store.end_position


async def test_a_sender_who_does_not_wait_for_the_disk_is_told_so(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        assert (await send(client, b"hurries", properties=NOT_WAITING)).on_disk == "false"
        odd = f"UNIQ_KEY\x01not a plain word\x02{NOT_WAITING}"  # whose answer is put together in another way
        assert (await send(client, b"hurries", properties=odd)).on_disk == "false"
        assert (await send_batch(client, NOT_WAITING)).on_disk == "false"


async def test_a_broker_that_flushes_later_never_says_on_disk(tmp_path: Path) -> None:
    later = replace(settings().store, flush=Flush.ASYNC)
    async with running(tmp_path, store=later) as (_, client):
        assert (await send(client, b"later")).on_disk == "false"
        assert (await send(client, b"later", properties="UNIQ_KEY\x01not a plain word\x02")).on_disk == "false"
        assert (await send_batch(client)).on_disk == "false"


# --- progress ---


async def test_a_reset_by_time_never_moves_a_group_forward_unless_it_is_forced(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        for number in range(5):
            await send(client, b"%d" % number)
        header = UpdateConsumerOffsetHeader(consumer_group="readers", topic="orders", queue_id=0, commit_offset=2)
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == ResponseCode.SUCCESS
        wish = ResetOffsetHeader(topic="orders", group="readers", timestamp=1 << 50)
        await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, wish)
        assert broker.parts.tables.progress.committed("readers", "orders", 0) == 2
        forced = ResetOffsetHeader(topic="orders", group="readers", timestamp=1 << 50, is_force=True)
        await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, forced)
        assert broker.parts.tables.progress.committed("readers", "orders", 0) == 5


@pytest.mark.parametrize("queue_id", [-1, 65_536, (1 << 31) - 1])
async def test_progress_is_kept_for_numbers_that_a_queue_may_have(tmp_path: Path, queue_id: int) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"makes the topic")
        header = UpdateConsumerOffsetHeader(
            consumer_group="readers", topic="orders", queue_id=queue_id, commit_offset=1
        )
        answer = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
        assert answer.code == ResponseCode.INVALID_PARAMETER and "65536" in (answer.remark or "")
        assert broker.parts.tables.progress.committed("readers", "orders", queue_id) is None


# --- transactions ---


async def test_a_batch_is_never_part_of_a_transaction(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        header = send_header(batch=True, sys_flag=int(SysFlag.PREPARED))
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, header, ITEMS)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert broker.store.end_position == 0


# --- bounds ---


async def test_pulls_beyond_the_limit_are_answered_at_once_instead_of_held(tmp_path: Path) -> None:
    async with running(tmp_path, held_pulls_max=2) as (broker, client):
        await send(client, b"only one")
        waiting = pull_header(1, wait_ms=60_000)
        held = [asyncio.ensure_future(pull(client, waiting)) for _ in range(2)]
        await until(lambda: len(broker.parts.waiters) == 2, "two are held")
        code, records, _ = await pull(client, waiting)
        assert (code, records) == (ResponseCode.PULL_NOT_FOUND, [])
        await send(client, b"for those who wait")
        assert [len(records) for _, records, _ in await asyncio.gather(*held)] == [1, 1]


@pytest.mark.parametrize(
    "wanted",
    [
        {"consumer_group": "g" * 121},
        {"consumer_group": "../../readers"},
        {"mq_set": (QueueId("../orders", "broker-a", 0),)},
        {"mq_set": (QueueId("orders", "b" * 1_001, 0),)},
        {"client_id": "c" * 1_001},
    ],
)
async def test_locks_are_kept_under_names_that_can_exist(tmp_path: Path, wanted: dict[str, Any]) -> None:
    async with running(tmp_path) as (broker, client):
        usual = {"consumer_group": "readers", "client_id": "c1", "mq_set": (QueueId("orders", "broker-a", 0),)}
        answer = await client.ask(RequestCode.LOCK_BATCH_MQ, body=bodies.encode(bodies.LockRequest(**usual | wanted)))
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert len(broker.parts.tables.locks) == 0
