"""The outbox table: rows that are there with the application's own, or not at all, and what checks read from them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from pyromq import Message, SendReceipt
from pyromq.client.core.transaction import Transaction, TransactionOutcome, place_of_receipt
from pyromq.databases.sqlite_file import SqliteFile
from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId
from pyromq.outbox import Outbox, OutboxProducer, OverdueError
from pyromq.results import SendStatus
from pyromq.testing import ManualClock
from tests.unit.received import received

COMMIT, ROLLBACK, UNKNOWN = TransactionOutcome.COMMIT, TransactionOutcome.ROLLBACK, TransactionOutcome.UNKNOWN
KINDS: dict[str, Callable[[Path], Any]] = {
    "sqlite3": str,
    "sqlalchemy": lambda path: sqlalchemy.create_engine(f"sqlite:///{path}"),
}


class Bench:
    """An outbox and a table of the application in one database."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.clock = path, ManualClock()
        self.engine = sqlalchemy.create_engine(f"sqlite:///{path}")
        self.outbox = Outbox(KINDS[kind](path), undecided_ms=1_000, keep_ms=10_000, clock=self.clock)
        self.outbox.create()
        with self.outbox.database.begin() as connection:
            create = "CREATE TABLE orders (id INTEGER PRIMARY KEY)"
            connection.execute(create if kind == "sqlite3" else sqlalchemy.text(create))

    def check(self, transaction_id: str) -> TransactionOutcome:
        return self.outbox.check(received(unique_id=transaction_id, born_ms=1_700_000_000_000))

    @property
    def orders(self) -> list[int]:
        connection = sqlite3.connect(self.path)
        rows = [row[0] for row in connection.execute("SELECT id FROM orders ORDER BY id")]
        connection.close()
        return rows


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "app.db", request.param)
    yield bench
    bench.outbox.database.close()
    bench.engine.dispose()


def transaction(name: str) -> Transaction:
    offset_id = "7F00000100002A9F0000000000001000"
    receipt = SendReceipt(SendStatus.SEND_OK, name, offset_id, QueueId("orders", "broker-a", 0), 0)
    return Transaction(Message("orders", b"x"), receipt, place_of_receipt("orders", receipt))


def record(bench: Bench, name: str) -> None:
    with bench.outbox.database.begin() as connection:
        bench.outbox.record(connection, transaction(name))


# --- what checks read ---


def test_a_row_that_was_committed_is_commit_for_ever(bench: Bench) -> None:
    record(bench, "A")
    assert bench.check("A") is COMMIT
    bench.clock.advance_ms(1_000_000)
    assert bench.check("A") is COMMIT


def test_no_row_is_unknown_while_young_and_rollback_when_old(bench: Bench) -> None:
    bench.clock.advance_ms(999)
    assert bench.check("A") is UNKNOWN
    bench.clock.advance_ms(1)
    assert bench.check("A") is ROLLBACK
    assert bench.check("A") is ROLLBACK


def test_a_row_that_was_rolled_back_is_no_row(bench: Bench) -> None:
    with pytest.raises(ValueError, match="mine"), bench.outbox.database.begin() as connection:
        bench.outbox.record(connection, transaction("A"))
        raise ValueError("mine")
    assert bench.check("A") is UNKNOWN


def test_after_a_check_ruled_it_out_a_slow_sender_cannot_commit(bench: Bench) -> None:
    bench.clock.advance_ms(1_000)
    assert bench.check("A") is ROLLBACK
    with pytest.raises(OverdueError, match="undo your work"):
        record(bench, "A")
    assert bench.check("A") is ROLLBACK


def test_a_check_waits_for_a_sender_who_is_about_to_commit(bench: Bench) -> None:
    """The row is written but not committed: the check must not rule before it sees which way that goes."""
    bench.clock.advance_ms(5_000)
    written, outcomes = threading.Event(), list[TransactionOutcome]()
    checking = threading.Thread(target=lambda: (written.wait(), outcomes.append(bench.check("A"))))
    checking.start()
    with bench.outbox.database.begin() as connection:
        bench.outbox.record(connection, transaction("A"))
        written.set()
        checking.join(0.1)
        assert outcomes == []
    checking.join()
    assert outcomes == [COMMIT]


