"""SQL92 over real sockets: what pulls are answered, who is woken, what consumers see, what outlives the broker."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.aio import Admin, Message, Producer, PullConsumer, PushConsumer, ReceivedMessage
from pyromq.broker.base.settings import BrokerSettings
from pyromq.client.sync import consumers
from pyromq.errors import BrokerError, ExpressionRefusedError
from pyromq.settings import PullConsumerSettings, PushConsumerSettings
from pyromq.store.settings import StoreSettings
from pyromq.testing import LoopbackBroker
from pyromq.testing.loopback import SMALL_FILES
from pyromq.wire.batch import BatchItem, encode_batch
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.consumer import PullHeader
from pyromq.wire.json import java_json
from pyromq.wire.json.heartbeat import CheckClient, ConsumerData, Heartbeat, Subscription, encode_heartbeat
from tests.integration.test_broker import Client, pull, pull_header, running, send, send_header
from tests.integration.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

PULLING = PullConsumerSettings(
    start="earliest", rebalance_ms=1_000, persist_ms=100, error_wait_ms=100, suspend_ms=500
)  # a held pull tells what it passed over when its time is over
PUSHING = PushConsumerSettings(start="earliest", rebalance_ms=1_000, persist_ms=100, error_wait_ms=100, suspend_ms=500)


def by_sql(text: str, offset: int = 0, **changes: Any) -> PullHeader:
    """A pull that brings its expression along."""
    wait_ms = changes.pop("wait_ms", 0)
    return msgspec.structs.replace(pull_header(offset, tags=text, wait_ms=wait_ms), expression_type="SQL92", **changes)


def as_member(offset: int = 0, version: int = 1, topic: str = "orders") -> PullHeader:
    """A pull that relies on the group's heartbeat."""
    header = pull_header(offset, topic=topic)
    return msgspec.structs.replace(header, sys_flag=0, subscription=None, sub_version=version)


def sql(text: str, version: int = 1, topic: str = "orders", kind: str = "SQL92") -> Subscription:
    return Subscription(topic=topic, sub_string=text, sub_version=version, expression_type=kind)


async def beat(client: Client, *subscriptions: Subscription) -> None:
    data = ConsumerData(group_name="readers", subscription_data_set=subscriptions)
    heartbeat = Heartbeat(client_id="c1", consumer_data_set=(data,))
    assert (await client.ask(RequestCode.HEART_BEAT, None, encode_heartbeat(heartbeat))).code == ResponseCode.SUCCESS


