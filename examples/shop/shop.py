"""A shop of six listeners, each with the guarantee that it needs. Start a broker (``pyromq up``), then, in this folder:

pyromq run shop:app --workers 3

carts ──place──▶ row and event, both or neither ──orders──▶ bill, in order ──payments──▶ ship, once
           └── delayed ──cancels──▶ cancel, unless paid ◀─── recall of what waits ──┘
price-requests ──▶ price ──▶ reply              price-changes ──▶ forget, in every worker
"""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec

from pyromq import App, Producer, aio
from pyromq.errors import BrokerError, DeadLetterError
from pyromq.outbox import AsyncForwardingProducer, Outbox

DATABASE = os.environ.get("SHOP_DATABASE", "shop.db")
PATIENCE = timedelta(seconds=float(os.environ.get("SHOP_PATIENCE_S", "1800")))  # how long an order may be unpaid
TOPICS = ("carts", "orders", "payments", "cancels", "price-requests", "price-changes")
TABLES = (
    "orders (id TEXT PRIMARY KEY, customer TEXT, status TEXT DEFAULT 'new', recall TEXT, recalled INT DEFAULT 0)",
    "ledger (number INTEGER PRIMARY KEY AUTOINCREMENT, customer TEXT, order_id TEXT, cents INT)",
    "shipments (order_id TEXT)",
    "prices (item TEXT PRIMARY KEY, cents INT)",
)


class Order(msgspec.Struct, frozen=True):
    id: str
    customer: str
    items: list[str]
    card: str = "good"


class Paid(msgspec.Struct, frozen=True):
    order: str
    cents: int


class Price(msgspec.Struct, frozen=True):
    item: str
    cents: int


app = App(name="shop")
known_prices: dict[str, int] = {}  # of this process; ``forget`` keeps it true


@app.provide
async def outbox(app: App) -> AsyncIterator[Outbox]:
    """Rows and messages in one database; one of the workers forwards the messages."""
    box = Outbox(DATABASE)
    with box.database.begin() as connection:
        for table in TABLES:
            connection.execute(f"CREATE TABLE IF NOT EXISTS {table}")
    async with AsyncForwardingProducer(client=app.client, group="shop-outbox", outbox=box, poll_ms=200):
        yield box


@app.provide
def admin(app: App) -> aio.Admin:
    return aio.Admin(client=app.client)


@app.on_start
async def create_topics(admin: aio.Admin) -> None:
    for topic in TOPICS:
        await admin.topics.create(topic, queues=6)


@app.consume("carts", group="ordering", start="earliest")
def place(order: Order, outbox: Outbox, producer: Producer) -> None:
    """The order and its event are written together. A cart that comes twice is placed once."""
    later = producer.send("cancels", order.id, delay=PATIENCE)
    with outbox.begin() as box:
        row = (order.id, order.customer, later.recall_handle)
        text = "INSERT OR IGNORE INTO orders (id, customer, recall) VALUES (?, ?, ?)"
        if box.connection.execute(text, row).rowcount:
            box.add("orders", order, sharding_key=order.customer, keys=[order.id])


@app.consume("orders", group="billing", orderly=True, start="earliest")
def bill(order: Order, outbox: Outbox) -> None:
    """The orders of a customer in their order. A card that is refused leaves the order to ``cancel``."""
    if not order.items:
        raise DeadLetterError(f"order {order.id} is empty")  # no retry will help
    if order.card != "good":
        return
    cents = sum(price_of(outbox, item) for item in order.items)
    with outbox.begin() as box:
        text = "UPDATE orders SET status = 'paid' WHERE id = ? AND status = 'new'"
        if box.connection.execute(text, (order.id,)).rowcount:
            row = (order.customer, order.id, cents)
            box.connection.execute("INSERT INTO ledger (customer, order_id, cents) VALUES (?, ?, ?)", row)
            box.add("payments", Paid(order.id, cents), keys=[order.id])


@app.consume("payments", group="shipping", once=DATABASE, start="earliest")
def ship(paid: Paid, outbox: Outbox) -> None:
    sql(outbox, "INSERT INTO shipments VALUES (?)", paid.order)


@app.consume("payments", group="recalling", start="earliest")
async def recall(paid: Paid, outbox: Outbox, admin: aio.Admin) -> None:
    """What is paid need not be cancelled any more. Too late is no harm: ``cancel`` looks at the row."""
    handle = await asyncio.to_thread(sql, outbox, "SELECT recall FROM orders WHERE id = ?", paid.order)
    try:
        await admin.delays.recall(handle)
    except BrokerError:
        return
    await asyncio.to_thread(sql, outbox, "UPDATE orders SET recalled = 1 WHERE id = ?", paid.order)


@app.consume("cancels", group="cancelling", start="earliest")
def cancel(order_id: str, outbox: Outbox) -> None:
    sql(outbox, "UPDATE orders SET status = 'cancelled' WHERE id = ? AND status = 'new'", order_id)


@app.reply("price-requests", group="pricing")
def price(item: str, outbox: Outbox) -> Price:
    return Price(item, price_of(outbox, item))


@app.consume("price-changes", group="price-caches", broadcast=True)
def forget(changed: Price) -> None:
    known_prices.pop(changed.item, None)


def change_price(outbox: Outbox, price: Price) -> None:
    with outbox.begin() as box:
        box.connection.execute("REPLACE INTO prices VALUES (?, ?)", (price.item, price.cents))
        box.add("price-changes", price)


def price_of(outbox: Outbox, item: str) -> int:
    if item not in known_prices:
        known_prices[item] = sql(outbox, "SELECT cents FROM prices WHERE item = ?", item) or 0
    return known_prices[item]


def sql(outbox: Outbox, text: str, value: str) -> Any:
    """One statement in a transaction of its own; the first value of its first row."""
    with outbox.database.begin() as connection:
        row = connection.execute(text, (value,)).fetchone()
    return row[0] if row else None
