"""Values from producers to listeners through a real broker: types, dead letters of what does not decode, times."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

import pyromq
from pyromq.aio import Admin, Message, Producer, PullConsumer, PushConsumer, ReceivedMessage, TransactionProducer
from pyromq.errors import BodyError, ConfigError, DeadLetterError, MessageRefusedError
from pyromq.idempotent import Marks, once, once_for_batch, once_in_transaction
from pyromq.outbox import Outbox, OutboxProducer
from pyromq.results import OrderlyStatus, TransactionOutcome
from pyromq.settings import PullConsumerSettings, PushConsumerSettings
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

FAST = PushConsumerSettings(start="earliest", rebalance_ms=500, persist_ms=100, retry_wait_ms=100, rest_ms=10)
TOPIC = "orders"


class Order(msgspec.Struct):
    id: int
    note: str = ""


@dataclass
class Payment:
    order: int


class Customer(BaseModel):
    name: str


@asynccontextmanager
async def running(queues: int = 1) -> AsyncIterator[tuple[LoopbackBroker, Producer]]:
    async with LoopbackBroker() as broker:
        async with Admin(broker.nameserver) as admin, Producer(broker.nameserver, group="makers") as producer:
            await admin.topics.create(TOPIC, queues=queues)
            yield broker, producer


def consumer(broker: LoopbackBroker, group: str, listener: Any = None, **changes: Any) -> PushConsumer:
    return PushConsumer(broker.nameserver, group=group, listener=listener, topics=TOPIC, settings=FAST, **changes)


async def dead_letters(broker: LoopbackBroker, group: str, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    settings = PullConsumerSettings(start="earliest", rebalance_ms=200)
    async with PullConsumer(broker.nameserver, group="undertaker", settings=settings) as reader, asyncio.timeout(60):
        reader.subscribe(f"%DLQ%{group}")
        while len(found) < count:
            found += await reader.poll(timeout=0.5)
    return found


async def test_values_of_many_types_reach_listeners_of_their_annotation() -> None:
    got: list[Any] = []

    async def orders(order: Order) -> None:
        got.append(order)

    def payments(payment: Payment, message: ReceivedMessage) -> None:
        got.append((payment, message.schema, message.content_type, message.keys))

    async with running() as (broker, producer):
        await producer.send(TOPIC, Order(1, "ü"), keys="order-1", tags="order", timeout=2.5)
        await producer.send(TOPIC, Payment(1), keys=["payment-1"], tags="payment", timeout=timedelta(seconds=3))
        settings = {"settings": FAST, "start": "earliest"}
        first = PushConsumer(broker.nameserver, group="a", listener=orders, topics={TOPIC: "order"}, **settings)  # type: ignore[arg-type]
        async with first:
            await until(lambda: len(got) == 1)
        second = PushConsumer(broker.nameserver, group="b", listener=payments, topics={TOPIC: "payment"}, **settings)  # type: ignore[arg-type]
        async with second:
            await until(lambda: len(got) == 2)
    assert got == [Order(1, "ü"), (Payment(1), "Payment", "application/json", ("payment-1",))]


async def test_every_way_of_sending_takes_a_topic_and_a_value() -> None:
    got: list[Any] = []

    async def handle(message: ReceivedMessage) -> None:
        got.append((message.decode(Any), message.schema, message.text))

    async with running() as (broker, producer):
        await producer.send(TOPIC, {"way": "send"}, properties={"a": "b"})
        await producer.send_nowait(TOPIC, {"way": "nowait"}, timeout=3)
        await producer.send_oneway(TOPIC, {"way": "oneway"})
        receipts = await producer.send_batch(TOPIC, [Order(1), Order(2)], tags="batch")
        assert len(receipts) == 2
        async with consumer(broker, "ways", handle):
            await until(lambda: len(got) == 5)
    values = [value for value, _, _ in got]
    assert {each["way"] for each in values if "way" in each} == {"send", "nowait", "oneway"}
    assert sorted(each["id"] for each in values if "id" in each) == [1, 2]
    assert {schema for value, schema, _ in got if "id" in value} == {"Order"}


async def test_a_message_of_another_client_is_decoded_by_the_annotation_alone() -> None:
    got: list[Customer] = []

    async def handle(customer: Customer) -> None:
        got.append(customer)

    async with running() as (broker, producer):
        await producer.send(Message(TOPIC, b'{"name": "Ada"}'))
        await producer.send(TOPIC, b'{"name": "Bob"}')
        async with consumer(broker, "others", handle):
            await until(lambda: len(got) == 2)
    assert [customer.name for customer in got] == ["Ada", "Bob"]


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("on_threads", [False, True])
async def test_what_does_not_decode_is_a_dead_letter_at_once_with_the_reason(
    orderly: bool, on_threads: bool, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[int] = []

    async def handle_soon(order: Order) -> None:
        got.append(order.id)

    def handle(order: Order) -> None:
        got.append(order.id)

    caplog.set_level(logging.WARNING, logger="pyromq")
    async with running() as (broker, producer):
        await producer.send(TOPIC, Order(1))
        await producer.send(TOPIC, {"id": "secret-id", "note": "x"}, keys="bad-1")
        await producer.send(TOPIC, "no order at all", keys="bad-2")
        await producer.send(TOPIC, Order(2))
        member = consumer(broker, "typed", handle if on_threads else handle_soon, orderly=orderly)
        async with member:
            await until(lambda: got == [1, 2] and member.counts.dead == 2)
            await until(lambda: sum(member.offsets(TOPIC).values()) == 4)
            letters = sorted(await dead_letters(broker, "typed", 2), key=lambda message: message.keys)
            assert (member.counts.ok, member.counts.failed) == (2, 2)
    assert [letter.keys for letter in letters] == [("bad-1",), ("bad-2",)]
    assert letters[0].json() == {"id": "secret-id", "note": "x"}
    assert letters[0].get("DLQ_ERROR") == "body is no Order: Expected `int`, got `str` at $.id"
    assert "the message is text/plain, and Order is read from JSON or MessagePack" in (
        letters[1].get("DLQ_ERROR") or ""
    )
    assert {letter.get("DLQ_STAGE") for letter in letters} == {"decode"}
    assert {letter.get("RETRY_TOPIC") for letter in letters} == {TOPIC}
    assert {letter.delivery_attempt for letter in letters} <= {0, 1}
    told = [record.getMessage() for record in caplog.records if "dead letter at once" in record.getMessage()]
    assert len(told) == 2
    assert not any("secret-id" in line for line in told), "bodies stay out of the log"


@pytest.mark.parametrize("orderly", [False, True])
async def test_the_others_of_a_batch_are_handed_out_again_without_the_dead_letters(orderly: bool) -> None:
    batches: list[list[int]] = []

    async def handle(orders: list[Order]) -> None:
        batches.append([order.id for order in orders])

    async with running() as (broker, producer):
        await producer.send_batch(TOPIC, [Order(1), Order(2)])
        await producer.send(TOPIC, [])
        await producer.send_batch(TOPIC, [Order(3), Order(4)])
        member = consumer(broker, "batches", batch_listener=handle, batch_max=8, orderly=orderly)
        async with member:
            await until(lambda: [each for batch in batches for each in batch] == [1, 2, 3, 4])
            await until(lambda: sum(member.offsets(TOPIC).values()) == 5)
            assert (member.counts.ok, member.counts.dead, member.counts.failed) == (4, 1, 1)
            assert len(await dead_letters(broker, "batches", 1)) == 1


async def test_a_listener_may_call_a_message_hopeless() -> None:
    async def handle(message: ReceivedMessage) -> None:
        raise DeadLetterError("customer\x01 is\nunknown" + "!" * 5_000)

    async with running() as (broker, producer):
        await producer.send(TOPIC, Order(1))
        member = consumer(broker, "hopeless", handle)
        async with member:
            await until(lambda: member.counts.dead == 1)
            (letter,) = await dead_letters(broker, "hopeless", 1)
            async with Admin(broker.nameserver) as admin:
                (listed,) = await admin.dead_letters.list("hopeless")
    reason = letter.get("DLQ_ERROR") or ""
    assert reason.startswith("customer  is\\nunknown!!!")
    assert len(reason) < 1_100
    assert listed.reason == reason
    assert letter.get("DLQ_STAGE") == "listener"


async def test_a_dead_letter_whose_properties_would_be_too_long_goes_without_the_reason() -> None:
    async def handle(order: Order) -> None:
        raise DeadLetterError("a long story" * 100)

    async with running() as (broker, producer):
        await producer.send(TOPIC, Order(1), properties={"long": "y" * 32_000})
        member = consumer(broker, "long", handle)
        async with member:
            (letter,) = await dead_letters(broker, "long", 1)
    assert letter.decode(Order) == Order(1)
    assert letter.get("DLQ_ERROR") is None


async def test_broadcasting_drops_what_does_not_decode(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    got: list[int] = []

    async def handle(order: Order) -> None:
        got.append(order.id)

    settings = PushConsumerSettings(start="earliest", broadcast=True, offsets_folder=tmp_path)
    async with running() as (broker, producer):
        await producer.send(TOPIC, "x")
        await producer.send(TOPIC, Order(1))
        member = PushConsumer(broker.nameserver, group="all", listener=handle, topics=TOPIC, settings=settings)
        async with member:
            await until(lambda: got == [1] and member.counts.dead == 1)


def test_an_error_of_the_listener_itself_is_tried_again_as_ever() -> None:
    tries: list[int] = []

    def handle(order: Order) -> None:
        tries.append(order.id)
        if len(tries) == 1:
            raise BodyError(expected="a reply", reason="of another message")

    with LoopbackBroker(virtual_time=True) as broker, pyromq.Producer(broker.nameserver, group="makers") as producer:
        producer.send(TOPIC, Order(7))
        member = pyromq.PushConsumer(broker.nameserver, group="again", listener=handle, topics=TOPIC, start="earliest")
        with member:
            broker.settle()
            broker.advance(seconds=11)
            assert tries == [7, 7]
            assert member.counts.dead == 0


async def test_listeners_that_act_once_take_values_too(tmp_path: Path) -> None:
    got: list[Any] = []
    marks = Marks(tmp_path / "marks.db", scope="once")

    async def one(order: Order) -> None:
        got.append(order.id)

    def many(orders: list[Order]) -> None:
        got.extend(order.id for order in orders)

    def in_transaction(order: Order, connection: Any) -> None:
        got.append(order.id)

    async with running() as (broker, producer):
        await producer.send(TOPIC, Order(1))
        await producer.send(TOPIC, "x")
        for number, (name, listener) in enumerate(
            {
                "listener": once(one, marks, key=lambda message: f"1{message.message_id}"),
                "batch_listener": once_for_batch(many, marks, key=lambda message: f"2{message.message_id}"),
                "listener ": once_in_transaction(in_transaction, marks, key=lambda message: f"3{message.message_id}"),
            }.items()
        ):
            member = consumer(broker, f"once{number}", **{name.strip(): listener})
            async with member:
                await until(lambda: len(got) == number + 1 and member.counts.dead == 1)  # noqa: B023
    assert got == [1, 1, 1]
    marks.database.close()


async def test_requests_and_replies_carry_values() -> None:
    async with running() as (broker, producer):

        async def price(order: Order, message: ReceivedMessage) -> None:
            await producer.reply(message, {"price": order.id * 2})

        async with consumer(broker, "prices", price):
            reply = await producer.request(TOPIC, Order(21), timeout=10)
            assert reply.decode(dict[str, int]) == {"price": 42}
            assert reply.json() == {"price": 42}


async def test_a_transaction_carries_a_value() -> None:
    got: list[int] = []

    async def handle(order: Order) -> None:
        got.append(order.id)

    async def check(message: ReceivedMessage) -> TransactionOutcome:
        return TransactionOutcome.COMMIT

    async with running() as (broker, _):
        sender = TransactionProducer(broker.nameserver, group="tx", topics=TOPIC, check=check, timeout=3)
        assert sender.settings.timeout_ms == 3_000
        async with sender, consumer(broker, "tx-readers", handle):
            async with sender.transaction(TOPIC, Order(1), keys="k", timeout=2) as transaction:
                assert transaction.message.keys == ("k",)
            receipt = await sender.send(TOPIC, Order(2), lambda transaction: TransactionOutcome.COMMIT)
            assert receipt.outcome is TransactionOutcome.COMMIT
            await until(lambda: sorted(got) == [1, 2])
            with pytest.raises(ConfigError, match="needs a function"):
                await sender.send(TOPIC, Order(3), None)  # type: ignore[call-overload]
            with pytest.raises(TypeError, match="did you mean 'timeout"):
                sender.transaction(Message(TOPIC, b"1"), timout=3)  # type: ignore[call-overload]


def test_delays_are_timedeltas_and_moments() -> None:
    arrived: list[str] = []

    def handle(text: str) -> None:
        arrived.append(text)

    with LoopbackBroker(virtual_time=True) as broker, pyromq.Producer(broker.nameserver, group="makers") as producer:
        now = datetime.fromtimestamp(broker.now_ms() / 1000, UTC)
        producer.send(TOPIC, "later", deliver_at=now + timedelta(hours=2))
        producer.send(TOPIC, "sooner", delay=timedelta(minutes=30))
        producer.send(TOPIC, "soonest", delay=1.5)
        member = pyromq.PushConsumer(broker.nameserver, group="later", listener=handle, topics=TOPIC, start="earliest")
        with member:
            broker.advance(seconds=1)
            assert arrived == []
            broker.advance(seconds=2)
            assert arrived == ["soonest"]
            broker.advance(minutes=30)
            assert arrived == ["soonest", "sooner"]
            broker.advance(hours=2)
    assert arrived == ["soonest", "sooner", "later"]


def test_the_sync_face_sends_values_and_waits_with_timeouts(loopback_address: str) -> None:
    got: list[Order] = []

    def handle(order: Order) -> OrderlyStatus | None:
        got.append(order)
        return None

    with pyromq.Producer(loopback_address, group="makers", timeout=5) as producer:
        producer.send(TOPIC, Order(1), timeout=timedelta(seconds=2))
        producer.send_nowait(TOPIC, Order(2)).result(60)
        producer.send_oneway(TOPIC, Order(3))
        producer.send_batch(TOPIC, [Order(4), Order(5)], timeout=3)
        with pytest.raises(ConfigError, match="timeout_ms=1 and timeout=2: give one of them"):
            producer.send(TOPIC, Order(1), timeout_ms=1, timeout=2)
        with pytest.raises(ConfigError, match="timeout=0 leaves no time"):
            producer.send(TOPIC, Order(1), timeout=0)
        with pytest.raises(MessageRefusedError, match="not str; send\\('orders', value\\)"):
            producer.send(TOPIC)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="keys beside a Message"):
            producer.send(Message(TOPIC, b"1"), keys="k")  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="no option 'key'; did you mean 'keys'"):
            producer.send(TOPIC, Order(1), key="k")  # type: ignore[call-overload]
    member = pyromq.PushConsumer(
        loopback_address,
        group="sync",
        listener=handle,
        topics=TOPIC,
        start="earliest",
        consume_timeout=timedelta(minutes=5),
    )
    assert member.consume_timeout_ms == 300_000
    assert member.run(messages=5, timeout=30) == 5
    assert sorted(order.id for order in got) == [1, 2, 3, 4, 5]


@pytest.fixture
def loopback_address() -> Any:
    """A broker on a loop of its own: the sync face may not run on the loop of a test."""
    import threading

    ready: list[str] = []
    started, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with LoopbackBroker() as broker, Admin(broker.nameserver) as admin:
            await admin.topics.create(TOPIC, queues=1)
            ready.append(broker.nameserver)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    started.wait(20)
    yield ready[0]
    stop.set()
    thread.join(20)


def test_outbox_producers_take_values(loopback_address: str, tmp_path: Path) -> None:
    got: list[int] = []

    def handle(order: Order) -> None:
        got.append(order.id)

    outbox = Outbox(tmp_path / "shop.db")
    outbox.create()
    mine = sqlite3.connect(tmp_path / "shop.db", isolation_level="IMMEDIATE")
    with OutboxProducer(loopback_address, group="boxes", topics=TOPIC, outbox=outbox, timeout=5) as producer:
        with producer.transaction(TOPIC, Order(1), keys="1"):
            pass
        with producer.transaction(TOPIC, Order(2), mine, keys="2"):
            pass
        with producer.transaction(Message(TOPIC, b'{"id": 3}'), connection=mine):
            pass
        with pytest.raises(TypeError, match="transaction\\(topic, value, connection\\)"):
            producer.transaction(TOPIC, Order(4), mine, mine)  # type: ignore[call-overload]
        with pytest.raises(MessageRefusedError, match="not str"):
            producer.transaction(TOPIC)  # type: ignore[call-overload]
    mine.close()
    member = pyromq.PushConsumer(loopback_address, group="boxed", listener=handle, topics=TOPIC, start="earliest")
    assert member.run(messages=3, timeout=30) == 3
    assert sorted(got) == [1, 2, 3]
    outbox.database.close()
