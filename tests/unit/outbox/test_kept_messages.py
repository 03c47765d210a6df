"""Messages that wait in the application's database: written with its rows or not at all, in order, bounded."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from pyromq import Message
from pyromq.errors import (
    Attempt,
    BrokerError,
    ClientClosedError,
    ConfigError,
    ConnectFailedError,
    MessageRefusedError,
    MQError,
    NoPermissionError,
    NoWritableQueueError,
    RequestTimeoutError,
    SendFailedError,
    TopicNotFoundError,
)
from pyromq.model.message import SendReceipt, SendStatus
from pyromq.model.queue import QueueId
from pyromq.outbox import Outbox, OutboxFullError
from pyromq.outbox.forwarder import Forwarder, may_be_taken_later
from pyromq.outbox.kept import KeptMessages, lane_of
from pyromq.testing import ManualClock

KINDS: dict[str, Callable[[Path], Any]] = {
    "sqlite3": str,
    "url": lambda path: f"sqlite:///{path}",
    "engine": lambda path: sqlalchemy.create_engine(f"sqlite:///{path}"),
}


@pytest.fixture(params=KINDS)
def outbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outbox]:
    outbox = Outbox(KINDS[request.param](tmp_path / "app.db"), clock=ManualClock(), messages_max=5, bytes_max=10_000)
    outbox.create()
    with outbox.begin() as box:
        run(box.connection, "CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    yield outbox
    outbox.database.close()


def run(connection: Any, statement: str) -> None:
    connection.execute(statement if isinstance(connection, sqlite3.Connection) else sqlalchemy.text(statement))


def bodies(kept: KeptMessages, lane: str = "orders") -> list[bytes]:
    return [row.message.body for row in kept.oldest(lane) if row.message is not None]


def orders(tmp_path: Path) -> list[int]:
    connection = sqlite3.connect(tmp_path / "app.db")
    rows = [row[0] for row in connection.execute("SELECT id FROM orders ORDER BY id")]
    connection.close()
    return rows


# --- blocks ---


def test_a_block_that_ends_commits_rows_and_all_its_messages(outbox: Outbox, tmp_path: Path) -> None:
    with outbox.begin() as box:
        run(box.connection, "INSERT INTO orders VALUES (1)")
        box.add(Message("orders", b"1"), Message("orders", b"2"))
        box.add(Message("mails", b"3", keys=["k1", "k2"], tags="new", properties={"a": "b"}))
    assert orders(tmp_path) == [1]
    assert bodies(outbox.kept) == [b"1", b"2"]
    assert [row.message for row in outbox.kept.oldest("mails")] == [
        Message("mails", b"3", keys=("k1", "k2"), tags="new", properties={"a": "b"})
    ]


def test_a_block_that_raises_leaves_neither(outbox: Outbox, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), outbox.begin() as box:
        run(box.connection, "INSERT INTO orders VALUES (1)")
        box.add(Message("orders", b"1"))
        raise ValueError("mine")
    assert (orders(tmp_path), outbox.kept.waiting()) == ([], 0)


@pytest.mark.parametrize("kind", ["sqlite3", "session", "connection"])
def test_a_connection_of_the_application_is_committed_or_rolled_back(outbox: Outbox, tmp_path: Path, kind: str) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'app.db'}")
    connection: Any = {
        "sqlite3": lambda: sqlite3.connect(tmp_path / "app.db"),
        "session": lambda: Session(engine),
        "connection": engine.connect,
    }[kind]()
    with outbox.begin(connection) as box:
        run(connection, "INSERT INTO orders VALUES (1)")
        box.add(Message("orders", b"1"))
    with pytest.raises(ValueError, match="mine"), outbox.begin(connection) as box:
        run(connection, "INSERT INTO orders VALUES (2)")
        box.add(Message("orders", b"2"))
        raise ValueError("mine")
    connection.close()
    engine.dispose()
    assert (orders(tmp_path), bodies(outbox.kept)) == ([1], [b"1"])


def test_messages_can_be_added_to_a_transaction_that_is_committed_elsewhere(outbox: Outbox, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "app.db")
    outbox.add(connection, Message("orders", b"1"))
    connection.rollback()
    outbox.add(connection, Message("orders", b"2"))
    connection.commit()
    connection.close()
    assert bodies(outbox.kept) == [b"2"]


def test_a_delay_counts_from_the_moment_it_was_added(outbox: Outbox) -> None:
    with outbox.begin() as box:
        box.add(Message("orders", b"1", delay_ms=60_000), Message("orders", b"2", delay_level=3))
    first, second = (row.message for row in outbox.kept.oldest("orders"))
    assert first is not None and second is not None
    assert (first.delay_ms, first.deliver_at_ms) == (0, 1_700_000_060_000)
    assert second.delay_level == 3


def test_what_is_no_message_is_refused_at_once(outbox: Outbox) -> None:
    with pytest.raises(MessageRefusedError, match=r"not str"), outbox.begin() as box:
        box.add("orders")  # type: ignore[arg-type]


async def test_connections_of_the_wrong_kind_are_refused_with_the_right_way(outbox: Outbox) -> None:
    class Asynchronous:
        def run_sync(self) -> None: ...

    with pytest.raises(ConfigError, match=r"async with outbox\.begin"), outbox.begin(Asynchronous()):
        pass
    with pytest.raises(ConfigError, match=r"it is with outbox\.begin"):
        async with outbox.begin(object()):
            pass


# --- order and bound ---


def test_lanes_are_topics_and_sharding_keys_and_the_oldest_comes_first(outbox: Outbox) -> None:
    messages = [Message("b", b"1", sharding_key="x"), Message("a", b"2"), Message("b", b"3", sharding_key="y")]
    with outbox.begin() as box:
        box.add(*messages)
    assert outbox.kept.lanes(10) == [lane_of(message) for message in messages]
    assert len(set(outbox.kept.lanes(10))) == 3


def test_order_survives_a_clock_that_was_set_back(tmp_path: Path) -> None:
    for body, moment in ((b"1", 1_700_000_000_000), (b"2", 1_600_000_000_000)):
        outbox = Outbox(tmp_path / "app.db", clock=ManualClock(now_ms=moment))
        outbox.create()
        with outbox.begin() as box:
            box.add(Message("orders", body))
    assert bodies(outbox.kept) == [b"1", b"2"]


def test_a_full_outbox_refuses_and_says_what_to_do(outbox: Outbox, tmp_path: Path) -> None:
    with outbox.begin() as box:
        box.add(*[Message("orders", b"x")] * 5)
    with pytest.raises(OutboxFullError, match=r"5 of 5 messages.*raise messages_max") as caught, outbox.begin() as box:
        run(box.connection, "INSERT INTO orders VALUES (1)")
        box.add(Message("orders", b"y"))
    assert (caught.value.messages, caught.value.messages_max) == (5, 5)
    assert orders(tmp_path) == [], "the rows of the block go with its messages"
    outbox.kept.forget([row.id for row in outbox.kept.oldest("orders")])
    with outbox.begin() as box:
        box.add(Message("orders", b"y"))
    with pytest.raises(OutboxFullError), outbox.begin() as box:
        box.add(Message("orders", bytes(10_000)))


def test_few_megabytes_are_read_at_a_time(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "app.db")
    outbox.create()
    with outbox.begin() as box:
        box.add(*[Message("orders", bytes([n]) * 3_000_000) for n in (1, 2, 3)])
    assert [body[0] for body in bodies(outbox.kept)] == [1]
    outbox.database.close()


def test_limits_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="messages_max and bytes_max must be positive"):
        Outbox(tmp_path / "app.db", messages_max=0)


# --- the lease ---


def test_one_process_at_a_time_forwards(outbox: Outbox) -> None:
    kept, clock = outbox.kept, outbox._clock
    assert isinstance(clock, ManualClock)
    assert kept.take_lease("a", 1_000) and kept.take_lease("a", 1_000)
    assert not kept.take_lease("b", 1_000)
    clock.advance_ms(1_001)
    assert kept.take_lease("b", 1_000), "the holder has died"
    assert not kept.take_lease("a", 1_000)
    kept.give_lease_back("b")
    assert kept.take_lease("a", 1_000)


# --- the forwarder ---


class Broker:
    """Stands for the producer: takes messages, or fails as it is told."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.failures: dict[bytes, MQError] = {}
        self.status = SendStatus.SEND_OK

    async def send(self, message: Message) -> SendReceipt:
        if (error := self.failures.get(message.body)) is not None:
            raise error
        self.taken.append(message.body)
        return SendReceipt(self.status, "", "", QueueId(message.topic, "a", 0), 0)


