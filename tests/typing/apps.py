"""Apps as users write them: mypy --strict and pyright find nothing here, and ``app.check()`` neither."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from pyromq import App, ConsumeStatus, Producer, ReceivedMessage, SendReceipt, TransactionOutcome, aio
from pyromq.results import OrderlyStatus
from pyromq.settings import PushConsumerSettings


@dataclass
class Order:
    id: int


app = App("127.0.0.1:9876", name="shop", drain_timeout_ms=5_000, namespace="test")


@app.provide
def limits() -> dict[str, int]:
    return {"orders": 3}


@app.provide(scope="message")
async def session(limits: dict[str, int]) -> AsyncIterator[str]:
    yield f"session {limits}"


@app.provide(scope="message")
def plain_session(message: ReceivedMessage) -> Iterator[str]:
    yield message.topic


@app.middleware
def timed(message: ReceivedMessage) -> Iterator[None]:
    yield


@app.middleware(groups=["billing"])
async def around(message: ReceivedMessage, call_next: Callable[[ReceivedMessage], Awaitable[object]]) -> object:
    return await call_next(message)


@app.on_start
async def begin(producer: aio.Producer) -> None:
    await producer.send("orders", Order(1))


@app.on_stop
def end(app: App) -> None: ...


@app.consume("orders", group="billing", tags="new || changed", start="earliest", concurrency=8)
async def bill(order: Order, session: str, producer: aio.Producer) -> ConsumeStatus:
    receipt: SendReceipt = await app.send("billed", order, delay=timedelta(minutes=1), keys=["1"])
    return ConsumeStatus.SUCCESS if receipt.message_id else ConsumeStatus.RETRY


@app.consume(["billed", "refunds"], group="shipping", orderly=True, threads=3, retries=5, once="marks.db")
def ship(order: Order, plain_session: str, producer: Producer) -> OrderlyStatus | None:
    return None


@app.consume("orders", group="archive", batch=100, settings=PushConsumerSettings(pull_batch=100))
def archive(orders: list[Order], messages: list[ReceivedMessage]) -> None: ...


@app.consume("prices", group="caches", broadcast=True)
async def forget(message: ReceivedMessage) -> None: ...


@app.reply("questions", group="answers")
async def answer(question: str) -> Order:
    return Order(len(question))


@app.transaction_check("orders")
def happened(order: Order) -> TransactionOutcome:
    return TransactionOutcome.COMMIT


async def use() -> None:
    reply: Order = await app.request("questions", "how many?", Order, timeout_ms=1_000)
    async with app.transaction("orders", reply, keys="1") as transaction:
        transaction.rollback()
    async with app.running("127.0.0.1:9876") as same:
        same.stop()


def use_threads() -> None:
    with app.running() as same, app.transaction("orders", Order(1)) as transaction:
        transaction.commit()
        receipt: SendReceipt = same.sync_producer.send("orders", Order(1))
        del receipt
