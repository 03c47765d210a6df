"""``on_assigned`` and ``on_revoked``: what consumers tell of queues that come and go, when, and in which order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyromq import Admin, App, Producer, PullConsumer, PushConsumer, aio
from pyromq.errors import ConfigError
from pyromq.model.queue import QueueId
from pyromq.offsets import SeekTo
from pyromq.settings import PushConsumerSettings
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

QUEUES = 4
Event = tuple[str, str, frozenset[int]]


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(virtual_time=True, sockets=False) as made:
        with Admin(made.nameserver) as admin:
            admin.topics.create("orders", queues=QUEUES)
        yield made


class Log:
    """What the members of a group told, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def options(self, who: str) -> Any:
        return {"on_assigned": self._noting(who, "assigned"), "on_revoked": self._noting(who, "revoked")}

    def _noting(self, who: str, what: str) -> Callable[[frozenset[QueueId]], None]:
        def note(queues: frozenset[QueueId]) -> None:
            if numbers := frozenset(queue.number for queue in queues if queue.topic == "orders"):
                self.events.append((who, what, numbers))

        return note

    def held_by(self, who: str) -> frozenset[int]:
        held = frozenset[int]()
        for member, what, queues in self.events:
            if member == who and what == "assigned":
                assert not held & queues, "it had them already"
                held |= queues
            elif member == who:
                assert queues <= held, "it did not have them"
                held -= queues
        return held


def _member(broker: LoopbackBroker, log: Log, who: str, **more: Any) -> PushConsumer:
    return PushConsumer(
        broker.nameserver, group="billing", topics="orders", listener=lambda _: None, **log.options(who), **more
    )


@pytest.mark.parametrize("orderly", [False, True])
def test_queues_that_change_hands_are_told_by_both_members(broker: LoopbackBroker, *, orderly: bool) -> None:
    log = Log()
    with _member(broker, log, "a", orderly=orderly) as first:
        broker.advance(seconds=1)
        assert log.held_by("a") == frozenset(range(QUEUES)) == {queue.number for queue in _orders(first.assignment)}
        with _member(broker, log, "b", orderly=orderly) as second:
            broker.advance(minutes=2)
            assert (len(log.held_by("a")), len(log.held_by("b"))) == (2, 2)
            assert log.held_by("b") == {queue.number for queue in _orders(second.assignment)}
        assert log.held_by("b") == frozenset(), "a member that closes has lost its queues"
        broker.advance(minutes=2)
        assert log.held_by("a") == frozenset(range(QUEUES))
    assert log.held_by("a") == frozenset()
    if orderly:  # a queue has one owner at a time
        owners: dict[int, str] = {}
        for who, what, queues in log.events:
            for queue in queues:
                if what == "assigned":
                    assert queue not in owners, f"{owners[queue]} has it"
                    owners[queue] = who
                else:
                    assert owners.pop(queue) == who


def _orders(queues: frozenset[QueueId]) -> list[QueueId]:
    return [queue for queue in queues if queue.topic == "orders"]


def test_a_queue_is_told_before_its_first_message_and_a_revoked_one_before_its_commit(broker: LoopbackBroker) -> None:
    log: list[str] = []
    with Producer(broker.nameserver, group="shop") as producer, Admin(broker.nameserver) as admin:
        queue = producer.send("orders", "1").queue

        def revoked(queues: frozenset[QueueId]) -> None:
            if queue in queues:
                log.append(f"revoked at {admin.offsets.committed('billing', queue) or 0}")

        consumer = PushConsumer(
            broker.nameserver,
            group="billing",
            topics="orders",
            start="earliest",
            listener=lambda _: log.append("message"),
            on_assigned=lambda queues: log.append("assigned") if queue in queues else None,
            on_revoked=revoked,
            settings=PushConsumerSettings(persist_ms=3_600_000),
        )
        consumer.run(messages=1)
        log.append(f"closed at {admin.offsets.committed('billing', queue) or 0}")
    assert log[:2] == ["assigned", "message"]
    assert log[2:] == ["revoked at 0", "closed at 1"]