class Bench:
    def __init__(self, tmp_path: Path) -> None:
        self.clock = ManualClock()
        self.outbox = Outbox(tmp_path / "app.db", clock=self.clock)
        self.outbox.create()
        self.broker = Broker()
        self.forwarder = self.another()

    def another(self) -> Forwarder:
        return Forwarder(self.outbox.kept, self.broker.send, self.clock, poll_ms=1_000, lease_ms=60_000)

    def keep(self, *messages: Message) -> None:
        with self.outbox.begin() as box:
            box.add(*messages)

    async def round(self) -> int:
        return await self.forwarder._round()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.outbox.database.close()


async def test_kept_messages_are_sent_in_order_and_forgotten(bench: Bench) -> None:
    bench.keep(*(Message("orders", b"%d" % n) for n in range(100)))
    while bench.outbox.kept.waiting():
        assert await bench.round() == 0
    assert bench.broker.taken == [b"%d" % n for n in range(100)]
    assert bench.forwarder.forwarded == 100


async def test_a_lane_that_fails_waits_and_the_others_go_on(bench: Bench, quiet: None) -> None:
    bench.keep(Message("orders", b"1"), Message("orders", b"2"), Message("mails", b"3"))
    bench.broker.failures[b"1"] = SendFailedError("orders", [Attempt("a", ConnectFailedError("gone"))])
    await bench.round()
    assert bench.broker.taken == [b"3"]
    assert await bench.round() == 500
    bench.clock.advance_ms(500)
    await bench.round()
    assert await bench.round() == 1_000, "the pause doubles, and nobody waits longer than a poll"
    del bench.broker.failures[b"1"]
    bench.clock.advance_ms(1_000)
    await bench.round()
    assert bench.broker.taken == [b"3", b"1", b"2"]


