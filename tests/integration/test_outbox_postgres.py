"""Outboxes and marks on a real PostgreSQL, with drivers for threads and for asyncio."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from pyromq import Message
from pyromq.idempotent import InProgressError, Marks
from pyromq.outbox import ForwardingProducer, Outbox, OutboxProducer, OverdueError
from pyromq.testing import LoopbackBroker, ManualClock
from tests.integration.postgres import postgres
from tests.unit.outbox.test_outbox import COMMIT, ROLLBACK, transaction
from tests.unit.outbox.test_pages import run_page
from tests.unit.received import received

pytestmark = pytest.mark.integration

pytest.importorskip("psycopg", reason="outboxes were not tried on PostgreSQL: no psycopg")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as address:
        yield address


@pytest.fixture(params=["postgresql", "postgresql+psycopg", "postgresql+asyncpg"])
def outbox(request: pytest.FixtureRequest, server: str) -> Iterator[Outbox]:
    if request.param.endswith("asyncpg"):
        pytest.importorskip("asyncpg", reason="outboxes were not tried with asyncpg")
        pytest.importorskip("greenlet", reason="SQLAlchemy's asyncio part needs greenlet")
    outbox = Outbox(f"{request.param}://{server}", table=f"t{abs(hash(request.node.name)):d}", clock=ManualClock())
    outbox.create()
    outbox.create()
    yield outbox
    outbox.database.close()


def test_rows_and_messages_are_there_together_or_not_at_all(outbox: Outbox) -> None:
    with outbox.begin() as box:
        box.add(Message("orders", b"1"), Message("orders", bytes(range(256)), delay_ms=5))
    with pytest.raises(ValueError, match="mine"), outbox.begin() as box:
        box.add(Message("orders", b"3"))
        raise ValueError("mine")
    rows = outbox.kept.oldest("orders")
    assert [row.message.body for row in rows if row.message] == [b"1", bytes(range(256))]
    outbox.kept.refuse(rows[0].id, "no")
    assert [row.refused for row in outbox.refused()] == ["no"]
    assert outbox.retry_refused() == 1
    outbox.kept.forget([row.id for row in rows])
    assert outbox.kept.waiting() == 0


def test_a_check_and_a_slow_sender_cannot_both_win(outbox: Outbox) -> None:
    with outbox.database.begin() as connection:
        outbox.record(connection, transaction("A"))
    assert (outbox.settle("A"), outbox.settle("B")) == (COMMIT, ROLLBACK)
    with pytest.raises(OverdueError), outbox.database.begin() as connection:
        outbox.record(connection, transaction("B"))
    assert outbox.check(received(unique_id="B", born_ms=0)) is ROLLBACK
    assert outbox.prune() == 0


def test_one_of_many_threads_gets_the_lease(outbox: Outbox) -> None:
    got: list[bool] = []
    threads = [
        threading.Thread(target=lambda n=n: got.append(outbox.kept.take_lease(f"holder-{n}", 60_000))) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False] * 7 + [True]


def test_producers_work_on_it(server: str) -> None:
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://{server}")
    outbox = Outbox(engine, table="shop_outbox")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE produced (id BIGINT PRIMARY KEY)"))
    insert = sqlalchemy.text("INSERT INTO produced VALUES (:id)")
    with (
        LoopbackBroker() as broker,
        OutboxProducer(broker.nameserver, group="shop", topics="orders", outbox=outbox) as prepared,
        ForwardingProducer(broker.nameserver, group="forward", outbox=outbox) as forwarding,
        Session(engine) as session,
    ):
        with prepared.transaction(Message("orders", b"1"), session):
            session.execute(insert, {"id": 1})
        with outbox.begin(session) as box:
            session.execute(insert, {"id": 2})
            box.add(Message("orders", b"2"))
        assert forwarding.flush(30_000) == 0
        assert session.execute(sqlalchemy.text("SELECT COUNT(*) FROM produced")).scalar() == 2
    engine.dispose()


def test_the_pages_on_outboxes_run_on_it(server: str, tmp_path: Path) -> None:
    port = server.partition("/")[0].rpartition(":")[2]
    run_page("outbox-django.md", tmp_path, SHOP_POSTGRES_PORT=port)
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://{server}")
    with engine.begin() as connection:
        assert connection.execute(sqlalchemy.text("SELECT amount FROM shop_order")).scalar() == 990
    urls = {"SHOP_DATABASE": f"postgresql+psycopg://{server}", "SHOP_ASYNC_DATABASE": f"postgresql+asyncpg://{server}"}
    run_page("outbox-sqlalchemy.md", tmp_path, **urls)
    engine.dispose()


def test_marks_work_on_it(server: str) -> None:
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://{server}")
    first, second = Marks(engine, scope="billing"), Marks(engine, scope="billing")
    claim = first.claim("order-1")
    assert claim is not None
    with pytest.raises(InProgressError):
        second.claim("order-1")
    first.finish(claim)
    assert second.claim("order-1") is None
    engine.dispose()
