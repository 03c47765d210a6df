"""Outboxes in the database of a Django project: the ORM's rows and our messages are one transaction."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message
from pyromq.errors import ConfigError
from pyromq.idempotent import Marks
from pyromq.outbox import Outbox, OverdueError
from pyromq.testing import ManualClock
from tests.unit.outbox.test_outbox import COMMIT, ROLLBACK, transaction
from tests.unit.received import received

pytest.importorskip("django", reason="outboxes were not tried with Django")

from tests.unit.outbox.django_project import sqlite


@dataclass
class Order:
    id: int


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Any]:
    db = sqlite(tmp_path / "django.db")
    with db.connection.cursor() as cursor:
        cursor.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    yield db
    db.connections.close_all()


@pytest.fixture
def outbox(db: Any) -> Outbox:
    outbox = Outbox(db.connection, clock=ManualClock())
    outbox.create()
    outbox.create()
    return outbox


def insert(db: Any, number: int) -> None:
    with db.connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (%s)", [number])


def counts(db: Any, outbox: Outbox) -> tuple[int, int]:
    with db.connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM orders")
        return cursor.fetchone()[0], outbox.kept.waiting()


def test_rows_and_messages_are_there_together_or_not_at_all(db: Any, outbox: Outbox) -> None:
    with outbox.begin() as box:
        insert(db, 1)
        box.add(Message("orders", b"1"), Message("orders", bytes(range(256)), delay=5))
        box.add("orders", Order(3), keys="3")
    with pytest.raises(ValueError, match="mine"), outbox.begin(db.connection) as box:
        insert(db, 2)
        box.add("orders", Order(4))
        raise ValueError("mine")
    assert counts(db, outbox) == (1, 3)
    bodies = [row.message.body for row in outbox.kept.oldest("orders") if row.message]
    assert bodies == [b"1", bytes(range(256)), b'{"id":3}']


def test_an_outer_block_of_the_project_decides(db: Any, outbox: Outbox) -> None:
    told: list[str] = []
    outbox.on_kept(lambda: told.append("kept"))
    with pytest.raises(ValueError, match="mine"), db.transaction.atomic():
        with outbox.begin() as box:
            insert(db, 1)
            box.add("orders", Order(1))
        raise ValueError("mine")
    assert (counts(db, outbox), told) == ((0, 0), [])
    with db.transaction.atomic():
        with outbox.begin() as box:
            insert(db, 1)
            box.add("orders", Order(1))
        assert told == [], "forwarders hear of it after the commit"
    assert (counts(db, outbox), told) == ((1, 1), ["kept"])


def test_a_message_is_added_in_a_block_of_the_project(db: Any, outbox: Outbox) -> None:
    with db.transaction.atomic():
        insert(db, 1)
        outbox.add(db.connection, Message("orders", b"1"))
    assert counts(db, outbox) == (1, 1)
    with pytest.raises(ConfigError, match=r"commits every statement by itself: with transaction\.atomic"):
        outbox.add(db.connection, Message("orders", b"1"))


def test_a_check_and_a_slow_sender_cannot_both_win(db: Any, outbox: Outbox) -> None:
    with outbox.database.begin() as connection:
        outbox.record(connection, transaction("A"))
    assert (outbox.settle("A"), outbox.settle("B")) == (COMMIT, ROLLBACK)
    with pytest.raises(OverdueError), outbox.database.begin() as connection:
        outbox.record(connection, transaction("B"))
    assert outbox.check(received(unique_id="B", born_ms=0)) is ROLLBACK
    assert outbox.prune() == 0


def test_threads_of_ours_leave_no_connection_behind(db: Any, outbox: Outbox) -> None:
    left: list[Any] = []

    def look() -> None:
        outbox.kept.waiting()
        left.append(db.connections["default"].connection)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert left == [None]
    assert db.connection.connection is not None, "that of the request stays"


def test_marks_go_with_the_rows_of_the_project(db: Any) -> None:
    marks = Marks(db.connection, scope="billing")
    with db.transaction.atomic():
        assert marks.first_time(db.connection, "a")
        insert(db, 1)
    with db.transaction.atomic():
        assert not marks.first_time(db.connection, "a")


async def test_async_with_says_what_django_needs(outbox: Outbox) -> None:
    with pytest.raises(ConfigError, match="async with needs SQLAlchemy's"):
        async with outbox.begin():
            pass
