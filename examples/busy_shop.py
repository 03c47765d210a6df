"""A shop at work, for the console to look at: orders come in, one listener fails in four ways, another is behind.

    python examples/busy_shop.py [NAMESERVER]

    orders ──▶ billing    fails with some orders for good: dead letters, grouped by error in the console
           ──▶ shipping   keeps up          ──▶ analytics   was stopped halfway: it has a lag and no members
    payments ──▶ ledger   in order          ──▶ half messages whose producer never decides
    reminders             delayed by minutes and hours, some to be cancelled

Names and numbers are the same in every run. Ctrl-C ends it; what it stored stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count
from math import sin
from random import Random
from typing import Self

from pyromq.aio import (
    Admin,
    Message,
    OrderlyStatus,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionOutcome,
    TransactionProducer,
)
from pyromq.errors import MQError
from pyromq.settings import PushConsumerSettings
from pyromq.testing import LoopbackBroker

TOPICS = {"orders": 8, "payments": 4, "reminders": 4, "price-changes": 1, "newsletter": 4}
FIRST, ORDERS, PAYMENTS, NEWS = 10_000, 240, 60, 40
REMINDERS_MIN = (12, 25, 40, 55, 61, 75, 90, 95, 130, 150, 200, 260, 300, 420, 610, 1_100)  # minutes ahead
UNDECIDED = 4
ITEMS = ("apple", "pear", "plum", "quince", "cherry")
REGIONS = ("eu", "us", "asia")
QUICK = PushConsumerSettings(
    attempts_max=2, persist_ms=500, rebalance_ms=1_000, start="earliest", code_version="2026.11", traceback_bytes=2_000
)
IN_ORDER = replace(QUICK, orderly=True)
SECONDS_MAX = 120
SEND_S = 30  # a laptop may be busy with other things


class CardRefusedError(Exception):
    """The bank will not pay."""


def order_of(number: int) -> Message:
    """Orders by number: some have what billing cannot use."""
    rng = Random(number)
    order: dict[str, object] = {
        "id": f"order-{number}",
        "customer": f"customer-{rng.randrange(40)}",
        "items": [{"item": rng.choice(ITEMS), "count": rng.randrange(1, 4)} for _ in range(rng.randrange(1, 4))],
        "total_cents": rng.randrange(199, 20_000),
        "currency": "EUR",
    }
    region = rng.choice(REGIONS)
    if number % 48 == 7:
        del order["currency"]
    elif number % 40 == 11:
        order["card"] = "expired"
    elif number % 60 == 21:
        order["total_cents"] = -1
    return Message(
        "orders",
        json.dumps(order).encode(),
        tags=region,
        keys=[f"order-{number}"],
        properties={"region": region, "channel": rng.choice(("web", "app", "phone"))},
    )


async def bill(message: ReceivedMessage) -> None:
    order = json.loads(message.body)
    if order.get("card") == "expired":
        raise CardRefusedError(f"card of {order['customer']} expired in 2024")
    if order["total_cents"] < 0:
        raise ValueError(f"{order['id']} has a total of {order['total_cents']} cents")
    _ = order["currency"]  # KeyError for orders of the old app
    if Random(order["id"]).randrange(60) == 3 and not message.is_retry:
        raise TimeoutError("the bank did not answer within 3 s")


async def ship(message: ReceivedMessage) -> None:
    pass


async def book(message: ReceivedMessage) -> OrderlyStatus:
    return OrderlyStatus.SUCCESS


async def undecided(message: ReceivedMessage) -> TransactionOutcome:
    return TransactionOutcome.UNKNOWN


class BusyShop:
    """``fill`` stores what there is to see, ``trade`` goes on until it is cancelled; consumers run inside the block."""

    def __init__(self, nameserver: str) -> None:
        self._nameserver = nameserver
        self._stack = AsyncExitStack()
        self._next = FIRST

    async def __aenter__(self) -> Self:
        enter, where = self._stack.enter_async_context, self._nameserver
        try:
            self.admin = await enter(Admin(where))
            for topic, queues in TOPICS.items():
                await self.admin.topics.create(topic, queues=queues)
            self._producer = await enter(Producer(where, group="shop", trace=True, timeout=SEND_S))
            self._payments = await enter(
                TransactionProducer(where, group="payment-service", topics="payments", check=undecided)
            )
            consumers = (
                PushConsumer(where, group="billing", listener=bill, topics="orders", trace=True, settings=QUICK),
                PushConsumer(where, group="shipping", listener=ship, topics="orders", trace=True, settings=QUICK),
                PushConsumer(where, group="ledger", listener=book, topics="payments", settings=IN_ORDER),
            )
            for consumer in consumers:
                await enter(consumer)
        except BaseException:  # what has started must not outlive a start that failed; raised again
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def fill(self) -> None:
        """Everything once; comes back when billing has its dead letters."""
        await self._send_orders(ORDERS // 2)
        await self._analyse()
        await self._send_orders(ORDERS - ORDERS // 2)
        for number in range(PAYMENTS):
            body = json.dumps({"payment": number, "cents": number * 250}).encode()
            message = Message("payments", body, keys=[f"payment-{number}"], sharding_key=f"customer-{number % 7}")
            await self._producer.send(message)
        for number in range(UNDECIDED):
            message = Message("payments", b'{"prepared": true}', keys=[f"prepared-{number}"])
            await self._payments.send(message, lambda transaction: TransactionOutcome.UNKNOWN)
        for number, minutes in enumerate(REMINDERS_MIN):
            body = f"customer-{number}: your cart waits".encode()
            await self._producer.send(
                Message("reminders", body, tags="cart", keys=[f"cart-{number}"], delay_ms=minutes * 60_000)
            )
        for number in range(NEWS):
            await self._producer.send(Message("newsletter", b"Spring is here " * 20, keys=[f"news-{number}"]))
        async with asyncio.timeout(SECONDS_MAX):
            while len(await self.admin.dead_letters.list("billing")) < DEAD_LETTERS:  # noqa: ASYNC110, brokers do not tell
                await asyncio.sleep(0.1)

    async def _send_orders(self, count: int, *, hopeless: bool = True) -> None:
        """``hopeless``: with those that billing fails with; else with few of them, for it goes on for hours."""
        numbers = [
            number
            for number in range(self._next, self._next + count)
            if hopeless or not is_hopeless(number) or number % 9 == 0
        ]
        self._next += count
        outcomes = await asyncio.gather(
            *(self._producer.send(order_of(number)) for number in numbers), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _analyse(self) -> None:
        """A group that reads what there is and is stopped then."""
        seen, all_seen = set[str](), asyncio.Event()

        async def analyse(message: ReceivedMessage) -> None:
            seen.add(message.keys[0])
            if len(seen) == ORDERS // 2:
                all_seen.set()

        where = self._nameserver
        consumer = PushConsumer(where, group="analytics", listener=analyse, topics="orders", settings=QUICK)
        async with consumer, asyncio.timeout(SECONDS_MAX):
            await all_seen.wait()

    async def trade(self) -> None:
        """Orders come and go in waves, until it is cancelled."""
        for moment in count():
            try:
                await self._send_orders(round(14 + 10 * sin(moment / 9)), hopeless=False)
            except MQError as error:  # a slow disk, a broker that restarts: the shop stays open
                print(f"some orders were not sent, going on: {error}", flush=True)
            await asyncio.sleep(0.5)


def is_hopeless(number: int) -> bool:
    """Whether billing fails with this order for good."""
    return number % 48 == 7 or number % 40 == 11 or number % 60 == 21


DEAD_LETTERS = sum(map(is_hopeless, range(FIRST, FIRST + ORDERS)))


async def main(nameserver: str) -> None:
    logging.getLogger("pyromq").setLevel(logging.CRITICAL)  # failures are what it is about
    async with BusyShop(nameserver) as shop:
        await shop.fill()
        print(f"{ORDERS} orders, {DEAD_LETTERS} dead letters of billing, {len(REMINDERS_MIN)} reminders", flush=True)
        await shop.trade()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        if sys.argv[1:]:
            asyncio.run(main(sys.argv[1]))
        else:
            with LoopbackBroker(delay_levels_ms=(300,) * 18) as broker:
                asyncio.run(main(broker.nameserver))