def test_a_pull_consumer_may_seek_when_it_gets_a_queue(broker: LoopbackBroker) -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        for number in range(8):
            producer.send("orders", str(number))

        def rewind(queues: frozenset[QueueId]) -> None:
            for queue in queues:
                consumer.seek(queue, SeekTo.BEGIN)

        consumer = PullConsumer(broker.nameserver, group="reports", topics="orders", start="latest", on_assigned=rewind)
        with consumer:
            found = [message.text for _ in range(QUEUES) for message in consumer.poll(timeout=60)]
        assert sorted(found) == [str(number) for number in range(8)]


def test_what_a_listener_raises_is_logged_and_changes_nothing(
    broker: LoopbackBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(queues: frozenset[QueueId]) -> None:
        raise TimeoutError("mine")

    with Producer(broker.nameserver, group="shop") as producer, caplog.at_level(logging.WARNING, "pyromq"):
        producer.send("orders", "1")
        consumer = PushConsumer(
            broker.nameserver,
            group="billing",
            topics="orders",
            start="earliest",
            listener=lambda _: None,
            on_assigned=fail,
            on_revoked=fail,
        )
        assert consumer.run(messages=1, timeout=60) == 1
    assert "on_assigned failed: group=billing" in caplog.text and "on_revoked failed: group=billing" in caplog.text


def test_a_listener_that_never_ends_is_waited_for_as_long_as_closing_waits(
    broker: LoopbackBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang(queues: frozenset[QueueId]) -> None:
        await asyncio.sleep(86_400)

    async def main() -> None:
        settings = PushConsumerSettings(close_timeout_ms=2_000)
        consumer = aio.PushConsumer(
            broker.nameserver, group="b", topics="orders", listener=_ignore, on_revoked=hang, settings=settings
        )
        async with consumer:
            await asyncio.sleep(5)

    began_ms = broker.now_ms()
    with caplog.at_level(logging.WARNING, "pyromq"):
        _on_loop_of(broker, main())
    assert "on_revoked takes too long" in caplog.text
    assert broker.now_ms() - began_ms < 60_000


async def _ignore(_: object) -> None: ...


def _on_loop_of(broker: LoopbackBroker, work: Any) -> None:
    """Virtual time belongs to the loop of sync clients."""
    app = App(name="driver")

    @app.on_start
    async def drive() -> None:
        await work

    with app.running(broker.nameserver):
        pass


async def test_coroutines_are_awaited_by_push_and_pull_consumers_and_by_apps() -> None:
    told: list[tuple[str, int]] = []

    def noting(what: str) -> Any:
        async def note(queues: frozenset[QueueId]) -> None:
            await asyncio.sleep(0)
            told.append((what, len([queue for queue in queues if queue.topic == "orders"])))

        return note

    app = App(name="shop")

    @app.consume("orders", group="app", on_assigned=noting("app+"), on_revoked=noting("app-"))
    async def bill(_: bytes) -> None: ...

    async with LoopbackBroker() as broker, aio.Admin(broker.nameserver) as admin:
        await admin.topics.create("orders", queues=QUEUES)
        pull = aio.PullConsumer(
            broker.nameserver, group="p", topics="orders", on_assigned=noting("+"), on_revoked=noting("-")
        )
        async with pull:
            await until(lambda: ("+", QUEUES) in told)
        assert told[-1] == ("-", QUEUES)
        async with app.running(broker.nameserver):
            await until(lambda: ("app+", QUEUES) in told)
        assert told[-1] == ("app-", QUEUES)


def test_what_cannot_be_called_with_queues_is_refused() -> None:
    async def soon(queues: frozenset[QueueId]) -> None: ...

    with pytest.raises(ConfigError, match="on_assigned is called with a set of queues"):
        PullConsumer(group="g", topics="orders", on_assigned=lambda: None)  # type: ignore[arg-type,misc]
    with pytest.raises(ConfigError, match="is a function"):
        PullConsumer(group="g", topics="orders", on_revoked=soon)
    with pytest.raises(ConfigError, match="is a function"):
        PushConsumer(group="g", topics="orders", listener=print, on_revoked=soon)
    app = App(name="shop")
    app.consume("orders", on_assigned=print)(lambda message: None)
    app.consume("refunds")(lambda message: None)
    with pytest.raises(ConfigError, match="different things about on_assigned"):
        app.check()
