"""The shop of the examples: three workers, a broker that is killed and started again under them, the books right."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq import Admin, aio
from pyromq.errors import ConfigError, MQError
from pyromq.outbox import Outbox
from pyromq.testing import AsyncServerProcess, LoopbackBroker
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

SHOP = Path(__file__).parents[2] / "examples" / "shop"
LINES_MAX = 150
CUSTOMERS, ORDERS, WORKERS = 5, 60, 3
PATIENCE_S = 12
PRICES = {"apple": 40, "pear": 55}


@contextmanager
def shop_module(database: Path, patience_s: float) -> Iterator[Any]:
    """The module anew, with these settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOP_DATABASE", str(database))
        patch.setenv("SHOP_PATIENCE_S", str(patience_s))
        patch.syspath_prepend(str(SHOP))
        sys.modules.pop("shop", None)
        yield import_module("shop")
        sys.modules.pop("shop", None)


def rows(database: Path, text: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.close()


def order_of(number: int) -> dict[str, Any]:
    card = "refused" if number % 6 == 0 else "good"
    items = ["apple"] * (1 + number % 3) + ["pear"]
    return {"id": f"o{number:03}", "customer": f"c{number % CUSTOMERS}", "items": items, "card": card}


def workers(nameserver: str, database: Path) -> AsyncServerProcess:
    environment = {"SHOP_DATABASE": str(database), "SHOP_PATIENCE_S": str(PATIENCE_S)}
    words = ("run", "shop:app", "--workers", str(WORKERS), "--nameserver", nameserver)
    return AsyncServerProcess(*words, env=environment, cwd=SHOP)


async def test_the_books_are_right_after_a_broker_was_killed_under_three_workers(tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    async with AsyncServerProcess("up", data=tmp_path / "data") as server:
        async with workers(server.nameserver, database) as shop:
            await set_prices(database)
            async with aio.Producer(server.nameserver, group="web", timeout_ms=30_000) as web:
                await place_all(web, range(ORDERS // 2))
                await server.kill()
                await server.start()
                await place_all(web, range(ORDERS // 2, ORDERS))
                await ask_prices(web, database)
            await until(lambda: is_settled(database), "every order shipped or cancelled", timeout_s=60)
            assert shop.output.startswith("ready app=shop:app workers=3")
            assert await shop.stop(40) == 0
        check_books(database)
        async with aio.Admin(server.nameserver) as admin:
            letters = await admin.dead_letters.list("billing")
            # a kill may have it delivered, and buried, twice
            assert {(each.keys, each.reason) for each in letters} == {(("empty",), "order empty is empty")}


async def place_all(web: aio.Producer, numbers: range) -> None:
    for number in numbers:
        await web.send("carts", order_of(number))
        if number % 10 == 0:
            await web.send("carts", order_of(number))  # an impatient customer
    if numbers.start == 0:
        await web.send("carts", {"id": "empty", "customer": "c9", "items": []})


async def set_prices(database: Path) -> None:
    with shop_module(database, PATIENCE_S) as shop:
        outbox = Outbox(database)
        for item, cents in PRICES.items():
            await asyncio.to_thread(shop.change_price, outbox, shop.Price(item, cents))
        outbox.database.close()


async def ask_prices(web: aio.Producer, database: Path) -> None:
    """Every worker hears of a change: after a while none has the old price."""

    async def ask(item: str) -> int:
        reply = await web.request("price-requests", item, timeout_ms=10_000)
        return int(msgspec.json.decode(reply.body)["cents"])

    async def ask_until(item: str, cents: int) -> None:
        in_a_row = 0
        while in_a_row < 9:
            try:
                in_a_row = in_a_row + 1 if await ask(item) == cents else 0
            except MQError:  # requests are not kept: those of a broker that was just started may be lost
                in_a_row = 0

    await asyncio.wait_for(ask_until("pear", PRICES["pear"]), 40)
    with shop_module(database, PATIENCE_S) as shop:
        outbox = Outbox(database)
        await asyncio.to_thread(shop.change_price, outbox, shop.Price("cherry", 7))
        outbox.database.close()
    await asyncio.wait_for(ask_until("cherry", 7), 40)


def is_settled(database: Path) -> bool:
    found = dict(rows(database, "SELECT status, count(*) FROM orders GROUP BY status"))
    shipped = rows(database, "SELECT count(DISTINCT order_id) FROM shipments")[0][0]
    return sum(found.values()) == ORDERS + 1 and not found.get("new") and shipped == found.get("paid")


def check_books(database: Path) -> None:
    status = dict(rows(database, "SELECT id, status FROM orders"))
    wanted = {order_of(number)["id"]: order_of(number) for number in range(ORDERS)}
    good = {name for name, order in wanted.items() if order["card"] == "good"}
    paid = {name for name, each in status.items() if each == "paid"}
    assert paid <= good and set(wanted) - good <= {name for name, each in status.items() if each == "cancelled"}
    assert len(paid) > len(good) // 2, "a broker that is gone for a moment cancels few orders"
    ledger = rows(database, "SELECT customer, order_id, cents FROM ledger ORDER BY number")
    assert {order for _, order, _ in ledger} == paid and len(ledger) == len(paid), "each billed once"
    shipments = Counter(order for (order,) in rows(database, "SELECT order_id FROM shipments"))
    assert shipments == dict.fromkeys(paid, 1), "each shipped once"
    placed = [order for (order,) in rows(database, "SELECT id FROM orders ORDER BY rowid")]
    overtaken = 0
    for customer in {customer for customer, _, _ in ledger}:
        billed = [placed.index(order) for who, order, _ in ledger if who == customer]
        overtaken += sum(one > next_one for one, next_one in pairwise(billed))
    assert overtaken <= WORKERS, "orders of a customer are billed as placed, but for those at work when locks were lost"
    for _, order, cents in ledger:
        assert cents == sum(PRICES[item] for item in wanted[order]["items"])
    recalled = {order for (order,) in rows(database, "SELECT id FROM orders WHERE recalled = 1")}
    assert recalled and recalled <= paid, "what was paid is not cancelled later"


def test_an_unpaid_order_is_cancelled_and_a_paid_one_is_not_half_an_hour_later(tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    with shop_module(database, 1800) as shop, LoopbackBroker(virtual_time=True) as broker:
        with shop.app.running(broker.nameserver) as app:
            app.sync_producer.send("carts", shop.Order("1", "ann", ["apple"]))
            app.sync_producer.send("carts", shop.Order("2", "bob", ["apple"], card="refused"))
            broker.advance(minutes=5)
            assert rows(database, "SELECT id, status, recalled FROM orders ORDER BY id") == [
                ("1", "paid", 1),
                ("2", "new", 0),
            ]
            broker.advance(minutes=26)
            assert rows(database, "SELECT status FROM orders ORDER BY id") == [("paid",), ("cancelled",)]
        with Admin(broker.nameserver) as admin:
            assert admin.delays.list("cancels") == []


def test_the_shop_is_short_and_has_a_document() -> None:
    assert (SHOP / "shop.py").read_text(encoding="utf-8").count("\n") <= LINES_MAX
    with shop_module(Path("nowhere.db"), 1) as shop:
        shop.app.check()
        document = shop.app.asyncapi()
        assert {"place", "bill", "ship", "recall", "cancel", "price", "forget"} == set(document["operations"])
        with pytest.raises(ConfigError):
            shop.app.override(bank=3).__enter__()