def test_settling_decides_at_once(bench: Bench) -> None:
    record(bench, "A")
    assert (bench.outbox.settle("A"), bench.outbox.settle("B")) == (COMMIT, ROLLBACK)
    with pytest.raises(OverdueError):
        record(bench, "B")


def test_settling_from_many_threads_gives_one_answer(bench: Bench) -> None:
    outcomes: list[TransactionOutcome] = []

    def send(name: str) -> None:
        try:
            record(bench, name)
        except OverdueError:
            outcomes.append(ROLLBACK)
        else:
            outcomes.append(COMMIT)

    for number in range(10):
        name = f"T{number}"
        outcomes.clear()
        work = [lambda name=name: send(name), *[lambda name=name: outcomes.append(bench.outbox.settle(name))] * 3]
        threads = [threading.Thread(target=each) for each in work]  # type: ignore[arg-type]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 4 and len(set(outcomes)) == 1


def test_old_rows_are_pruned(bench: Bench) -> None:
    record(bench, "A")
    bench.clock.advance_ms(6_000)
    record(bench, "B")
    bench.clock.advance_ms(4_001)
    assert bench.outbox.prune() == 1
    assert bench.check("B") is COMMIT


# --- connections of the application ---


def test_rows_are_written_with_the_applications_own_connection(bench: Bench) -> None:
    with sqlite3.connect(bench.path) as plain:
        bench.outbox.record(plain, transaction("sqlite3"))
    plain.close()
    with Session(bench.engine) as session:
        bench.outbox.record(session, transaction("session"))
        session.commit()
    with bench.engine.begin() as connection:
        bench.outbox.record(connection, transaction("connection"))
    with Session(bench.engine) as session:
        bench.outbox.record(session, transaction("nothing"))
    assert [bench.check(name) for name in ("sqlite3", "session", "connection", "nothing")] == [COMMIT] * 3 + [UNKNOWN]


def test_once_recorded_a_failing_block_leaves_the_outcome_to_the_table(bench: Bench) -> None:
    recorded = transaction("A")
    with bench.outbox.database.begin() as connection:
        bench.outbox.record(connection, recorded)
    recorded.left(ValueError())
    assert recorded.decided is UNKNOWN


def test_settings_that_would_lose_messages_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="less than keep_ms"):
        Outbox(tmp_path / "t.db", undecided_ms=10, keep_ms=10)
    with pytest.raises(ConfigError, match="is not allowed"):
        Outbox(tmp_path / "t.db", table="x; DROP TABLE orders")


# --- the producer ---


class FakeProducer:
    """Stands for the transaction producer: remembers outcomes."""

    def __init__(self) -> None:
        self.outcomes: list[TransactionOutcome | None] = []

    @contextmanager
    def transaction(self, message: Message, *, check_after_ms: int = 0) -> Iterator[Transaction]:
        made = transaction(f"T{len(self.outcomes)}")
        try:
            yield made
        except BaseException as error:
            made.left(error)
            raise
        else:
            made.left(None)
        finally:
            self.outcomes.append(made.decided)


@pytest.fixture
def producer(bench: Bench) -> OutboxProducer:
    producer = OutboxProducer("127.0.0.1:1", group="g", topics="orders", outbox=bench.outbox, clock=bench.clock)
    producer.producer = FakeProducer()  # type: ignore[assignment]
    return producer


def insert(connection: Any, number: int) -> None:
    statement = f"INSERT INTO orders VALUES ({number})"
    connection.execute(statement if isinstance(connection, sqlite3.Connection) else sqlalchemy.text(statement))


