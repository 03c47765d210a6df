"""Outboxes on engines with a driver for asyncio: the application's loop has its connections, our threads theirs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy

from pyromq import Message
from pyromq.errors import MessageRefusedError
from pyromq.outbox import Outbox
from pyromq.testing import ManualClock
from tests.unit.outbox.test_outbox import COMMIT, ROLLBACK, UNKNOWN, transaction
from tests.unit.received import received

pytest.importorskip("greenlet", reason="SQLAlchemy's asyncio part needs greenlet")
pytest.importorskip("aiosqlite", reason="the tests of asyncio engines need aiosqlite")

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

INSERT = sqlalchemy.text("INSERT INTO orders VALUES (:id)")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "app.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.close()
    return tmp_path / "app.db"


@pytest.fixture
def outbox(path: Path) -> Iterator[Outbox]:
    outbox = Outbox(f"sqlite+aiosqlite:///{path}", undecided_ms=1_000, keep_ms=10_000, clock=ManualClock())
    outbox.create()
    yield outbox
    outbox.database.close()


def orders(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    rows = [row[0] for row in connection.execute("SELECT id FROM orders ORDER BY id")]
    connection.close()
    return rows


async def test_a_session_of_the_application_commits_rows_and_messages(outbox: Outbox, path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    async with AsyncSession(engine) as session:
        async with outbox.begin(session) as box:
            await session.execute(INSERT, {"id": 1})
            box.add(Message("orders", b"1"), Message("orders", b"2", delay_ms=1_000))
        with pytest.raises(ValueError, match="mine"):
            async with outbox.begin(session) as box:
                await session.execute(INSERT, {"id": 2})
                box.add(Message("orders", b"3"))
                raise ValueError("mine")
    await engine.dispose()
    assert orders(path) == [1]
    assert [row.message.body for row in outbox.kept.oldest("orders") if row.message] == [b"1", b"2"]


async def test_without_a_connection_the_engine_gives_one(path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    outbox = Outbox(engine)
    outbox.create()
    async with outbox.begin() as box:
        await box.connection.execute(INSERT, {"id": 1})
        box.add(Message("orders", b"1"))
    with pytest.raises(ValueError, match="mine"):
        async with outbox.begin() as box:
            await box.connection.execute(INSERT, {"id": 2})
            raise ValueError("mine")
    assert (orders(path), outbox.kept.waiting()) == ([1], 1)
    outbox.database.close()
    await engine.dispose()


def test_checks_and_forwarding_run_on_threads_without_a_loop(outbox: Outbox, path: Path) -> None:
    clock = outbox._clock
    assert isinstance(clock, ManualClock)
    with outbox.database.begin() as connection:
        outbox.record(connection, transaction("A"))
    assert outbox.check(received(unique_id="A", born_ms=1_700_000_000_000)) is COMMIT
    assert outbox.check(received(unique_id="B", born_ms=1_700_000_000_000)) is UNKNOWN
    clock.advance_ms(1_000)
    assert outbox.check(received(unique_id="B", born_ms=1_700_000_000_000)) is ROLLBACK
    with outbox.begin() as box:
        box.connection.execute(INSERT, {"id": 7})
        box.add(Message("orders", b"7"))
    with pytest.raises(ValueError, match="mine"), outbox.begin() as box:
        box.connection.execute(INSERT, {"id": 8})
        raise ValueError("mine")
    assert (orders(path), outbox.kept.lanes(9)) == ([7], ["orders"])
    assert outbox.kept.take_lease("a", 10) and not outbox.kept.take_lease("b", 10)


async def test_the_engine_of_the_application_stays_its_own(path: Path) -> None:
    """Its connections belong to its loop: ours must never come from its pool."""
    engine: AsyncEngine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    outbox = Outbox(engine)
    outbox.create()
    assert engine.pool.checkedin() == 0  # type: ignore[attr-defined]
    outbox.database.close()
    async with engine.connect() as connection:
        assert (await connection.execute(sqlalchemy.text("SELECT COUNT(*) FROM orders"))).scalar() == 0
    await engine.dispose()


async def test_an_async_session_keeps_values_and_their_delays(outbox: Outbox, path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    async with AsyncSession(engine) as session, outbox.begin(session) as box:
        await session.execute(INSERT, {"id": 1})
        box.add("orders", {"id": 1}, keys="1", delay=timedelta(minutes=30))
        with pytest.raises(MessageRefusedError, match="not bytes"):
            box.add(b"42")  # type: ignore[call-overload]
        with pytest.raises(TypeError, match=r"keys is for add\(topic, value\)"):
            box.add(Message("orders", b"1"), keys="1")  # type: ignore[call-overload]
    await engine.dispose()
    (row,) = outbox.kept.oldest("orders")
    assert row.message is not None
    assert (row.message.body, row.message.properties["content_type"]) == (b'{"id":1}', "application/json")
    assert row.message.deliver_at_ms - row.kept_ms == 1_800_000
    assert orders(path) == [1]
