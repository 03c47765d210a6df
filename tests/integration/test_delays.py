"""Delayed messages through a whole broker: levels, times, taking back, and a process that is killed in between."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyromq import aio
from pyromq.broker.base.settings import BrokerSettings
from pyromq.clock import SystemClock
from pyromq.net import Address, Connection, open_connection
from pyromq.store.message_store import MessageStore
from pyromq.store.timers.check import TimerCheck
from pyromq.testing import AsyncServerProcess, LoopbackBroker, ManualClock
from pyromq.testing.loopback import SMALL_FILES
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.headers.producer import RecallMessageHeader, RecallMessageResponseHeader
from pyromq.wire.json import bodies
from pyromq.wire.json.java_json import decode as decode_java
from pyromq.wire.received import Received
from pyromq.wire.record import split_records
from tests.integration.waiting import PATIENCE_S, until

pytestmark = pytest.mark.integration

QUICK = replace(SMALL_FILES, delay_ladder_ms=(100, 300, 600_000))
HOUR_MS = 3_600_000


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Connection]:
    connection = await open_connection(Address.parse(address), clock=SystemClock())
    try:
        yield connection
    finally:
        connection.close()
        await connection.wait_closed()


async def ask(address: str, code: int, header: Any = None) -> Received[Any]:
    async with connected(address) as connection:
        return await connection.request(code, header, timeout_ms=30_000)


async def runtime(address: str) -> dict[str, str]:
    answer = await ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    return decode_java(answer.body, bodies.KeyValues).table


def bodies_of(store: MessageStore, topic: str = "orders") -> list[bytes]:
    found: list[bytes] = []
    for name, queue_id in store.queues:
        queue = store.reader.range_of(name, queue_id)
        offset = queue.first if queue else 0
        while name == topic and queue and offset < queue.end:
            result = store.reader.read(name, queue_id, offset)
            found += [record.body for record in split_records(result.to_bytes())]
            offset = result.next_offset
    return found


@asynccontextmanager
async def broker_and_producer(**settings: Any) -> AsyncIterator[tuple[LoopbackBroker, aio.Producer]]:
    async with LoopbackBroker(BrokerSettings(store=QUICK, **settings)) as broker:
        async with aio.Producer(broker.nameserver, group="makers") as producer:
            yield broker, producer


async def test_levels_and_times_are_delivered_and_counted() -> None:
    async with broker_and_producer() as (broker, producer):
        store = broker.broker.store
        for level in (1, 2, 3):
            await producer.send(aio.Message("orders", b"level %d" % level, delay_level=level))
        await producer.send(aio.Message("orders", b"time", delay_ms=250))
        await producer.send(aio.Message("orders", b"later", delay_ms=HOUR_MS))
        await until(lambda: len(bodies_of(store)) == 3, "three are due")
        assert bodies_of(store).index(b"level 1") < bodies_of(store).index(b"level 2")
        told = await runtime(broker.address)
        assert (told["scheduleMessageOffset_1"], told["scheduleMessageOffset_3"]) == ("1,1", "0,1")
        assert (told["delayLevelsPending"], told["timersPending"], told["timerCongestNum"]) == ("1", "1", "1")
        assert (told["delayLevelsDelivered"], told["timersDelivered"]) == ("2", "1")
        offsets = await ask(broker.address, RequestCode.GET_ALL_DELAY_OFFSET)
        assert b"1:1" in offsets.body and b"3:0" in offsets.body
        metrics = await ask(broker.address, RequestCode.GET_TIMER_METRICS)
        assert b'"orders"' in metrics.body and b'"count":1' in metrics.body
        check = await ask(broker.address, RequestCode.GET_TIMER_CHECK_POINT)
        assert len(check.body) == len(TimerCheck().pack())


async def test_a_flood_of_one_level_keeps_its_order() -> None:
    async with broker_and_producer() as (broker, producer):
        queue = (await producer.send(aio.Message("orders", b"first"))).queue
        wanted = [b"%d" % number for number in range(1_000)]
        sends = [producer.send(aio.Message("orders", body, delay_level=1), queue=queue) for body in wanted]
        await asyncio.gather(*sends)
        await until(lambda: len(bodies_of(broker.broker.store)) == 1_001, "all are delivered")
        waiting = bodies_of(broker.broker.store, "SCHEDULE_TOPIC_XXXX")
        assert bodies_of(broker.broker.store) == [b"first", *waiting]


async def test_a_clock_that_is_moved_lets_tests_pass_time() -> None:
    clock = ManualClock()
    async with LoopbackBroker(BrokerSettings(store=SMALL_FILES), clock=clock) as broker:
        async with aio.Producer(broker.nameserver, group="makers") as producer:
            await producer.send(aio.Message("orders", b"a", delay_level=18))
            await producer.send(aio.Message("orders", b"b", delay_ms=3 * HOUR_MS))
            store = broker.broker.store
            clock.advance_ms(2 * HOUR_MS + 1_000)
            await until(lambda: bodies_of(store) == [b"a"], "two hours have passed")
            clock.set_ms(clock.now_ms() + 24 * HOUR_MS)  # somebody sets the clock of the machine
            await asyncio.sleep(0.3)
            assert bodies_of(store) == [b"a"]
            clock.advance_ms(HOUR_MS)
            await until(lambda: sorted(bodies_of(store)) == [b"a", b"b"], "three hours have passed")


# --- taking back ---


async def recall(broker: LoopbackBroker, handle: str, topic: str = "orders") -> Received[Any]:
    header = RecallMessageHeader(producer_group="g", topic=topic, recall_handle=handle)
    return await ask(broker.address, RequestCode.RECALL_MESSAGE, header)


async def test_a_message_taken_back_never_comes_and_cannot_be_taken_back_again() -> None:
    async with broker_and_producer() as (broker, producer):
        gone = await producer.send(aio.Message("orders", b"gone", delay_ms=1_500))
        await producer.send(aio.Message("orders", b"stays", delay_ms=1_500))
        answer = await recall(broker, gone.recall_handle)
        assert answer.code == ResponseCode.SUCCESS
        assert answer.header_as(RecallMessageResponseHeader).msg_id == gone.message_id
        again = await recall(broker, gone.recall_handle)
        assert again.code == ResponseCode.ILLEGAL_OPERATION and "already cancelled" in (again.remark or "")
        counters = broker.broker.parts.stats.counters
        await until(lambda: counters.timers_delivered == 1 and counters.timers_cancelled == 1, "both are over")
        assert bodies_of(broker.broker.store) == [b"stays"]
        late = await recall(broker, gone.recall_handle)
        assert late.code == ResponseCode.ILLEGAL_OPERATION and "too late" in (late.remark or "")


async def test_what_cannot_be_taken_back_is_refused_with_a_reason() -> None:
    async with broker_and_producer() as (broker, producer):
        receipt = await producer.send(aio.Message("orders", b"a", delay_ms=HOUR_MS))
        await producer.send(aio.Message("other", b"a"))

        def handle(*words: object) -> str:
            return urlsafe_b64encode(" ".join(map(str, words)).encode()).decode()

        due_ms = broker.broker._clock.now_ms() + HOUR_MS
        cases = [
            ("orders", "no handle!", "not a recall handle"),
            ("orders", handle("v2", "orders", "broker-a", due_ms, "K"), "not a recall handle"),
            ("other", receipt.recall_handle, "belongs to topic orders"),
            ("orders", handle("v1", "orders", "broker-b", due_ms, "K"), "waits on broker broker-b"),
            ("orders", handle("v1", "orders", "broker-a", due_ms, "K"), "no message K"),
        ]
        for topic, text, reason in cases:
            answer = await recall(broker, text, topic)
            assert answer.code == ResponseCode.ILLEGAL_OPERATION and reason in (answer.remark or ""), answer.remark
        assert (await recall(broker, receipt.recall_handle, "nowhere")).code == ResponseCode.TOPIC_NOT_EXIST
    async with broker_and_producer(recall_messages=False) as (broker, producer):
        receipt = await producer.send(aio.Message("orders", b"a", delay_ms=HOUR_MS))
        assert (await recall(broker, receipt.recall_handle)).code == ResponseCode.NO_PERMISSION


# --- a process that dies ---


async def test_a_broker_killed_while_it_delivers_loses_no_delayed_message(tmp_path: Path) -> None:
    rng, sent = Random(5), set()
    async with AsyncServerProcess("up", data=tmp_path / "data") as server:
        async with aio.Producer(server.nameserver, group="makers") as producer:

            async def send(number: int) -> None:
                body = b"%d" % number
                delay = {"delay_level": 1} if number % 3 == 0 else {"delay_ms": 300 + number * 7}
                await producer.send(aio.Message("orders", body, **delay))
                sent.add(body)

            await asyncio.gather(*(send(number) for number in range(400)))
        for _ in range(3):
            await asyncio.sleep(rng.uniform(0.2, 0.6))  # the fault itself: nothing waits for a result
            await server.kill()
            await server.start()
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            told = await runtime(server.broker)
            if told["delayLevelsPending"] == told["timersPending"] == "0":
                break
            assert asyncio.get_running_loop().time() < deadline, told
            await asyncio.sleep(0.05)
    with MessageStore.open(tmp_path / "data") as store:
        found = bodies_of(store)
    assert len(sent) == 400 and set(found) == sent, f"lost {sorted(sent - set(found))}"
