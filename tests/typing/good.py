"""What runs is accepted: mypy --strict finds nothing here, and ``main`` runs."""

from __future__ import annotations

import sqlite3
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyromq import Message, Producer, PullConsumer, PushConsumer, SendReceipt, TransactionProducer, aio, typed
from pyromq.operate.letter_filter import DeadLetter
from pyromq.outbox import AsyncForwardingProducer, ForwardingProducer, KeptReceipt, Outbox, OutboxProducer
from pyromq.results import ConsumeStatus, OrderlyStatus

NOWHERE = "127.0.0.1:1"


@dataclass
class Order:
    id: int


def typed_listener(order: Order) -> None:
    del order


def typed_listener_of_both(order: Order, message: aio.ReceivedMessage) -> ConsumeStatus:
    del order, message
    return ConsumeStatus.SUCCESS


async def async_typed_listener(order: Order) -> None:
    del order


def typed_batch_listener(orders: list[Order]) -> None:
    del orders


def listener(message: aio.ReceivedMessage) -> ConsumeStatus:
    first: str = message.keys[0] if message.keys else ""
    return ConsumeStatus.SUCCESS if first else ConsumeStatus.RETRY


def quiet_listener(message: aio.ReceivedMessage) -> None:
    del message


def orderly_listener(message: aio.ReceivedMessage) -> OrderlyStatus | None:
    del message
    return None


def batch_listener(messages: list[aio.ReceivedMessage]) -> None:
    del messages


async def async_listener(message: aio.ReceivedMessage) -> None:
    del message


async def async_batch_listener(messages: list[aio.ReceivedMessage]) -> ConsumeStatus:
    del messages
    return ConsumeStatus.SUCCESS


def messages() -> list[Message]:
    return [
        Message("orders", b"1"),
        Message("orders", bytearray(b"1")),
        Message("orders", memoryview(b"1")),
        Message("orders", b"1", keys="a b"),
        Message("orders", b"1", keys=["a", "b"]),
        Message("orders", b"1", keys=("a", "b")),
        Message("orders", b"1", keys={"a", "b"}),
        Message("orders", b"1", keys=deque(["a"])),
        Message("orders", b"1", keys=(word for word in ("a", "b"))),
        Message("orders", b"1", "tag", ["a"], {"name": "value"}, "shard"),
        Message("orders", b"1", deliver_at_ms=1, flag=3, wait_stored=False),
        Message("orders", b"1", delay=timedelta(minutes=30)),
        Message("orders", b"1", delay=2.5),
        Message("orders", b"1", deliver_at=datetime.now(UTC)),
        typed.message("orders", Order(1), keys="a", delay=3),
    ]


def never_called(producer: Producer, sender: TransactionProducer, message: aio.ReceivedMessage) -> None:
    """Types alone: sends need a broker."""
    receipt: SendReceipt = producer.send("orders", Order(1), keys="a", tags="new", timeout=2.5, queue=None)
    receipt = producer.send(Message("orders", b"1"), timeout=timedelta(seconds=1), selector=None)
    receipts: list[SendReceipt] = producer.send_batch("orders", [Order(1), Order(2)], tags="new", timeout_ms=3)
    receipts = producer.send_batch([Message("orders", b"1")], timeout=3)
    producer.send_nowait("orders", {"a": 1}, callback=None).result()
    producer.send_oneway("orders", "text", content_type="application/json")
    order: Order = producer.request("orders", Order(1), timeout=1).decode(Order)
    producer.reply(message, Order(2), timeout=1)
    with sender.transaction("orders", Order(1), keys="a", check_after_ms=3) as transaction:
        transaction.commit()
    sender.send("orders", Order(1), lambda transaction: None, keys="a")
    sender.send(Message("orders", b"1"), lambda transaction: None, 7, timeout=3)
    found: int = message.decode(int)
    decoded: Order = typed.decoder_for(Order)(b"{}", {})
    del receipt, receipts, order, found, decoded


async def never_awaited(producer: aio.Producer, consumer: aio.PullConsumer) -> None:
    receipt: SendReceipt = await producer.send("orders", Order(1), deliver_at=datetime.now(UTC))
    receipt = await producer.send_nowait("orders", Order(1), timeout=3)
    reply: aio.ReceivedMessage = await producer.request("orders", Order(1))
    messages: list[aio.ReceivedMessage] = await consumer.poll(timeout=timedelta(seconds=1))
    del receipt, reply, messages


def keys_of(message: Message, letter: DeadLetter) -> tuple[str, ...]:
    return message.keys + letter.keys


def consumers() -> None:
    PushConsumer(NOWHERE, group="g", listener=listener, topics="orders")
    PushConsumer(NOWHERE, group="g", listener=quiet_listener, topics=["orders"])
    PushConsumer(NOWHERE, group="g", listener=orderly_listener, orderly=True)
    PushConsumer(NOWHERE, group="g", listener=lambda message: None, topics={"orders": "a || b"})
    PushConsumer(NOWHERE, group="g", batch_listener=batch_listener, batch_max=3)
    PushConsumer(NOWHERE, group="g", listener=typed_listener, consume_timeout=timedelta(minutes=1))
    PushConsumer(NOWHERE, group="g", listener=typed_listener_of_both)
    PushConsumer(NOWHERE, group="g", batch_listener=typed_batch_listener, batch_max=3)
    aio.PushConsumer(NOWHERE, group="g", listener=async_typed_listener)
    PullConsumer(NOWHERE, group="g", poll_timeout=0.5)
    PullConsumer(NOWHERE, group="g", topics=("orders", "mails"), poll_batch=3)
    aio.PushConsumer(NOWHERE, group="g", listener=async_listener)
    aio.PushConsumer(NOWHERE, group="g", listener=listener)
    aio.PushConsumer(NOWHERE, group="g", batch_listener=async_batch_listener)


def outboxes(folder: Path) -> None:
    outbox = Outbox(folder / "app.db")
    outbox.create()
    connection = sqlite3.connect(folder / "app.db")
    with outbox.begin(connection) as box:
        box.add(Message("orders", b"1"), Message("orders", b"2", delay_ms=3))
        box.add("orders", Order(1), keys="a", delay=timedelta(days=1))
    connection.close()
    OutboxProducer(NOWHERE, group="g", topics="orders", outbox=outbox)
    AsyncForwardingProducer(NOWHERE, group="g", outbox=outbox)
    with ForwardingProducer(NOWHERE, group="g", outbox=outbox) as producer:
        receipt: SendReceipt | KeptReceipt = producer.send(Message("orders", b"3"), timeout_ms=10)
        assert isinstance(receipt, KeptReceipt)
        receipt = producer.send("orders", Order(4), keys="a", timeout=0.01)
        assert isinstance(receipt, KeptReceipt)
    outbox.database.close()


def main(folder: Path) -> None:
    letter = DeadLetter(
        group="g",
        topic="t",
        message_id="m",
        broker="b",
        queue=0,
        offset=0,
        born_ms=0,
        dead_ms=0,
        attempts=1,
        keys=("c",),
    )
    for message in messages():
        assert isinstance(message.body, bytes)
        assert isinstance(keys_of(message, letter), tuple)
    consumers()
    outboxes(folder)
