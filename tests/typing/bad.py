"""What mypy refuses is refused at run time, too: every function that is marked fails in both."""

from __future__ import annotations

from pathlib import Path

from pyromq import Message, Producer, PushConsumer, TransactionOutcome, TransactionProducer, aio
from pyromq.outbox import ForwardingProducer, Outbox
from pyromq.typed import message

NOWHERE = "127.0.0.1:1"


async def coroutine(message: aio.ReceivedMessage) -> None:
    del message


async def batch_coroutine(messages: list[aio.ReceivedMessage]) -> None:
    del messages


async def check(message: aio.ReceivedMessage) -> TransactionOutcome:
    del message
    return TransactionOutcome.COMMIT


def coroutine_in_a_sync_consumer() -> None:
    PushConsumer(NOWHERE, group="g", listener=coroutine)  # refused


def batch_coroutine_in_a_sync_consumer() -> None:
    PushConsumer(NOWHERE, group="g", batch_listener=batch_coroutine)  # refused


def coroutine_as_check_of_a_sync_producer() -> None:
    TransactionProducer(NOWHERE, group="g", topics="t", check=check)  # refused


def text_as_body() -> None:
    Message("orders", "42")  # refused


def number_as_key() -> None:
    Message("orders", b"42", keys=[7])  # refused


def bytes_as_keys() -> None:
    Message("orders", b"42", keys=b"order-7")  # refused


def unknown_field() -> None:
    Message("orders", b"42", wait=7)  # refused


def text_as_delay() -> None:
    Message("orders", b"42", delay="30 minutes")  # refused


def number_as_moment() -> None:
    Message("orders", b"42", deliver_at=1_700_000_000)  # refused


def unknown_option_of_a_value() -> None:
    message("orders", 42, key="order-42")  # refused


def keys_beside_a_message() -> None:
    Producer(NOWHERE, group="g").send(Message("orders", b"42"), keys="order-42")  # refused


def topic_alone() -> None:
    Producer(NOWHERE, group="g").send("orders")  # refused


def unknown_option() -> None:
    Producer(NOWHERE, group="g", retry=7)  # refused


def no_outbox() -> None:
    ForwardingProducer(NOWHERE, group="g", outbox="app.db")  # refused


def no_message_in_a_box() -> None:
    Outbox(Path("never-written.db")).begin().add(b"42")  # refused