@pytest.mark.parametrize("status", [SendStatus.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT])
async def test_what_the_next_master_may_lack_is_sent_again(bench: Bench, quiet: None, status: SendStatus) -> None:
    """Seed 70004 of the simulator: rows were deleted after an answer that promises nothing, and a failover came."""
    bench.keep(Message("orders", b"1"), Message("orders", b"2"))
    bench.broker.status = status
    await bench.round()
    assert bench.broker.taken == [b"1"] and bodies(bench.outbox.kept) == [b"1", b"2"]
    bench.broker.status = SendStatus.SEND_OK
    bench.clock.advance_ms(500)
    await bench.round()
    assert bench.broker.taken == [b"1", b"1", b"2"] and bodies(bench.outbox.kept) == []


async def test_a_master_that_is_alone_has_it_for_good(bench: Bench) -> None:
    bench.keep(Message("orders", b"1"))
    bench.broker.status = SendStatus.SLAVE_NOT_AVAILABLE
    await bench.round()
    assert bodies(bench.outbox.kept) == []


async def test_a_sender_without_a_right_waits_for_it(bench: Bench, quiet: None) -> None:
    """Seed 300188 of the simulator: a member with an empty disk had no users yet, and all were refused for good."""
    bench.keep(Message("orders", b"1"), Message("orders", b"2"))
    denied = NoPermissionError(code=16, remark="User:clients is not found.")
    bench.broker.failures[b"1"] = SendFailedError("orders", [Attempt("a", denied)])
    await bench.round()
    assert bench.broker.taken == [] and bench.forwarder.refused == 0
    bench.broker.failures.clear()
    bench.clock.advance_ms(500)
    await bench.round()
    assert bench.broker.taken == [b"1", b"2"]


