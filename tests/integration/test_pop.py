"""Pop over the remoting protocol, with bare requests; receipts are put together as Java clients do it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from pyromq.model.topic import GroupConfig
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.pop import (
    AckHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeResponseHeader,
    NotificationHeader,
    NotificationResponseHeader,
    PollingInfoHeader,
    PollingInfoResponseHeader,
    PopHeader,
    PopResponseHeader,
)
from pyromq.wire.json.batch_ack import BatchAck, bits_of, encode_batch_ack
from pyromq.wire.received import Received
from pyromq.wire.record import Record, split_records
from tests.integration.test_broker import Client, pull, pull_header, running, send
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.both_modes]
GROUP, TOPIC = "poppers", "orders"


def pop_header(**changes: Any) -> PopHeader:
    fields: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "queue_id": -1,
        "max_msg_nums": 32,
        "invisible_time": 60_000,
        "poll_time": 0,
        "born_time": 0,
        "init_mode": 0,
    }
    return PopHeader(**fields | changes)


def receipts(response: Received[Any]) -> list[tuple[Record, str]]:
    """Records with their extraInfo, as a Java client builds it from the texts of the response."""
    header = response.header_as(PopResponseHeader)
    starts = {(flag, queue): start for flag, queue, start in _words(header.start_offset_info)}
    offsets = {(flag, queue): numbers.split(",") for flag, queue, numbers in _words(header.msg_offset_info)}
    found, records = [], split_records(response.body)
    seen: dict[tuple[str, str], list[int]] = {}
    for record in records:
        seen.setdefault(("0", str(record.queue_id)), []).append(record.offset)
    for record in records:
        key = "0", str(record.queue_id)
        offset = offsets[key][sorted(seen[key]).index(record.offset)]
        assert int(offset) == record.offset
        tail = f"{header.revive_qid} 0 broker-a {record.queue_id} {offset}"
        found.append((record, f"{starts[key]} {header.pop_time} {header.invisible_time} {tail}"))
    return found


def _words(text: str | None) -> list[tuple[str, str, str]]:
    return [tuple(entry.split(" ")) for entry in (text or "").split(";")]  # type: ignore[misc]


async def pop(client: Client, **changes: Any) -> list[tuple[Record, str]]:
    response = await client.ask(RequestCode.POP_MESSAGE, pop_header(**changes))
    assert response.code in (ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT), response.remark
    return receipts(response) if response.code == ResponseCode.SUCCESS else []


async def ack(client: Client, record: Record, receipt: str, **changes: Any) -> int:
    fields = {"consumer_group": GROUP, "topic": TOPIC, "queue_id": record.queue_id, "offset": record.offset}
    response = await client.ask(RequestCode.ACK_MESSAGE, AckHeader(**fields | {"extra_info": receipt} | changes))
    return response.code


async def test_messages_are_popped_acknowledged_and_gone(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        for number in range(10):
            await send(client, b"%d" % number, queue_id=number % 4)
        popped = await pop(client)
        assert sorted(int(record.body) for record, _ in popped) == list(range(10))
        assert await pop(client) == []
        assert [await ack(client, *each) for each in popped] == [0] * 10
        assert [await ack(client, *each) for each in popped] == [ResponseCode.NO_MESSAGE] * 10


async def test_a_batch_of_acknowledgements_tells_of_receipts_that_are_not_good(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        for number in range(6):
            await send(client, b"%d" % number)
        response = await client.ask(RequestCode.POP_MESSAGE, pop_header())
        header = response.header_as(PopResponseHeader)

        def batch(*offsets: int) -> bytes:
            one = BatchAck(
                group=GROUP,
                topic=TOPIC,
                start=0,
                queue_id=0,
                number=header.revive_qid,
                popped_ms=header.pop_time,
                invisible_ms=60_000,
                bits=bits_of(0, offsets),
            )
            return encode_batch_ack([one], "broker-a")

        assert (await client.ask(RequestCode.BATCH_ACK_MESSAGE, body=batch(0, 1, 3))).code == 0
        partly = await client.ask(RequestCode.BATCH_ACK_MESSAGE, body=batch(1, 2))
        assert (partly.code, "1 of 2" in (partly.remark or "")) == (ResponseCode.NO_MESSAGE, True)
        assert (await client.ask(RequestCode.BATCH_ACK_MESSAGE, body=b"{}")).code == ResponseCode.NO_MESSAGE
        assert (await client.ask(RequestCode.BATCH_ACK_MESSAGE, body=batch(4, 5))).code == 0
        offset = await client.ask(
            RequestCode.BATCH_ACK_MESSAGE,
            body=b'{"acks":[{"bitSet":"AQ==","consumerGroup":"x","startOffset":0,"queueId":0,"reviveQueueId":1,'
            b'"popTime":1,"topic":"orders","retry":"0"}]}',
        )
        assert offset.code == ResponseCode.NO_MESSAGE


async def test_a_changed_invisible_time_makes_a_new_receipt(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await send(client, b"a")
        ((record, receipt),) = await pop(client)
        header = ChangeInvisibleTimeHeader(
            consumer_group=GROUP, topic=TOPIC, queue_id=0, extra_info=receipt, offset=0, invisible_time=0
        )
        changed = await client.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        made = changed.header_as(ChangeInvisibleTimeResponseHeader)
        assert made.revive_qid != 0
        assert await ack(client, record, receipt) == ResponseCode.NO_MESSAGE
        ((again, receipt),) = await pop(client, poll_time=5_000, born_time=int(time.time() * 1000))
        assert again.delivery_attempt == 1
        assert await ack(client, again, receipt) == 0


async def test_a_pop_waits_for_a_message_and_is_counted_while_it_waits(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"first")
        assert len(await pop(client)) == 1
        waiting = asyncio.create_task(pop(client, poll_time=20_000))
        await until(lambda: len(broker.parts.popping.pops.waiting) == 1)
        info = PollingInfoHeader(consumer_group=GROUP, topic=TOPIC, queue_id=0)
        counted = await client.ask(RequestCode.POLLING_INFO, info)
        assert counted.header_as(PollingInfoResponseHeader).polling_num == 1
        await send(client, b"second")
        ((record, _),) = await waiting
        assert record.body == b"second"


async def test_a_notification_tells_that_something_can_be_popped(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"first")
        header = NotificationHeader(consumer_group=GROUP, topic=TOPIC, queue_id=-1, poll_time=20_000, born_time=0)
        now = await client.ask(RequestCode.NOTIFICATION, header)
        assert now.header_as(NotificationResponseHeader).has_msg
        await pop(client)
        waiting = asyncio.create_task(client.ask(RequestCode.NOTIFICATION, header))
        await until(lambda: len(broker.parts.popping.pops.waiting) == 1)
        await send(client, b"second")
        assert (await waiting).header_as(NotificationResponseHeader).has_msg


async def test_a_client_whose_clock_is_wrong_gets_messages_and_waits_for_them(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"first")
        ((record, _),) = await pop(client, born_time=1)
        assert record.body == b"first"
        waiting = asyncio.create_task(pop(client, poll_time=20_000, born_time=1))
        await until(lambda: len(broker.parts.popping.pops.waiting) == 1)
        await send(client, b"second")
        ((record, _),) = await waiting
        assert record.body == b"second"
        header = NotificationHeader(consumer_group=GROUP, topic=TOPIC, queue_id=-1, poll_time=20_000, born_time=1)
        told = asyncio.create_task(client.ask(RequestCode.NOTIFICATION, header))
        await until(lambda: len(broker.parts.popping.pops.waiting) == 1)
        await send(client, b"third")
        assert (await told).header_as(NotificationResponseHeader).has_msg


async def test_impossible_pops_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await send(client, b"a")
        many = await client.ask(RequestCode.POP_MESSAGE, pop_header(max_msg_nums=33))
        assert many.code == ResponseCode.INVALID_PARAMETER
        nowhere = await client.ask(RequestCode.POP_MESSAGE, pop_header(topic="nowhere"))
        assert nowhere.code == ResponseCode.TOPIC_NOT_EXIST
        assert len(await pop(client)) == 1


async def test_what_was_acknowledged_stays_so_and_what_is_in_flight_too_over_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        for number in range(4):
            await send(client, b"%d" % number)
        popped = await pop(client)
        assert await ack(client, *popped[1]) == 0
    async with running(tmp_path) as (_, client):
        assert await pop(client) == []
        assert [await ack(client, *each) for each in popped] == [0, ResponseCode.NO_MESSAGE, 0, 0]


async def test_groups_that_pull_and_groups_that_pop_read_one_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        for number in range(5):
            await send(client, b"%d" % number)
        _, pulled, _ = await pull(client, pull_header())
        popped = await pop(client)
        assert [record.body for record in pulled] == [record.body for record, _ in popped]
        for each in popped:
            assert await ack(client, *each) == 0
        assert broker.parts.tables.progress.committed(GROUP, TOPIC, 0) == 5
        assert broker.parts.tables.progress.committed("readers", TOPIC, 0) is None


async def test_a_gone_connection_gets_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"first")
        ((record, receipt),) = await pop(client)
        assert await ack(client, record, receipt) == 0
        other = Client()
        connection = await other.connect(broker)
        waiting = asyncio.create_task(other.ask(RequestCode.POP_MESSAGE, pop_header(poll_time=20_000)))
        await until(lambda: len(broker.parts.popping.pops.waiting) == 1)
        connection.close()
        await until(lambda: len(broker.parts.popping.pops.waiting) == 0)
        await asyncio.gather(waiting, return_exceptions=True)
        await send(client, b"second")
        ((record, _),) = await pop(client)
        assert (record.body, record.delivery_attempt) == (b"second", 0)


async def test_a_message_dies_at_the_limit_of_its_group_without_any_client(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        broker.parts.tables.groups.update(GroupConfig(group_name=GROUP, retry_max_times=1))
        await send(client, b"poison")
        assert len(await pop(client, invisible_time=1)) == 1
        assert len(await pop(client, invisible_time=1, poll_time=5_000)) == 1
        await until(lambda: broker.store.reader.range_of(f"%DLQ%{GROUP}", 0) is not None)
        assert await pop(client) == []
