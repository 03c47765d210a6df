"""The dispatcher of traces: packs, limits, and that it never costs what it traces."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from pyromq.client.core.client import Client
from pyromq.client.core.identity import MessageIds
from pyromq.client.core.settings import ClientSettings
from pyromq.client.core.tasks import TaskOwner
from pyromq.client.core.transaction import PreparedPlace, TransactionOutcome
from pyromq.client.producer.trace import (
    QUEUE_MAX,
    ConsumerTrace,
    ProducerTrace,
    TraceDispatcher,
    trace_topic_of,
    tracing_group,
)
from pyromq.errors import ConnectFailedError
from pyromq.model.message import Message, SendReceipt, SendStatus
from pyromq.model.queue import QueueId
from pyromq.testing import ManualClock
from pyromq.wire.trace import (
    TRACE_TOPIC,
    ConsumeCode,
    ConsumeEnded,
    MessageKind,
    Published,
    TransactionEnded,
    decode_records,
)
from tests.unit.client.stored import received
from tests.unit.net.fakes import turn

LONG_MS = 3_600_000


class Sender:
    """Keeps what it is given, after waiting for ``may_send``; or fails."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.has_sent = asyncio.Event()
        self.error: Exception | None = None
        self.is_open = False

    async def open(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False

    async def send(self, message: Message) -> None:
        await self.may_send.wait()
        if self.error is not None:
            raise self.error
        self.sent.append(message)
        self.has_sent.set()


def client(close_timeout_ms: int = 5_000) -> Client:
    settings = ClientSettings(nameservers="127.0.0.1:1", close_timeout_ms=close_timeout_ms)
    ids = MessageIds("127.0.0.1", 1, 1)
    facts = {"settings": settings, "tasks": TaskOwner("test"), "clock": ManualClock(), "message_ids": ids}
    return cast(Client, SimpleNamespace(**facts, plain_name=lambda name: name))


def record(number: int = 0) -> Published:
    return Published(time_ms=number, group="g", topic="t", message_id=f"M{number}")


async def test_twenty_records_go_at_once_and_the_rest_at_the_end() -> None:
    sender = Sender()
    dispatcher = TraceDispatcher(sender, client(), flush_ms=LONG_MS)
    await dispatcher.open()
    for number in range(25):
        dispatcher.add(record(number))
    await sender.has_sent.wait()
    dispatcher.add(record(25))
    await dispatcher.close()
    found = [each for message in sender.sent for each in decode_records(message.body)]
    assert found == [record(number) for number in range(26)]
    assert sender.sent[0].topic == TRACE_TOPIC and sender.sent[0].keys[:2] == ("M0", "M1")
    assert (dispatcher.sent, dispatcher.dropped, sender.is_open) == (26, 0, False)


async def test_a_few_records_go_when_it_is_time() -> None:
    sender = Sender()
    dispatcher = TraceDispatcher(sender, client(), flush_ms=0)
    await dispatcher.open()
    dispatcher.add(record())
    await sender.has_sent.wait()
    await dispatcher.close()


async def test_a_full_queue_drops_and_counts() -> None:
    sender = Sender()
    sender.may_send.clear()
    dispatcher = TraceDispatcher(sender, client(), flush_ms=LONG_MS)
    await dispatcher.open()
    for number in range(QUEUE_MAX + 7):
        dispatcher.add(record(number))
    assert dispatcher.dropped == 7
    sender.may_send.set()
    await dispatcher.close()
    assert (dispatcher.sent, dispatcher.dropped) == (QUEUE_MAX, 7)


async def test_what_cannot_be_sent_is_given_up() -> None:
    sender = Sender()
    for sender.error in (ConnectFailedError("not there"), RuntimeError("a mistake")):
        dispatcher = TraceDispatcher(sender, client(), flush_ms=LONG_MS)
        await dispatcher.open()
        for number in range(20):
            dispatcher.add(record(number))
        await turn()
        assert (dispatcher.sent, dispatcher.dropped) == (0, 20)
        await dispatcher.close()
        assert (dispatcher.sent, dispatcher.dropped) == (0, 20), "closing does not count them again"


async def test_closing_does_not_wait_for_ever() -> None:
    sender = Sender()
    sender.may_send.clear()
    dispatcher = TraceDispatcher(sender, client(close_timeout_ms=1), flush_ms=LONG_MS)
    await dispatcher.open()
    dispatcher.add(record())
    await dispatcher.close()
    assert (dispatcher.sent, dispatcher.dropped) == (0, 1)
    dispatcher.add(record())
    assert dispatcher.dropped == 2


def test_which_topic_traces_go_to() -> None:
    assert (trace_topic_of(False), trace_topic_of(""), trace_topic_of(True)) == ("", "", TRACE_TOPIC)
    assert trace_topic_of("own") == "own"
    assert len(tracing_group("g" * 120)) == 120


# --- hooks ---------------------------------------------------------------------------------------------------------


class Kept(TraceDispatcher):
    """Keeps records instead of sending them."""

    def __init__(self) -> None:
        super().__init__(Sender(), client())
        self.records: list[Any] = []

    def add(self, record: Any) -> None:
        self.records.append(record)


RECEIPT = SendReceipt(
    SendStatus.SEND_OK, "UNIQUE", "7F00000100002A9F0000000000000010", QueueId("orders", "broker-a", 1), 4, region="R"
)


async def test_a_send_leaves_a_record_and_a_failed_one_none() -> None:
    kept = Kept()
    hook = ProducerTrace(kept, client(), "shop")
    hook.after_send(Message("orders", b"12345", tags="new", keys="a b"), RECEIPT, None, 9)
    hook.after_send(Message("orders", b"12345"), None, ConnectFailedError("no"), 9)
    (told,) = kept.records
    assert (told.message_id, told.keys, told.tags, told.group, told.region) == ("UNIQUE", "a b", "new", "shop", "R")
    assert (told.store_host, told.body_bytes, told.cost_ms, told.kind) == ("127.0.0.1:10911", 5, 9, MessageKind.NORMAL)


async def test_traces_are_not_traced() -> None:
    kept = Kept()
    receipt = SendReceipt(SendStatus.SEND_OK, "U", "", QueueId(TRACE_TOPIC, "broker-a", 0), 0)
    ProducerTrace(kept, client(), "shop").after_send(Message(TRACE_TOPIC, b"1"), receipt, None, 1)
    ConsumerTrace(kept, client(), "g").before_consume([received(topic=TRACE_TOPIC)])
    assert kept.records == []


async def test_the_end_of_a_transaction_leaves_a_record() -> None:
    kept = Kept()
    place = PreparedPlace("orders", 1, 2, "UNIQUE", "UNIQUE", is_from_check=True)
    hook = ProducerTrace(kept, client(), "shop", sends_prepared=True)
    hook.after_send(Message("orders", b"1"), RECEIPT, None, 1)
    hook.transaction_ended(place, TransactionOutcome.ROLLBACK, Message("orders", b"1", keys="k"))
    receipt, told = kept.records
    assert receipt.kind is MessageKind.PREPARED
    assert isinstance(told, TransactionEnded)
    assert (told.state, told.is_from_check, told.keys, told.message_id) == ("ROLLBACK_MESSAGE", True, "k", "UNIQUE")


async def test_a_listener_call_leaves_a_pair_of_records_for_each_message() -> None:
    kept = Kept()
    hook = ConsumerTrace(kept, client(), "billing")
    batch = [received(unique_key="A"), received(unique_key="B"), received(unique_key="C", TRACE_ON="false")]
    began = hook.before_consume(batch)
    hook.after_consume(batch, began, ConsumeCode.EXCEPTION, 30)
    assert [told.message_id for told in kept.records] == ["A", "B", "A", "B"]
    assert len({told.request_id for told in kept.records}) == 1
    ended = kept.records[2]
    assert isinstance(ended, ConsumeEnded)
    assert (ended.is_success, ended.code, ended.cost_ms, ended.group) == (False, ConsumeCode.EXCEPTION, 10, "billing")
