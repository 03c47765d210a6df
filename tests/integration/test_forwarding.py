"""Store and forward with real servers: nothing that was kept is lost, whoever dies when."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq import Message, PullConsumer, SendReceipt
from pyromq.errors import ClientClosedError, MessageRefusedError
from pyromq.outbox import AsyncForwardingProducer, ForwardingProducer, KeptReceipt, Outbox, OutboxFullError
from pyromq.testing import LoopbackBroker
from tests.integration.forwarding_sender import POINTS

pytestmark = pytest.mark.integration

NOWHERE = "127.0.0.1:1"


def consumed(nameserver: str, topic: str, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    with PullConsumer(nameserver, group="readers", topics=topic, start="earliest") as consumer:
        while len(bodies) < count:
            found = consumer.poll(10_000)
            assert found, f"{len(bodies)} of {count} arrived"
            bodies += [message.body for message in found]
    return bodies


def test_messages_kept_while_servers_are_away_arrive_in_order_when_they_are_back(tmp_path: Path, quiet: None) -> None:
    outbox = Outbox(tmp_path / "app.db")
    with ForwardingProducer(NOWHERE, group="shop", outbox=outbox) as producer:
        receipts = [producer.send(Message("orders", b"%d" % n, sharding_key="a"), timeout_ms=500) for n in range(20)]
        assert all(isinstance(receipt, KeptReceipt) for receipt in receipts)
        first, second = receipts[:2]
        assert isinstance(first, KeptReceipt) and isinstance(second, KeptReceipt)
        assert first.error is not None and second.error is None, "the second waits behind the first, untried"
        assert (producer.counts.kept, producer.waiting()) == (20, 20)
    with LoopbackBroker() as broker, ForwardingProducer(broker.nameserver, group="shop", outbox=outbox) as producer:
        producer.send(Message("orders", b"20", sharding_key="a"))
        assert producer.flush(30_000) == 0
        receipt = producer.send(Message("orders", b"21", sharding_key="a"))
        assert isinstance(receipt, SendReceipt)
        assert producer.counts.forwarded >= 20
        assert consumed(broker.nameserver, "orders", 22) == [b"%d" % n for n in range(22)]


def test_what_no_broker_takes_is_raised_and_a_full_outbox_says_so(tmp_path: Path, quiet: None) -> None:
    outbox = Outbox(tmp_path / "app.db", messages_max=1)
    with ForwardingProducer(NOWHERE, group="shop", outbox=outbox) as producer:
        with pytest.raises(MessageRefusedError):
            producer.send("text")  # type: ignore[arg-type]
        producer.send(Message("orders", b"1"), timeout_ms=500)
        with pytest.raises(OutboxFullError, match="1 of 1 messages"):
            producer.send(Message("orders", b"2"), timeout_ms=500)
    with pytest.raises(ClientClosedError):
        producer.send(Message("orders", b"3"))


async def test_the_asyncio_form_forwards_too(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "app.db")
    async with (
        LoopbackBroker() as broker,
        AsyncForwardingProducer(broker.nameserver, group="shop", outbox=outbox) as producer,
    ):
        assert isinstance(await producer.send(Message("orders", b"1")), SendReceipt)
        with outbox.begin() as box:
            box.add(Message("orders", b"2"), Message("mails", b"3", delay_ms=10))
        assert await producer.flush(30_000) == 0
        assert (producer.counts.sent, producer.counts.forwarded) == (1, 2)


def test_a_process_that_dies_between_keeping_and_forwarding_loses_nothing(tmp_path: Path, quiet: None) -> None:
    database = tmp_path / "app.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)")
    connection.close()
    with LoopbackBroker() as broker:
        acknowledged: set[bytes] = set()
        program = (sys.executable, "-m", "tests.integration.forwarding_sender")
        for point in POINTS:
            arguments = (broker.nameserver, "orders", str(database), point)
            ended = subprocess.run([*program, *arguments], capture_output=True, timeout=240)
            assert ended.returncode == -9, ended.stderr.decode()
            acknowledged.update(ended.stdout.split())
        assert len(acknowledged) >= 11
        outbox = Outbox(database)
        with outbox.database.begin() as connection:  # their leases run out after a minute, which no test waits for
            connection.execute("DELETE FROM pyromq_outbox_leases")
        with ForwardingProducer(broker.nameserver, group="shop", outbox=outbox) as producer:
            assert producer.flush(30_000) == 0
        seen: set[bytes] = set()
        with PullConsumer(broker.nameserver, group="readers", topics="orders", start="earliest") as consumer:
            while not acknowledged <= seen:
                found = consumer.poll(10_000)
                assert found, f"lost: {sorted(acknowledged - seen)}"
                seen.update(message.body for message in found)
