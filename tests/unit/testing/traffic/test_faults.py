"""Faults of a LoopbackBroker: what goes wrong, and what clients make of it. No sockets, virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from pyromq import Message, Producer, PushConsumer, ReceivedMessage, TransactionOutcome, TransactionProducer, aio
from pyromq.errors import ConfigError, MQError, SendFailedError
from pyromq.testing import CrashMode, LoopbackBroker, ManualClock
from pyromq.testing.traffic.fault_rules import FaultKind
from pyromq.wire.codes import RequestCode, ResponseCode

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(virtual_time=True, sockets=False) as running:
        yield running


def send(broker: LoopbackBroker, *bodies: bytes, topic: str = "orders", **options: int) -> None:
    with Producer(broker.nameserver, group="shop", **options) as producer:  # type: ignore[arg-type]
        for body in bodies:
            producer.send(Message(topic, body, keys=body.decode()))


def consumer(broker: LoopbackBroker, got: list[bytes], group: str = "billing") -> PushConsumer:
    listen = lambda message: got.append(message.body)  # noqa: E731
    return PushConsumer(broker.nameserver, group=group, listener=listen, topics="orders", start="earliest")


def test_a_connection_cut_before_the_acknowledgement_makes_the_producer_send_again(
    broker: LoopbackBroker,
) -> None:
    broker.faults.cut_connection("orders", done=True)
    send(broker, b"42")
    assert broker.stored("orders").bodies == [b"42", b"42"]
    assert len({message.message_id for message in broker.stored("orders")}) == 1
    assert [hit.kind for hit in broker.faults.happened] == [FaultKind.CUT_WHEN_DONE]


def test_a_message_whose_acknowledgement_is_lost_is_stored(broker: LoopbackBroker) -> None:
    broker.faults.lose_response("orders")
    assert broker.faults.waiting == 1
    with pytest.raises(SendFailedError, match="may be stored"):
        send(broker, b"42", retries=0)
    assert broker.faults.waiting == 0
    assert broker.stored("orders").bodies == [b"42"]
    assert broker.ledger().acknowledged == 0
    assert broker.sent("orders").bodies == [b"42"]  # the broker took it


def test_skip_and_times_choose_the_sends_that_are_hit(broker: LoopbackBroker) -> None:
    broker.faults.refuse("orders", ResponseCode.NO_PERMISSION, skip=1, times=1, remark="not you")
    with Producer(broker.nameserver, group="shop", retries=0) as producer:
        producer.send(Message("orders", b"1"))
        with pytest.raises(SendFailedError, match="not you"):
            producer.send(Message("orders", b"2"))
        producer.send(Message("orders", b"3"))
        producer.send(Message("others", b"4"))
    assert broker.sent().bodies == [b"1", b"3", b"4"]


def test_a_busy_broker_is_tried_again(broker: LoopbackBroker) -> None:
    broker.faults.refuse("orders", times=2)
    send(broker, b"42")
    assert broker.sent("orders").bodies == [b"42"]


def test_a_refusal_may_last(broker: LoopbackBroker) -> None:
    broker.faults.refuse("orders", times=None)
    with pytest.raises(MQError):
        send(broker, b"1")
    broker.faults.clear()
    send(broker, b"2")
    assert broker.sent("orders").bodies == [b"2"]


def test_a_slow_send_takes_virtual_time(broker: LoopbackBroker) -> None:
    send(broker, b"0")
    before_ms = broker.now_ms()
    broker.faults.slow("orders", timedelta(seconds=2), seconds=0.5)
    send(broker, b"1")
    assert 2_500 <= broker.now_ms() - before_ms < 4_000
    assert broker.sent("orders").bodies == [b"0", b"1"]


def test_a_message_is_delivered_twice_to_everybody(broker: LoopbackBroker) -> None:
    broker.faults.deliver_twice("orders")
    send(broker, b"42", b"43")
    got: list[bytes] = []
    with consumer(broker, got):
        broker.settle()
    assert sorted(got) == [b"42", b"42", b"43"]
    assert len({message.message_id for message in broker.group("billing").consumed("orders")}) == 2


def test_a_message_is_delivered_twice_to_one_group(broker: LoopbackBroker) -> None:
    broker.faults.deliver_twice("orders", group="billing")
    send(broker, b"42")
    billing: list[ReceivedMessage] = []
    shipping: list[bytes] = []
    twice = PushConsumer(broker.nameserver, group="billing", listener=billing.append, topics="orders", start="earliest")
    with twice, consumer(broker, shipping, "shipping"):
        broker.advance(minutes=1)
    assert [(message.body, message.topic, message.delivery_attempt) for message in billing] == [
        (b"42", "orders", 0),
        (b"42", "orders", 0),
    ]
    assert len({message.message_id for message in billing}) == 1
    assert shipping == [b"42"]
    broker.assert_nothing_lost()


def test_a_cut_connection_is_opened_again(broker: LoopbackBroker) -> None:
    send(broker, b"0")
    broker.faults.cut_connection("orders")
    send(broker, b"1")
    assert broker.sent("orders").bodies == [b"0", b"1"]
    assert [hit.kind for hit in broker.faults.happened] == [FaultKind.CUT]


def test_consumers_survive_that_all_connections_are_cut(broker: LoopbackBroker) -> None:
    got: list[bytes] = []
    send(broker, b"0")
    with consumer(broker, got):
        broker.settle()
        broker.cut_connections()
        send(broker, b"1")
        broker.advance(minutes=1)
    assert sorted(set(got)) == [b"0", b"1"]
    broker.assert_nothing_lost()


def test_a_crash_before_the_flush_takes_what_was_not_acknowledged_and_nothing_else(broker: LoopbackBroker) -> None:
    send(broker, b"acknowledged")
    broker.faults.crash_before_flush("orders")
    with pytest.raises(MQError):
        send(broker, b"unlucky", retries=0)
    broker.advance(seconds=5)
    assert broker.stored("orders").bodies == [b"acknowledged"]
    assert broker.assert_nothing_lost().acknowledged == 1


def test_a_producer_that_retries_brings_its_message_through_a_crash(broker: LoopbackBroker) -> None:
    got: list[bytes] = []
    send(broker, b"1")
    with consumer(broker, got):
        broker.settle()
        broker.faults.crash_before_flush("orders")
        with Producer(broker.nameserver, group="shop", retries=5) as producer:
            for _ in range(20):  # the name server knows the broker, the broker is away: a send may fail before it is up
                try:
                    producer.send(Message("orders", b"2"))
                    break
                except MQError:
                    broker.advance(seconds=1)
        broker.advance(minutes=2)
    assert set(got) == {b"1", b"2"}
    broker.assert_nothing_lost()


def test_after_a_crash_of_the_process_alone_all_that_was_written_is_there(broker: LoopbackBroker) -> None:
    send(broker, b"1", b"2")
    broker.crash(CrashMode.KEEP)
    broker.crash(CrashMode.MIX)
    assert broker.stored("orders").bodies == [b"1", b"2"]
    send(broker, b"3")
    assert broker.stored("orders").bodies == [b"1", b"2", b"3"]


def test_a_crash_needs_a_disk_that_forgets() -> None:
    with LoopbackBroker(sockets=False) as broker:
        with pytest.raises(ConfigError, match="FaultyDisk"):
            broker.faults.crash_before_flush()
        with pytest.raises(ConfigError, match="FaultyDisk"):
            broker.faults.random(kinds=["crash"])
        with pytest.raises(ConfigError, match="FaultyDisk"):
            broker.crash()


def test_clients_live_from_what_they_know_while_the_name_server_is_away(broker: LoopbackBroker) -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        producer.send(Message("orders", b"1"))
        with broker.faults.nameserver_away():
            producer.send(Message("orders", b"2"))
            broker.advance(minutes=3)
            with pytest.raises(MQError):
                producer.send(Message("unknown", b"x"))
        producer.send(Message("orders", b"3"))
        broker.advance(minutes=1)
        producer.send(Message("unknown", b"4"))
    assert broker.sent().bodies == [b"1", b"2", b"3", b"4"]


def test_a_refused_commit_brings_messages_again(broker: LoopbackBroker) -> None:
    send(broker, b"42")
    broker.faults.refuse(group="billing", requests="commit", times=None)
    got: list[bytes] = []
    with consumer(broker, got):
        broker.settle()  # a later pull would bring the offset, too
    assert {hit.request.name for hit in broker.faults.happened} == {"commit"}
    broker.faults.clear()
    with consumer(broker, got):
        broker.advance(seconds=20)
    assert got == [b"42", b"42"]


def test_a_lost_outcome_of_a_transaction_is_asked_for(broker: LoopbackBroker) -> None:
    asked: list[bytes] = []

    def check(message: ReceivedMessage) -> TransactionOutcome:
        asked.append(message.body)
        return TransactionOutcome.COMMIT

    with TransactionProducer(broker.nameserver, group="shop", topics="orders", check=check) as producer:
        broker.faults.cut_connection(requests="end_transaction")
        producer.send(Message("orders", b"42"), lambda transaction: TransactionOutcome.COMMIT)
        assert broker.stored("orders") == []
        broker.advance(minutes=2)
    assert (asked, broker.stored("orders").bodies) == ([b"42"], [b"42"])
    broker.assert_nothing_lost()


def test_requests_are_named_by_what_they_do_by_code_or_both(broker: LoopbackBroker) -> None:
    broker.faults.refuse(requests=[RequestCode.SEND_MESSAGE_V2, "send"], times=1)
    send(broker, b"42")
    assert len(broker.faults.happened) == 1
    with pytest.raises(ConfigError, match=r"'sends'; there are send, pull"):
        broker.faults.refuse(requests="sends")


def test_mistakes_are_told(broker: LoopbackBroker) -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        broker.faults.random(rate=1.5)
    with pytest.raises(ConfigError, match="'loss'"):
        broker.faults.random(kinds=["loss"])
    with pytest.raises(ConfigError, match="empty"):
        broker.faults.random(kinds=[])
    with pytest.raises(ConfigError, match="times"):
        broker.faults.lose_response(times=0)
    with pytest.raises(ConfigError, match="how slow"):
        broker.faults.slow("orders")
    with pytest.raises(ConfigError, match="ManualClock"):
        LoopbackBroker(virtual_time=True, clock=object())  # type: ignore[arg-type]


def lives_of(seed: int) -> tuple[list[str], list[bytes]]:
    """What goes wrong, and what is stored."""
    with LoopbackBroker(virtual_time=True, sockets=False, seed=seed, clock=ManualClock()) as broker:
        broker.faults.random(rate=0.4, requests="send")
        with Producer(broker.nameserver, group="shop") as producer:
            for number in range(20):
                try:
                    producer.send(Message("orders", b"%d" % number))
                except SendFailedError:
                    pass
        broker.faults.clear()
        broker.assert_nothing_lost()
        return [str(hit) for hit in broker.faults.happened], sorted(broker.stored("orders").bodies)


def test_the_seed_decides_what_happens_at_random() -> None:
    first = lives_of(7)
    assert first[0] and first == lives_of(7)
    assert first != lives_of(8)


def test_random_faults_everywhere_lose_nothing() -> None:
    for seed in range(3):
        with LoopbackBroker(virtual_time=True, sockets=False, seed=seed) as broker:
            got: list[bytes] = []
            send(broker, b"first")
            with consumer(broker, got):
                broker.faults.random(rate=0.15, kinds=[*FaultKind])
                with Producer(broker.nameserver, group="shop") as producer:
                    for number in range(30):
                        try:
                            producer.send(Message("orders", b"%d" % number))
                        except MQError:
                            broker.advance(seconds=1)
                broker.advance(minutes=1)
                broker.faults.clear()
                broker.advance(hours=1)
                ledger = broker.assert_nothing_lost()
                acknowledged = {message.body for message in broker.sent("orders")}
                assert acknowledged <= set(got), f"seed {seed}: {ledger}\n{broker.timeline()}"


async def test_a_lost_acknowledgement_takes_no_other_of_the_same_commit_with_it() -> None:
    with LoopbackBroker() as broker:
        async with aio.Producer(broker.nameserver, group="shop", retries=0, timeout_ms=2_000) as producer:
            for _ in range(3):
                await producer.send(Message("orders", b"before"))
            broker.faults.lose_response("orders", skip=3)
            sends = (producer.send(Message("orders", b"%d" % number)) for number in range(4))
            ends = await asyncio.gather(*sends, return_exceptions=True)
    assert [isinstance(end, SendFailedError) for end in ends].count(True) == 1, ends
