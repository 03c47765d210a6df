"""What a test asks a LoopbackBroker about: messages sent and stored, what groups did with them, whether any is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from pyromq import (
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    TransactionOutcome,
    TransactionProducer,
    aio,
)
from pyromq.testing import LoopbackBroker
from pyromq.testing.observing.ledger import DeliveryState, MessagePlace

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(virtual_time=True, sockets=False) as running:
        yield running


def send(broker: LoopbackBroker, *bodies: bytes, tags: str = "", **options: int) -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        for body in bodies:
            producer.send(Message("orders", body, keys=f"k{body.decode()}", tags=tags, **options))  # type: ignore[arg-type]


def fails_at(*bodies: bytes) -> object:
    def listen(message: ReceivedMessage) -> None:
        if message.body in bodies:
            raise ValueError(f"no {message.body!r}")

    return listen


def billing(broker: LoopbackBroker, listener: object, **options: object) -> PushConsumer:
    return PushConsumer(
        broker.nameserver,
        group="billing",
        listener=listener,  # type: ignore[arg-type]
        start="earliest",
        **({"topics": "orders"} | options),  # type: ignore[arg-type]
    )


def test_messages_are_values(broker: LoopbackBroker) -> None:
    send(broker, b"1", tags="new")
    (message,) = broker.sent("orders")
    assert (message.topic, message.body, message.keys, message.tags, message.attempt) == (
        "orders",
        b"1",
        ("k1",),
        "new",
        0,
    )
    assert broker.stored("orders") == [message]
    assert broker.sent("orders").keys == ["k1"] and broker.sent("others") == []
    assert message.json() == 1
    assert repr(message) == "<orders b'1' keys=k1 tags=new>"


def test_what_a_group_consumed_retried_and_gave_up(broker: LoopbackBroker) -> None:
    send(broker, b"good", b"bad")
    group = broker.group("billing")
    with billing(broker, fails_at(b"bad"), attempts_max=2):
        broker.settle()
        assert group.consumed("orders").bodies == [b"good"]
        assert group.failed("orders").bodies == [b"bad"]
        assert group.retried("orders").attempts == [0]
        assert group.retrying("orders").bodies == group.pending("orders").bodies == [b"bad"]
        assert group.in_flight() == group.dead() == []
        with pytest.raises(AssertionError, match=r"not done with \[<orders b'bad'"):
            group.assert_nothing_pending()
        broker.advance(hours=1)
        assert group.dead("orders").bodies == [b"bad"] and group.pending() == []
        assert group.failed().attempts == [0, 1, 2] and group.retrying() == []
        group.assert_nothing_pending()
        group.assert_dead("orders", [b"bad"])
        group.assert_retried("orders", count=3)
        ledger = broker.assert_nothing_lost()
    assert ledger.groups["billing"] == {
        DeliveryState.CONSUMED: 1,
        DeliveryState.PENDING: 0,
        DeliveryState.RETRYING: 0,
        DeliveryState.DEAD: 1,
        DeliveryState.PASSED_OVER: 0,
        DeliveryState.LOST: 0,
    }
    assert str(ledger) == "acknowledged 2 = 2 visible\ngroup billing: 1 consumed + 1 dead"


def test_a_failed_assertion_shows_what_the_group_did(broker: LoopbackBroker) -> None:
    send(broker, b"good", b"bad")
    with billing(broker, fails_at(b"bad")):
        broker.advance(seconds=10)
        with pytest.raises(AssertionError) as raised:
            broker.group("billing").assert_consumed("orders", [b"good", b"bad"])
    text = str(raised.value)
    assert "group billing has consumed of orders: missing [b'bad']" in text
    assert "ValueError: no b'bad'" in text and "sent back" in text and "attempt=1" in text
    assert "10.000 s" in text
    with pytest.raises(AssertionError, match="nothing"):
        broker.group("nobody").assert_consumed("orders")
    with pytest.raises(AssertionError, match="too many"):
        broker.group("billing").assert_consumed("orders", [])
    with pytest.raises(AssertionError, match="1 messages, not 3"):
        broker.group("billing").assert_consumed("orders", count=3)


def test_a_group_that_polls_has_consumed_what_it_committed(broker: LoopbackBroker) -> None:
    send(broker, b"1", b"2")
    group = broker.group("reader")
    with PullConsumer(
        broker.nameserver, group="reader", topics="orders", start="earliest", auto_commit=False
    ) as reader:
        polled: list[ReceivedMessage] = []
        while len(polled) < 2:
            polled += reader.poll(timeout_ms=5_000)
        assert sorted(group.in_flight("orders").bodies) == [b"1", b"2"]
        assert group.consumed("orders") == []
        reader.commit()
        broker.settle()
        assert sorted(group.consumed("orders").bodies) == [b"1", b"2"]
        assert group.in_flight() == group.pending() == []
    broker.assert_nothing_lost()


def test_what_a_listener_has_now_is_in_flight(broker: LoopbackBroker) -> None:
    send(broker, b"1")
    has_it, go = threading.Event(), threading.Event()

    def listen(message: ReceivedMessage) -> None:
        has_it.set()
        go.wait(10)

    with billing(broker, listen):
        settling = threading.Thread(target=broker.settle)
        settling.start()
        assert has_it.wait(10)
        assert broker.group("billing").in_flight("orders").bodies == [b"1"]
        go.set()
        settling.join()
        assert broker.group("billing").in_flight() == []


def test_what_a_filter_refuses_is_passed_over(broker: LoopbackBroker) -> None:
    send(broker, b"1", tags="new")
    send(broker, b"2", tags="old")
    with billing(broker, fails_at(), topics={"orders": "new"}):
        broker.advance(seconds=10)
        ledger = broker.assert_nothing_lost()
        assert broker.group("billing").pending() == []
    assert ledger.groups["billing"][DeliveryState.PASSED_OVER] == 1


def test_delayed_and_prepared_messages_are_not_lost(broker: LoopbackBroker) -> None:
    send(broker, b"soon", delay_level=5)
    send(broker, b"later", delay_ms=86_400_000)
    with TransactionProducer(
        broker.nameserver, group="tx", topics="orders", check=lambda message: TransactionOutcome.UNKNOWN
    ) as producer:
        producer.send(Message("orders", b"half"), lambda transaction: TransactionOutcome.UNKNOWN)
        producer.send(Message("orders", b"undone"), lambda transaction: TransactionOutcome.ROLLBACK)
        broker.settle()
        ledger = broker.assert_nothing_lost()
        assert ledger.places == {
            MessagePlace.VISIBLE: 0,
            MessagePlace.DELAYED: 2,
            MessagePlace.PREPARED: 1,
            MessagePlace.ENDED: 1,
            MessagePlace.LOST: 0,
        }
    assert broker.stored("orders") == []
    assert sorted(broker.sent("orders").bodies) == [b"half", b"later", b"soon", b"undone"]
    broker.advance(days=1)
    assert broker.ledger().places[MessagePlace.VISIBLE] == 2


def test_a_loss_is_found(broker: LoopbackBroker) -> None:
    """The store is told to forget: nothing else loses an acknowledged message."""
    send(broker, b"1", b"2")
    broker.broker.store.delete_topic("orders")
    ledger = broker.ledger()
    assert [message.body for _, message in ledger.lost] == [b"1", b"2"]
    with pytest.raises(AssertionError, match=r"2 lost:\n  <orders b'1' keys=k1> stored nowhere"):
        broker.assert_nothing_lost()


def test_an_offset_that_passes_an_unfinished_message_is_a_loss(broker: LoopbackBroker) -> None:
    send(broker, b"1")
    has_it, go = threading.Event(), threading.Event()

    def listen(message: ReceivedMessage) -> None:
        has_it.set()
        go.wait(10)

    with billing(broker, listen):
        settling = threading.Thread(target=broker.settle)
        settling.start()
        assert has_it.wait(10)
        (flying,) = broker.group("billing").in_flight()
        broker.broker.parts.tables.progress.commit("billing", "orders", flying.queue, 1)
        assert [group for group, _ in broker.ledger().lost] == ["billing"]
        go.set()
        settling.join()
    assert broker.ledger().lost == []


def test_a_restart_and_a_crash_change_nothing_of_what_is_known(broker: LoopbackBroker) -> None:
    send(broker, b"1")
    with billing(broker, fails_at()):
        broker.settle()
        broker.restart()
        broker.crash()
        broker.advance(minutes=1)
        assert broker.group("billing").consumed("orders").bodies[0] == b"1"
        broker.assert_nothing_lost()
    assert "the broker crashes" in broker.timeline()


def test_asyncio_tests_ask_without_await() -> None:
    async def test() -> None:
        async with LoopbackBroker(virtual_time=True, sockets=False) as broker:
            async with aio.Producer(broker.nameserver, group="shop") as producer:
                await producer.send(Message("orders", b"1"))

            async def listen(message: ReceivedMessage) -> None:
                await asyncio.sleep(60)

            async with aio.PushConsumer(
                broker.nameserver, group="billing", listener=listen, topics="orders", start="earliest"
            ):
                await broker.settle()
                assert broker.group("billing").in_flight("orders").bodies == [b"1"]
                await broker.advance(minutes=1)
                assert broker.group("billing").consumed("orders").bodies == [b"1"]
                broker.assert_nothing_lost()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(test())
