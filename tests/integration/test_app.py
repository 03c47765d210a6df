"""Apps against a real broker: what comes to listeners, what they send, how runs begin and end."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pyromq
from pyromq import App, ConsumeStatus, Message, ReceivedMessage, TransactionOutcome, aio
from pyromq.errors import BodyError, ClientClosedError, ConfigError, DeadLetterError, NoReplyError
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until

pytestmark = pytest.mark.integration


class Order(msgspec.Struct, frozen=True):
    id: int


@asynccontextmanager
async def broker_with(*topics: str, queues: int = 2, **options: Any) -> AsyncIterator[LoopbackBroker]:
    async with LoopbackBroker(**options) as broker:
        async with aio.Admin(broker.nameserver) as admin:
            for topic in topics:
                await admin.topics.create(topic, queues=queues)
        yield broker


async def test_functions_and_coroutines_send_to_each_other() -> None:
    app, log = App(name="shop"), list[Any]()

    @app.provide
    async def rates() -> AsyncIterator[dict[str, int]]:
        log.append("open")
        yield {"tax": 19}
        log.append("close")

    @app.on_start
    def begin(producer: pyromq.Producer, rates: dict[str, int]) -> None:
        log.append(("start", rates["tax"], threading.current_thread() is threading.main_thread()))
        producer.send("orders", Order(1))

    @app.on_stop
    async def end(app: App) -> None:
        log.append(f"stop {app.state}")

    @app.consume("orders", group="billing", start="earliest")
    async def bill(order: Order, producer: aio.Producer) -> None:
        await producer.send("billed", order)

    @app.consume("billed", group="shipping", start="earliest")
    def ship(order: Order, producer: pyromq.Producer, message: ReceivedMessage) -> None:
        producer.send("shipped", {"order": order.id, "from": message.topic})

    @app.consume("shipped", group="archive", start="earliest")
    async def archive(shipped: dict[str, Any]) -> None:
        log.append(shipped)

    async with broker_with("orders", "billed", "shipped") as broker:
        async with app.running(broker.nameserver):
            await app.send("orders", Order(2), keys=["order-2"])
            await until(lambda: sum(isinstance(each, dict) for each in log) == 2)
            assert app.state == "running"
    assert app.state == "stopped"
    assert log[:2] == ["open", ("start", 19, False)] and log[-2:] == ["stop draining", "close"]
    assert {each["order"] for each in log if isinstance(each, dict)} == {1, 2}


async def test_a_stop_waits_for_listeners_and_what_they_finished_does_not_come_again() -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), list[int]()
    app = App(name="shop")

    @app.consume("orders", group="billing", start="earliest")
    async def bill(order: Order) -> None:
        begun.set()
        await go_on.wait()
        done.append(order.id)

    async with broker_with("orders", queues=1) as broker:
        running = app.running(broker.nameserver)
        await running.__aenter__()
        await app.send("orders", Order(1))
        await asyncio.wait_for(begun.wait(), 15)
        stopping = asyncio.ensure_future(running.__aexit__())
        await until(lambda: app.state == "draining")
        assert done == [] and not stopping.done()
        go_on.set()
        await stopping
        assert done == [1]
        async with app.running(broker.nameserver):
            await app.send("orders", Order(2))
            await until(lambda: done == [1, 2])


async def test_a_stop_that_waits_too_long_leaves_the_message_to_others(quiet: None) -> None:
    begun, never = asyncio.Event(), asyncio.Event()
    app, seen = App(name="shop", drain_timeout_ms=100), list[int]()

    @app.consume("orders", group="billing", start="earliest")
    async def bill(order: Order) -> None:
        seen.append(order.id)
        begun.set()
        if len(seen) == 1:
            await never.wait()

    async with broker_with("orders", queues=1) as broker:
        async with app.running(broker.nameserver):
            await app.send("orders", Order(1))
            await asyncio.wait_for(begun.wait(), 15)
        async with app.running(broker.nameserver):
            await until(lambda: seen == [1, 1])


async def test_once_acts_once(tmp_path: Path) -> None:
    app, acted = App(name="shop"), Counter[int]()

    @app.consume("orders", group="shipping", start="earliest", once=str(tmp_path / "marks.db"))
    async def ship(order: Order) -> None:
        acted[order.id] += 1

    async with broker_with("orders") as broker, app.running(broker.nameserver):
        for number in (1, 1, 2, 1, 3):
            await app.send("orders", Order(number), keys=[f"order-{number}"])
        await until(lambda: app.producer and sum(each.counts.ok for each in consumers(app)) == 5)
    assert acted == {1: 1, 2: 1, 3: 1}


def consumers(app: App) -> list[aio.PushConsumer]:
    assert app._run is not None
    return app._run.consumers


async def test_batches_order_and_threads() -> None:
    app, batches, ordered = App(name="shop"), list[list[int]](), list[int]()

    @app.consume("orders", group="batches", start="earliest", batch=8)
    def several(orders: list[Order]) -> ConsumeStatus:
        batches.append([order.id for order in orders])
        return ConsumeStatus.SUCCESS

    @app.consume("orders", group="ordered", start="earliest", orderly=True, threads=2)
    def one_by_one(order: Order) -> None:
        ordered.append(order.id)

    async with broker_with("orders", queues=1) as broker:
        async with aio.Producer(broker.nameserver, group="p") as producer:
            await producer.send_batch("orders", [Order(number) for number in range(20)])
        async with app.running(broker.nameserver):
            await until(lambda: sum(map(len, batches)) == 20 and len(ordered) == 20)
    assert ordered == list(range(20))
    assert sorted(number for batch in batches for number in batch) == list(range(20)) and max(map(len, batches)) > 1


async def test_every_instance_gets_a_broadcast_and_begins_where_it_ended() -> None:
    def instance(seen: list[int]) -> App:
        app = App(name="cache")

        @app.consume("prices", group="caches", broadcast=True, start="earliest")
        async def forget(order: Order) -> None:
            seen.append(order.id)

        return app

    one, two = list[int](), list[int]()
    async with broker_with("prices", queues=1) as broker:
        async with aio.Producer(broker.nameserver, group="p") as producer:
            await producer.send("prices", Order(1))
            first, second = instance(one), instance(two)
            async with first.running(broker.nameserver, instance="1"), second.running(broker.nameserver, instance="2"):
                await until(lambda: one == [1] and two == [1])
                with pytest.raises(ConfigError, match="instance_name"):
                    await instance([]).begin(_run(broker.nameserver))
            await producer.send("prices", Order(2))
            async with first.running(broker.nameserver, instance="1"):
                await until(lambda: one == [1, 2])


def _run(nameserver: str) -> Any:
    from pyromq.app.run import Run

    app = App(name="cache")

    @app.consume("prices", group="caches", broadcast=True)
    async def forget(order: Order) -> None: ...

    return Run(app, nameserver, "1")


async def test_requests_are_answered_with_what_listeners_return() -> None:
    app = App(name="shop")

    @app.reply("prices", group="pricing", start="earliest")
    async def price(question: dict[str, str]) -> Order:
        return Order(len(question["what"]))

    @app.reply("names", group="naming", start="earliest")
    def name(number: int) -> str:
        return f"number {number}"

    async with broker_with("prices", "names", "unread") as broker, app.running(broker.nameserver):
        assert await app.request("prices", {"what": "apple"}, Order, timeout_ms=15_000) == Order(5)
        assert await app.request("names", 7, str, timeout_ms=15_000) == "number 7"
        with pytest.raises(BodyError):
            await app.request("names", 7, Order, timeout_ms=15_000)
        with pytest.raises(NoReplyError):
            await app.request("unread", 7, str, timeout_ms=300)


async def test_transactions_of_coroutines_and_functions_and_who_answers_for_them() -> None:
    app, seen, asked = App(name="shop"), list[int](), list[int]()

    @app.transaction_check("orders")
    async def happened(order: Order) -> TransactionOutcome:
        asked.append(order.id)
        return TransactionOutcome.COMMIT if order.id == 4 else TransactionOutcome.ROLLBACK

    @app.consume("orders", group="billing", start="earliest")
    async def bill(order: Order) -> None:
        seen.append(order.id)

    @app.consume("commands", group="commands", start="earliest")
    def command(order: Order, app: App) -> None:
        with app.transaction("orders", order):
            pass

    async with broker_with("orders", "commands") as broker, app.running(broker.nameserver):
        async with app.transaction("orders", Order(1), keys=["1"]) as transaction:
            assert transaction.id
        with pytest.raises(ValueError, match="no"):
            async with app.transaction("orders", Order(2)):
                raise ValueError("no")
        await app.send("commands", Order(3))
        await until(lambda: sorted(seen) == [1, 3])
    assert asked == []


async def test_a_transaction_without_a_check_is_refused() -> None:
    app = App(name="shop")
    async with broker_with("orders") as broker, app.running(broker.nameserver):
        with pytest.raises(ConfigError, match=r"@app\.transaction_check"):
            async with app.transaction("orders", Order(1)):
                pass


def test_a_check_answers_for_what_a_crash_left_open() -> None:
    app, seen = App(name="shop"), list[int]()

    @app.transaction_check("orders")
    def happened(message: ReceivedMessage) -> TransactionOutcome:
        return TransactionOutcome.COMMIT if message.keys == ("paid",) else TransactionOutcome.ROLLBACK

    @app.consume("orders", group="billing", start="earliest")
    def bill(order: Order) -> None:
        seen.append(order.id)

    with LoopbackBroker(virtual_time=True) as broker:
        with pyromq.Admin(broker.nameserver) as admin:
            admin.topics.create("orders")
        with app.running(broker.nameserver):
            for number, key in ((1, "paid"), (2, "not paid")):
                with app.transaction("orders", Order(number), keys=key) as transaction:
                    transaction.unknown()
            broker.advance(minutes=3)
            assert seen == [1]


@pytest.mark.parametrize("mode", ["pull", "pop"])
def test_an_app_on_virtual_time_retries_for_hours_in_a_moment(mode: Any, quiet: None) -> None:
    app, attempts = App(name="shop"), list[int]()

    @app.consume("orders", group="billing", start="earliest", retries=3, mode=mode)
    def bill(order: Order, message: ReceivedMessage) -> None:
        attempts.append(message.delivery_attempt)
        raise ConnectionError("the bank does not answer")

    with LoopbackBroker(virtual_time=True) as broker:
        with pyromq.Admin(broker.nameserver) as admin:
            admin.topics.create("orders")
            with app.running(broker.nameserver):
                app.sync_producer.send("orders", Order(1))
                broker.advance(hours=1)
            assert attempts == [0, 1, 2, 3]
            assert [each.group for each in admin.dead_letters.list("billing")] == ["billing"]


async def test_a_start_that_fails_leaves_nothing_open_and_may_be_repeated() -> None:
    app, log, broken = App(name="shop"), list[str](), [True]

    @app.provide
    def pool() -> Iterator[str]:
        log.append("open")
        yield "pool"
        log.append("close")

    @app.on_start
    async def first() -> None:
        log.append("first")

    @app.on_start
    def begin(pool: str) -> None:
        if broken.pop():
            raise OSError("no database")

    @app.on_stop
    def end() -> None:
        log.append("end")

    async with broker_with("orders") as broker:
        with pytest.raises(OSError, match="no database"):
            async with app.running(broker.nameserver):
                pass
        assert log == ["open", "first", "close"] and app.state == "stopped"
        broken.append(False)
        async with app.running(broker.nameserver):
            assert app.state == "running"
        assert log == ["open", "first", "close", "open", "first", "end", "close"]


async def test_hooks_that_fail_at_the_end_do_not_keep_others_from_theirs() -> None:
    app, log = App(name="shop"), list[str]()

    @app.provide
    async def pool() -> AsyncIterator[int]:
        yield 1
        log.append("pool closed")

    @app.on_stop
    def first() -> None:
        log.append("first")

    @app.on_stop
    async def second() -> None:
        log.append("second")
        raise OSError("cannot say goodbye")

    async with broker_with("orders") as broker:
        with pytest.raises(OSError, match="goodbye"):
            async with app.running(broker.nameserver):
                client = app.client
        assert log == ["second", "first", "pool closed"]
        assert app.state == "stopped" and not client.is_open


async def test_a_provider_that_fails_brings_the_message_again(quiet: None) -> None:
    app, log = App(name="shop"), list[str]()

    @app.provide(scope="message")
    def session(message: ReceivedMessage) -> Iterator[str]:
        if message.delivery_attempt == 0:
            raise OSError("no session")
        yield "session"
        log.append("closed")

    @app.consume("orders", group="billing", start="earliest")
    def bill(order: Order, session: str) -> None:
        log.append(session)

    async with broker_with("orders", delay_levels_ms=(20,) * 18) as broker, app.running(broker.nameserver):
        await app.send("orders", Order(1))
        await until(lambda: log == ["session", "closed"])


async def test_an_app_runs_once_at_a_time_and_is_changed_while_it_does_not() -> None:
    app = App(name="shop")
    with pytest.raises(ClientClosedError, match="does not run"):
        _ = app.producer
    async with broker_with("orders") as broker, app.running(broker.nameserver):
        with pytest.raises(ConfigError, match="a second run cannot be added or called while the app is running"):
            await app.begin(_run(broker.nameserver))
        with pytest.raises(ConfigError, match="another listener cannot be added or called while the app is running"):
            app.consume("orders")(lambda message: None)
        with pytest.raises(ClientClosedError, match="its own loop"):
            app.sync_producer.send(Message("orders", b"1"))
    with pytest.raises(ClientClosedError):
        _ = app.sync_producer


async def test_serve_ends_when_it_is_told_to() -> None:
    app, ready = App(name="shop"), list[str]()
    app.stop()
    async with broker_with("orders") as broker:
        await app.serve(broker.nameserver, on_ready=lambda run: (ready.append(run.state.value), app.stop()))
    assert ready == ["running"] and app.state == "stopped"


@pytest.mark.parametrize("options", [{}, {"orderly": True}, {"batch": 4}, {"batch": 4, "orderly": True}])
async def test_what_does_not_decode_is_a_dead_letter_at_once_and_the_others_are_consumed(
    options: dict[str, Any], tmp_path: Path, quiet: None
) -> None:
    app, seen = App(name="shop"), list[int]()

    async def bill(order: Order) -> None:
        seen.append(order.id)

    async def bill_all(orders: list[Order]) -> None:
        seen.extend(order.id for order in orders)

    consume = app.consume("orders", group="billing", start="earliest", once=str(tmp_path / "marks.db"), **options)
    consume(bill_all if "batch" in options else bill)
    async with broker_with("orders", queues=1) as broker, aio.Admin(broker.nameserver) as admin:
        async with aio.Producer(broker.nameserver, group="p") as producer:
            for number, body in enumerate((b'{"id":1}', b"{", b'{"id":2}', b'{"id":"x"}', b'{"id":3}')):
                await producer.send(Message("orders", body, keys=[str(number)]))
        async with app.running(broker.nameserver):
            await until(lambda: sorted(seen) == [1, 2, 3])
            letters = await dead_letters(admin, 2)
    assert [(each.keys, each.attempts) for each in letters] == [(("1",), 1), (("3",), 1)]
    assert "Expected `int`, got `str`" in letters[1].reason and "$.id" in letters[1].reason
    assert seen == [1, 2, 3] or "orderly" not in options


async def dead_letters(admin: aio.Admin, count: int) -> list[Any]:
    found: list[Any] = []

    async def look() -> None:
        while len(found) < count:
            found[:] = await admin.dead_letters.list("billing")

    await asyncio.wait_for(look(), 30)
    return sorted(found, key=lambda letter: letter.keys)


async def test_a_listener_may_give_a_message_up_and_say_why(quiet: None) -> None:
    app = App(name="shop")

    @app.consume("orders", group="billing", start="earliest")
    def bill(order: Order) -> None:
        raise DeadLetterError(f"there is no order {order.id}")

    @app.reply("prices", group="pricing", start="earliest")
    def price(order: Order) -> int:
        raise AssertionError("not called: nobody asked")

    async with broker_with("orders", "prices") as broker, aio.Admin(broker.nameserver) as admin:
        async with app.running(broker.nameserver):
            await app.send("orders", Order(7), keys="7")
            await app.send("prices", Order(8))
            assert [each.reason for each in await dead_letters(admin, 1)] == ["there is no order 7"]
            await until(lambda: consumers(app)[1].counts.failed == 1)


async def test_a_delayed_message_is_recalled_by_its_receipt_or_its_handle() -> None:
    app = App(name="shop")
    async with broker_with("orders") as broker, app.running(broker.nameserver), aio.Admin(broker.nameserver) as admin:
        receipts = [await app.send("orders", Order(number), delay=3_600) for number in (1, 2)]
        assert await app.recall(receipts[0]) == receipts[0].message_id
        assert await app.recall(receipts[1].recall_handle) == receipts[1].message_id
        assert await admin.delays.list("orders") == []
        with pytest.raises(ConfigError, match="cannot be recalled"):
            await app.recall(await app.send("orders", Order(3)))


@pytest.mark.parametrize("mode", ["pull", "pop"])
def test_retries_wait_as_delays_say_and_then_the_message_is_dead(mode: Any) -> None:
    app, times = App(name="shop"), list[int]()

    @app.consume("orders", group="billing", delays="1s 10s 1m", start="earliest", mode=mode)
    def bill(message: ReceivedMessage) -> None:
        times.append(broker.now_ms())
        raise ValueError("not today")

    with LoopbackBroker(virtual_time=True, sockets=False) as broker:
        with pyromq.Producer(broker.nameserver, group="shop") as producer, app.running(broker.nameserver):
            producer.send("orders", Order(1))
            broker.advance(hours=1)
        assert [round((later - earlier) / 1000) for earlier, later in pairwise(times)] == [1, 10, 60]
        broker.group("billing").assert_dead("orders", count=1)