async def test_a_message_that_no_broker_takes_stays_and_holds_nothing_up(bench: Bench, quiet: None) -> None:
    bench.keep(Message("orders", b"1"), Message("orders", b"2"))
    bench.broker.failures[b"1"] = MessageRefusedError("too strange")
    await bench.round()
    assert bench.broker.taken == [b"2"]
    assert [(row.message.body, row.refused) for row in bench.outbox.refused() if row.message] == [(b"1", "too strange")]
    assert (bench.outbox.kept.waiting(), bench.forwarder.refused) == (0, 1)
    bench.broker.failures.clear()
    assert bench.outbox.retry_refused() == 1
    await bench.round()
    assert bench.broker.taken == [b"2", b"1"]


async def test_a_row_that_cannot_be_read_stays_and_holds_nothing_up(bench: Bench, quiet: None) -> None:
    bench.keep(Message("orders", b"1"), Message("orders", b"2"))
    with bench.outbox.database.begin() as connection:
        connection.execute(
            "UPDATE pyromq_outbox_messages SET message = x'00' WHERE id = (SELECT MIN(id) FROM pyromq_outbox_messages)"
        )
    await bench.round()
    assert bench.broker.taken == [b"2"]
    assert "not readable" in bench.outbox.refused()[0].refused


async def test_a_second_process_waits_for_the_lease(bench: Bench) -> None:
    bench.keep(Message("orders", b"1"))
    second = bench.another()
    await bench.round()
    assert await second._round() == 1_000
    bench.keep(Message("orders", b"2"))
    assert await second._round() == 1_000
    assert bench.broker.taken == [b"1"]
    bench.clock.advance_ms(60_001)
    assert await second._round() == 0
    assert bench.broker.taken == [b"1", b"2"]


async def test_the_end_deletes_what_was_sent_and_gives_the_lease_back(bench: Bench) -> None:
    sent, may_end = asyncio.Event(), asyncio.Event()

    async def send(message: Message) -> None:
        bench.broker.taken.append(message.body)
        sent.set()
        await may_end.wait()

    bench.keep(Message("orders", b"1"), Message("orders", b"2"))
    forwarder = Forwarder(bench.outbox.kept, send, bench.clock, poll_ms=1_000, lease_ms=60_000)
    forwarder.start()
    await sent.wait()
    closing = asyncio.create_task(forwarder.close())
    await asyncio.sleep(0)
    may_end.set()
    await closing
    assert bench.broker.taken == [b"1"]
    assert bodies(bench.outbox.kept) == [b"2"]
    assert bench.outbox.kept.take_lease("another", 1_000)


async def test_a_database_that_fails_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def fail(*arguments: object) -> list[str]:
        loop.call_soon_threadsafe(failed.set)
        raise ConnectionError("gone")

    bench.keep(Message("orders", b"1"))
    with monkeypatch.context() as broken:
        broken.setattr(bench.outbox.kept, "lanes", fail)
        bench.forwarder.start()
        await failed.wait()
    while bench.outbox.kept.waiting():
        bench.forwarder.wake()
        await bench.forwarder.progress(1_000)
    await bench.forwarder.close()
    assert bench.broker.taken == [b"1"]
    assert "outbox not readable" in caplog.text


@pytest.mark.parametrize(
    ("error", "is_kept"),
    [
        (SendFailedError("t", [Attempt("a", RequestTimeoutError("slow"))]), True),
        (SendFailedError("t", [Attempt("a", BrokerError(code=14, remark="going down"))]), True),
        (SendFailedError("t", [Attempt("a", BrokerError(code=999, remark="who knows"))]), True),
        (TopicNotFoundError("t"), True),
        (NoWritableQueueError("t", "no master"), True),
        (SendFailedError("t", [Attempt("a", NoPermissionError(code=16, remark="no"))]), False),
        (SendFailedError("t", [Attempt("a", BrokerError(code=13, remark="illegal"))]), False),
        (MessageRefusedError("empty"), False),
        (ClientClosedError("closed"), False),
        (ConfigError("wrong"), False),
    ],
    ids=str,
)
def test_what_may_be_taken_later_is_kept(error: MQError, is_kept: bool) -> None:
    assert may_be_taken_later(error) is is_kept
