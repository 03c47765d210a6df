"""What runs is accepted: mypy --strict finds nothing here, and ``main`` runs."""

from __future__ import annotations

import sqlite3
from collections import deque
from pathlib import Path

from pyromq import Message, PullConsumer, PushConsumer, SendReceipt, aio
from pyromq.client.admin.dead_letters import DeadLetter
from pyromq.outbox import AsyncForwardingProducer, ForwardingProducer, KeptReceipt, Outbox, OutboxProducer
from pyromq.results import ConsumeStatus, OrderlyStatus

NOWHERE = "127.0.0.1:1"


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
    ]


def keys_of(message: Message, letter: DeadLetter) -> tuple[str, ...]:
    return message.keys + letter.keys


def consumers() -> None:
    PushConsumer(NOWHERE, group="g", listener=listener, topics="orders")
    PushConsumer(NOWHERE, group="g", listener=quiet_listener, topics=["orders"])
    PushConsumer(NOWHERE, group="g", listener=orderly_listener, orderly=True)
    PushConsumer(NOWHERE, group="g", listener=lambda message: None, topics={"orders": "a || b"})
    PushConsumer(NOWHERE, group="g", batch_listener=batch_listener, batch_max=3)
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
    connection.close()
    OutboxProducer(NOWHERE, group="g", topics="orders", outbox=outbox)
    AsyncForwardingProducer(NOWHERE, group="g", outbox=outbox)
    with ForwardingProducer(NOWHERE, group="g", outbox=outbox) as producer:
        receipt: SendReceipt | KeptReceipt = producer.send(Message("orders", b"3"), timeout_ms=10)
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