def outcomes_of(producer: OutboxProducer) -> list[TransactionOutcome | None]:
    fake: Any = producer.producer
    return list(fake.outcomes)


def test_a_block_that_ends_commits_rows_and_message(bench: Bench, producer: OutboxProducer) -> None:
    with producer.transaction(Message("orders", b"1")) as connection:
        insert(connection, 1)
        assert bench.orders == []
    assert bench.orders == [1]
    assert (outcomes_of(producer), bench.check("T0")) == ([COMMIT], COMMIT)


def test_a_block_that_raises_leaves_neither(bench: Bench, producer: OutboxProducer) -> None:
    with pytest.raises(ValueError, match="mine"), producer.transaction(Message("orders", b"1")) as connection:
        insert(connection, 1)
        raise ValueError("mine")
    assert bench.orders == []
    assert (outcomes_of(producer), bench.check("T0")) == ([ROLLBACK], ROLLBACK)


def test_an_interrupt_leaves_it_to_the_check(bench: Bench, producer: OutboxProducer) -> None:
    with pytest.raises(KeyboardInterrupt), producer.transaction(Message("orders", b"1")) as connection:
        insert(connection, 1)
        raise KeyboardInterrupt
    assert bench.orders == []
    assert outcomes_of(producer) == [UNKNOWN]


@pytest.mark.parametrize("kind", ["sqlite3", "session", "connection"])
def test_a_connection_of_the_application_is_committed_or_rolled_back(
    bench: Bench, producer: OutboxProducer, kind: str
) -> None:
    with {
        "sqlite3": lambda: sqlite3.connect(bench.path),
        "session": lambda: Session(bench.engine),
        "connection": bench.engine.connect,
    }[kind]() as connection:
        with producer.transaction(Message("orders", b"1"), connection) as given:
            assert given is connection
            insert(connection, 1)
        with pytest.raises(ValueError, match="mine"), producer.transaction(Message("orders", b"2"), connection):
            insert(connection, 2)
            raise ValueError("mine")
    connection.close()
    assert bench.orders == [1]
    assert outcomes_of(producer) == [COMMIT, ROLLBACK]


def test_a_commit_that_raises_although_it_happened_is_a_commit(bench: Bench, producer: OutboxProducer) -> None:
    class Liar(Session):
        def commit(self) -> None:
            super().commit()
            raise ConnectionError("the answer was lost")

    with Liar(bench.engine) as session, pytest.raises(ConnectionError):
        with producer.transaction(Message("orders", b"1"), session):
            insert(session, 1)
    assert bench.orders == [1]
    assert outcomes_of(producer) == [COMMIT]


def test_a_database_that_is_gone_after_a_failure_leaves_it_to_the_check(
    bench: Bench, producer: OutboxProducer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def gone(*arguments: object) -> TransactionOutcome:
        raise ConnectionError("gone")

    monkeypatch.setattr(bench.outbox, "settle", gone)
    with pytest.raises(ValueError, match="mine"), producer.transaction(Message("orders", b"1")):
        raise ValueError("mine")
    assert outcomes_of(producer) == [UNKNOWN]
    assert "outbox not readable" in caplog.text


def test_the_table_is_pruned_every_hour_that_it_is_used(bench: Bench, producer: OutboxProducer) -> None:
    record(bench, "old")
    bench.clock.advance_ms(3_600_001)
    with producer.transaction(Message("orders", b"1")):
        pass
    with sqlite3.connect(bench.path) as connection:
        assert connection.execute("SELECT transaction_id FROM pyromq_outbox").fetchall() == [("T0",)]
    connection.close()


def test_another_file_is_another_outbox(tmp_path: Path) -> None:
    first, second = (Outbox(SqliteFile(tmp_path / name), table="other") for name in ("a.db", "b.db"))
    for outbox in (first, second):
        outbox.create()
    first.settle("A")
    assert second.prune() == 0
    with second.database.begin() as connection:
        second.record(connection, transaction("A"))
    assert second.settle("A") is COMMIT
