"""Transactions with a real broker: what is seen and what is not, and senders that are killed at every point."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import pyromq
from pyromq import Message, TransactionOutcome
from pyromq.broker.base.settings import BrokerSettings
from pyromq.outbox import Outbox, OutboxProducer
from pyromq.settings import PullConsumerSettings
from pyromq.testing.loopback import SMALL_FILES, LoopbackBroker
from tests.integration.outbox_sender import GROUP, POINTS
from tests.integration.waiting import until_on_thread

pytestmark = pytest.mark.integration

COMMIT, ROLLBACK = TransactionOutcome.COMMIT, TransactionOutcome.ROLLBACK
IMPATIENT = BrokerSettings(
    store=SMALL_FILES, transaction_timeout_ms=300, transaction_check_interval_ms=100, transaction_checks_max=10_000
)
FROM_FIRST = PullConsumerSettings(start="earliest")
PATIENCE_S = 40
TOPIC = "orders"

until = partial(until_on_thread, timeout_s=PATIENCE_S)


@pytest.fixture
def nameserver() -> Iterator[str]:
    with LoopbackBroker(replace(IMPATIENT)) as broker:
        yield broker.nameserver


class Reader:
    """All that is seen of the topic."""

    def __init__(self, nameserver: str) -> None:
        self.bodies: list[bytes] = []
        self._consumer = pyromq.PullConsumer(nameserver, group="reader", settings=FROM_FIRST)
        self._consumer.subscribe(TOPIC)

    def __enter__(self) -> Reader:
        self._consumer.open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._consumer.close()

    def until(self, *bodies: bytes) -> None:
        until(lambda: self._read() >= set(bodies), f"{bodies} are seen")

    def _read(self) -> set[bytes]:
        self.bodies += [message.body for message in self._consumer.poll(timeout_ms=100)]
        return set(self.bodies)


def test_a_message_is_seen_if_and_only_if_it_was_committed(nameserver: str) -> None:
    answers = {b"later yes": COMMIT, b"later no": ROLLBACK}
    asked: list[bytes] = []

    def check(message: pyromq.ReceivedMessage) -> TransactionOutcome:
        asked.append(message.body)
        return answers[message.body]

    producer = pyromq.TransactionProducer(nameserver, group="g", topics=TOPIC, check=check, confirm=True)
    with producer, Reader(nameserver) as reader:
        assert producer.send(Message(TOPIC, b"yes"), lambda transaction: COMMIT).confirmed
        assert producer.send(Message(TOPIC, b"no"), lambda transaction: ROLLBACK).confirmed
        for body in answers:
            producer.send(Message(TOPIC, body), lambda transaction: None)
        with producer.transaction(Message(TOPIC, b"slow")) as slow:
            until(lambda: slow.place.is_from_check, "the broker asks about the slow one")
        assert slow.receipt is not None and slow.receipt.confirmed
        until(lambda: set(answers) <= set(asked), "the broker asks")
        producer.send(Message(TOPIC, b"last"), lambda transaction: COMMIT)
        reader.until(b"yes", b"later yes", b"slow", b"last")
        assert b"slow" not in asked
        assert set(reader.bodies) == {b"yes", b"later yes", b"slow", b"last"}


async def test_another_member_of_the_group_answers_for_one_who_left() -> None:
    async with LoopbackBroker(IMPATIENT) as broker:
        answered: list[str] = []

        async def check(message: pyromq.ReceivedMessage) -> TransactionOutcome:
            answered.append(message.transaction_id)
            return COMMIT

        async def unable(message: pyromq.ReceivedMessage) -> None: ...

        names = broker.nameserver
        async with pyromq.aio.TransactionProducer(names, group="g", topics=TOPIC, check=unable) as first:
            left = await first.send(Message(TOPIC, b"left"), unable)  # type: ignore[arg-type]
        async with pyromq.aio.TransactionProducer(names, group="g", topics=TOPIC, check=check):
            async with pyromq.aio.PullConsumer(names, group="reader", settings=FROM_FIRST) as reader:
                reader.subscribe(TOPIC)
                bodies: list[bytes] = []
                async with asyncio.timeout(PATIENCE_S):
                    while not bodies:
                        bodies += [message.body for message in await reader.poll(timeout_ms=200)]
        assert bodies == [b"left"]
        assert left.transaction_id in answered


def test_senders_killed_at_every_point_leave_row_and_message_or_neither(nameserver: str, tmp_path: Path) -> None:
    database = tmp_path / "app.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)")
    connection.close()
    module = "tests.integration.outbox_sender"
    subprocess.run([sys.executable, "-m", module, nameserver, TOPIC, str(database)], check=True, timeout=PATIENCE_S)

    outbox = Outbox(database, undecided_ms=500)
    with OutboxProducer(nameserver, group=GROUP, topics=TOPIC, outbox=outbox, confirm=True) as producer:
        until(lambda: len(rows(database, "SELECT 1 FROM pyromq_outbox")) == len(POINTS), "every outcome is known")
        with producer.transaction(Message(TOPIC, b"last")):
            pass
        with Reader(nameserver) as reader:
            reader.until(b"committed", b"told", b"last")
            time.sleep(0.3)  # for what must not come: it is ruled out, but a mistake would take a moment to be seen
            reader._read()
            assert set(reader.bodies) == {b"committed", b"told", b"last"}
    assert rows(database, "SELECT id FROM orders ORDER BY id") == [("committed",), ("told",)]
    outcomes = rows(database, "SELECT outcome FROM pyromq_outbox ORDER BY outcome")
    assert outcomes == [(COMMIT.value,)] * 3 + [(ROLLBACK.value,)] * 2


def rows(database: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_a_sharding_key_chooses_the_queue_and_the_commit_the_place_in_it() -> None:
    with LoopbackBroker() as broker, pyromq.Admin(broker.nameserver) as admin:
        admin.topics.create("orders", queues=8)
        producer = pyromq.TransactionProducer(
            broker.nameserver, group="shop", topics="orders", check=lambda message: TransactionOutcome.UNKNOWN
        )
        with producer, pyromq.Producer(broker.nameserver, group="plain") as plain:
            queue = plain.send("orders", "plain", sharding_key="7").queue
            with producer.transaction("orders", "first", sharding_key="7"):
                with producer.transaction("orders", "second", sharding_key="7"):
                    pass
            until(lambda: len(broker.stored("orders")) == 3)
        stored = sorted(broker.stored("orders"), key=lambda message: message.offset)
        assert {message.queue for message in stored} == {queue.number}
        assert [message.body for message in stored] == [b"plain", b"second", b"first"]