async def fill(client: Client, count: int, **properties: str) -> None:
    """A batch of messages with the same properties."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    body = encode_batch([BatchItem(b"%d" % number, text) for number in range(count)])
    answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, send_header(batch=True), body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def test_a_pull_sees_what_matches_and_goes_on_behind_the_rest(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        for number in range(6):
            await send(client, b"%d" % number, properties=f"price\x01{number}\x02")
        code, records, header = await pull(client, by_sql("price BETWEEN 2 AND 3"))
        assert (code, [record.body for record in records], header.next_begin_offset) == (0, [b"2", b"3"], 6)
        code, records, header = await pull(client, by_sql("price > 100"))
        assert (code, records, header.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, [], 6)


async def test_one_pull_looks_at_so_many_messages_only(tmp_path: Path) -> None:
    store = StoreSettings(segment_bytes=1 << 20, full_percent=100, scan_entries_max=10)
    async with running(tmp_path, store=store) as (_, client):
        await fill(client, 25, a="1")
        offsets = [0]
        while len(offsets) < 4:
            code, _, header = await pull(client, by_sql("a = 2", offsets[-1]))
            assert code == ResponseCode.PULL_RETRY_IMMEDIATELY
            offsets.append(header.next_begin_offset)
        assert offsets == [0, 10, 20, 25]


async def test_a_held_pull_sleeps_until_a_message_matches(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await send(client, b"0", properties="a\x010\x02")
        waiting = asyncio.create_task(pull(client, by_sql("a = 9", 1, wait_ms=15_000)))
        await until(lambda: len(broker.parts.waiters) == 1)
        for number in range(1, 4):
            await send(client, b"%d" % number, properties=f"a\x01{number}\x02")
        assert not waiting.done() and len(broker.parts.waiters) == 1
        await send(client, b"9", properties="a\x019\x02")
        code, (record,), header = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (code, record.body, header.next_begin_offset) == (0, b"9", 5)


async def test_a_held_pull_whose_time_is_over_goes_on_behind_what_it_slept_through(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await fill(client, 2, a="1")
        waiting = asyncio.create_task(pull(client, by_sql("a = 9", 2, wait_ms=400)))
        await until(lambda: len(broker.parts.waiters) == 1)
        await fill(client, 3, a="1")
        code, _, header = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (code, header.next_begin_offset) == (ResponseCode.PULL_NOT_FOUND, 5)


async def test_a_held_pull_is_sent_on_when_more_arrives_than_one_read_looks_at(tmp_path: Path) -> None:
    store = StoreSettings(segment_bytes=1 << 20, full_percent=100, scan_entries_max=10)
    async with running(tmp_path, store=store) as (broker, client):
        await fill(client, 1, a="1")
        waiting = asyncio.create_task(pull(client, by_sql("a = 2", 1, wait_ms=15_000)))
        await until(lambda: len(broker.parts.waiters) == 1)
        await fill(client, 25, a="1")
        code, _, header = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (code, header.next_begin_offset) == (ResponseCode.PULL_RETRY_IMMEDIATELY, 11)


async def refusal(client: Client, header: PullHeader) -> tuple[int, str]:
    answer = await client.ask(RequestCode.PULL_MESSAGE, header)
    return answer.code, answer.remark or ""


async def test_a_pull_is_told_what_is_missing(tmp_path: Path) -> None:
    async with running(tmp_path) as (broker, client):
        await fill(client, 3, a="1")
        assert (await refusal(client, by_sql("a >")))[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        code, remark = await refusal(client, by_sql("(" * 1_000))
        assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED and "more than 64 parentheses" in remark
        await beat(client, sql("a >", version=5))
        code, remark = await refusal(client, as_member(version=5))
        assert code == ResponseCode.FILTER_DATA_NOT_EXIST and "ends too early" in remark
        await beat(client, sql("a = 1", version=6))
        assert (await refusal(client, as_member(version=7)))[0] == ResponseCode.SUBSCRIPTION_NOT_LATEST
        code, records, _ = await pull(client, as_member(version=6))
        assert code == 0 and len(records) == 3
        broker.parts.tables.filters.table.put(
            msgspec.structs.replace(broker.parts.tables.filters.data("orders", "readers"), client_version=5)
        )
        assert (await refusal(client, as_member(version=6)))[0] == ResponseCode.FILTER_DATA_NOT_LATEST
        broker.settings.property_filter = False
        code, remark = await refusal(client, by_sql("a = 1"))
        assert code == ResponseCode.SYSTEM_ERROR and "enablePropertyFilter" in remark


async def test_an_expression_can_be_checked_before(tmp_path: Path) -> None:
    async def check(subscription: Subscription) -> int:
        question = CheckClient(client_id="c1", group="readers", subscription_data=subscription)
        return (await client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, java_json.dumps(question))).code

    async with running(tmp_path) as (broker, client):
        assert await check(sql("TagA", kind="TAG")) == ResponseCode.SUCCESS
        assert await check(sql("a = 1")) == ResponseCode.SUCCESS
        assert await check(sql("a LIKE 'x'")) == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        broker.settings.property_filter = False
        assert await check(sql("a = 1")) == ResponseCode.SYSTEM_ERROR
        assert await check(sql("TagA", kind="TAG")) == ResponseCode.SUCCESS


async def test_retried_messages_pass_the_filter_of_their_topic_when_that_is_switched_on(tmp_path: Path) -> None:
    retries = "%RETRY%readers"
    async with running(tmp_path) as (broker, client):
        await send(client, b"0")
        await beat(client, sql("a = 1"), sql("*", topic=retries, kind="TAG"))
        for number in range(3):
            await send(client, b"%d" % number, topic=retries, properties=f"RETRY_TOPIC\x01orders\x02a\x01{number}\x02")
        _, everything, _ = await pull(client, as_member(topic=retries))
        broker.settings.filter_retries = True
        _, matching, header = await pull(client, as_member(topic=retries))
        assert [record.body for record in everything] == [b"0", b"1", b"2"]
        assert ([record.body for record in matching], header.next_begin_offset) == ([b"1"], 3)


async def test_filters_outlive_the_broker(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        await beat(client, sql("a = 1", version=7))
    assert (tmp_path / "store/config/consumerFilter.json").exists()
    async with running(tmp_path) as (broker, client):
        data = broker.parts.tables.filters.data("orders", "readers")
        assert data is not None and (data.expression, data.client_version, data.dead) == ("a = 1", 7, False)
        await fill(client, 2, a="1")
        await beat(client, sql("a = 1", version=7))
        assert len((await pull(client, as_member(version=7)))[1]) == 2


# --- consumers -----------------------------------------------------------------------------------------------------


async def orders(broker: LoopbackBroker, count: int = 20) -> Producer:
    """A topic of two queues with prices 0, 1, 2, … and regions in turn; its producer."""
    async with Admin(broker.nameserver) as admin:
        await admin.topics.create("orders", queues=2)
    producer = Producer(broker.nameserver, group="makers")
    await producer.open()
    for number in range(count):
        await producer.send(order(number))
    return producer


def order(number: int) -> Message:
    region = ("eu", "us", "asia")[number % 3]
    return Message("orders", b"%d" % number, properties={"price": str(number), "region": region})


async def test_groups_with_different_expressions_get_what_they_asked_for_and_get_on() -> None:
    async with LoopbackBroker() as broker:
        producer = await orders(broker)
        seen: list[int] = []

        async def note(message: ReceivedMessage) -> None:
            seen.append(int(message.body))

        pushed = PushConsumer(broker.nameserver, group="pushed", listener=note, settings=PUSHING)
        pushed.subscribe("orders", "price >= 10 AND region IN ('eu', 'us')", sql=True)
        pulled = PullConsumer(broker.nameserver, group="pulled", settings=PULLING)
        pulled.subscribe("orders", "NOT (region = 'eu') AND price < 5", sql=True)
        async with pushed, pulled:
            found: list[int] = []
            async with asyncio.timeout(15):
                while len(found) < 3:
                    found += [int(message.body) for message in await pulled.poll(1_000)]
            await producer.send(order(21))
            await producer.send(order(23))
            wanted = {number for number in range(10, 20) if number % 3 != 2} | {21}
            await until(lambda: set(seen) >= wanted, "pushed")
            progress, reader = broker.broker.parts.tables.progress, broker.broker.store.reader

            def is_done(group: str, number: int) -> bool:
                known = reader.range_of("orders", number)
                return known is not None and progress.committed(group, "orders", number) == known.end

            async with asyncio.timeout(15):
                while not all(is_done(group, number) for group in ("pushed", "pulled") for number in range(2)):
                    assert not await pulled.poll(50)
        await producer.close()
        assert sorted(found) == [1, 2, 4] and sorted(seen) == sorted(wanted)


async def test_a_bad_expression_is_an_error_at_once() -> None:
    async with LoopbackBroker() as broker:
        producer = await orders(broker, 1)
        await producer.close()

        async def note(message: ReceivedMessage) -> None: ...

        consumer = PushConsumer(broker.nameserver, group="readers", listener=note, settings=PUSHING)
        consumer.subscribe("orders", "price LIKE '1%'", sql=True)
        with pytest.raises(ExpressionRefusedError, match="'LIKE' at character 7 is not expected"):
            await consumer.open()
        async with PullConsumer(broker.nameserver, group="readers", settings=PULLING) as reader:
            reader.subscribe("orders", "price >", sql=True)
            with pytest.raises(ExpressionRefusedError, match="ends too early"):
                await asyncio.wait_for(reader.poll(15_000), PATIENCE_S)
            reader.subscribe("orders", "price = 0", sql=True)
            assert [message.body for message in await reader.poll(15_000)] == [b"0"]
        async with PullConsumer(broker.nameserver, group="readers", settings=PULLING) as reader:
            queues = await reader.queues("orders")
            with pytest.raises(ExpressionRefusedError):
                await reader.assign(queues, "price = 'a", sql=True)
            await reader.assign(queues, "price = 7 OR price = 0", sql=True)
            for queue in queues:
                await reader.seek(queue, 0)
            assert [message.body for message in await reader.poll(15_000)] == [b"0"]


async def test_a_push_consumer_that_changes_to_a_bad_expression_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with LoopbackBroker() as broker:
        producer = await orders(broker, 1)
        await producer.close()

        async def note(message: ReceivedMessage) -> None: ...

        async with PushConsumer(
            broker.nameserver, group="readers", listener=note, topics="orders", settings=PUSHING
        ) as consumer:
            with caplog.at_level(logging.ERROR, "pyromq.client.consumer.group_member"):
                consumer.subscribe("orders", "price =", sql=True)
                await until(lambda: "ends too early" in caplog.text, "the refusal is logged")


async def test_a_broker_that_does_not_filter_by_sql_says_so() -> None:
    async with LoopbackBroker(BrokerSettings(store=SMALL_FILES, property_filter=False)) as broker:
        producer = await orders(broker, 1)
        await producer.close()
        consumer = PullConsumer(broker.nameserver, group="readers", settings=PULLING)
        consumer.subscribe("orders", "price > 1", sql=True)
        with pytest.raises(BrokerError, match="enablePropertyFilter is off"):
            await consumer.open()


def test_the_face_without_asyncio_filters_too() -> None:
    with LoopbackBroker() as broker:

        async def prepare() -> None:
            await (await orders(broker, 6)).close()

        asyncio.run(prepare())
        settings = replace(PULLING, poll_batch=1)
        with consumers.PullConsumer(broker.nameserver, group="readers", settings=settings) as reader:
            reader.subscribe("orders", "price = 4", sql=True)
            assert next(reader).body == b"4"
        bad = consumers.PullConsumer(broker.nameserver, group="readers", settings=settings)
        bad.subscribe("orders", "price ==", sql=True)
        with pytest.raises(ExpressionRefusedError), bad:
            pass
