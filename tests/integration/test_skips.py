"""``once=`` of apps under the test kit: marks of one test are not those of the next, and what is skipped is told."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from pyromq import App, Producer
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration


def _run(broker: LoopbackBroker, database: object, *, copies: int = 3, **options: Any) -> tuple[list[str], Any]:
    """What the listener of an app got of so many copies of one order, and what the app reports of the group."""
    app, billed = App(name="shop"), list[str]()
    consume = app.consume("orders", group="billing", once=database, start="earliest", **options)
    if options:

        @consume
        def bill_all(orders: list[str]) -> None:
            billed.extend(orders)
    else:

        @consume
        async def bill(order: str) -> None:
            billed.append(order)

    with Producer(broker.nameserver, group="shop") as producer:
        for _ in range(copies):
            producer.send("orders", "order-1", keys="order-1")
        with app.running(broker.nameserver):
            broker.advance(seconds=30)
            told = app._running().report()["groups"]["billing"]
    return billed, told


@pytest.mark.parametrize("database", ["marks.db", Path("marks.db"), "sqlite:///marks.db"])
def test_the_second_run_of_a_test_consumes_what_the_first_consumed(
    database: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with LoopbackBroker(virtual_time=True, sockets=False) as broker:
            assert _run(broker, database)[0] == ["order-1"]
    assert list(tmp_path.iterdir()) == [], "nothing is left in the project"


def test_a_broker_that_keeps_its_messages_keeps_the_marks_too(tmp_path: Path) -> None:
    for expected in (["order-1"], []):
        with LoopbackBroker(folder=tmp_path / "store", virtual_time=True, sockets=False) as broker:
            assert _run(broker, "marks.db", copies=1)[0] == expected


@pytest.mark.parametrize("options", [{}, {"batch": 10}])
def test_a_duplicate_is_skipped_in_timeline_counters_and_log(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pyromq.idempotent")
    with LoopbackBroker(virtual_time=True, sockets=False) as broker:
        billed, told = _run(broker, "marks.db", **options)
        assert billed == ["order-1"]
        group = broker.group("billing")
        group.assert_consumed("orders", count=1)
        assert len(group.skipped("orders")) == 2
        assert group.timeline().count("skipped") == 2
        group.assert_nothing_pending()
        broker.assert_nothing_lost()
        assert told["skipped"] == 2
        lines = [line for line in caplog.messages if line.startswith("skipped, consumed before: scope=billing")]
        assert len(lines) == 2 and "keys='order-1'" in lines[0]
