"""Pop with our clients, on Apache's broker and on ours: the same program, the same outcomes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from interop.tests import conftest
from interop.world import Cluster
from pyromq import Admin, Message, Producer, PushConsumer, SimpleConsumer
from pyromq.client.consumer.popping.leases import LeasedMessage

SECTION = "Pop with PyroMQ's clients"
WAIT_S = 60


def named() -> tuple[str, str]:
    key = uuid.uuid4().hex[:12]
    return f"pop-{key}", f"poppers-{key}"


def prepared(cluster: Cluster, topic: str, group: str, count: int) -> set[bytes]:
    bodies = {b"%d" % number for number in range(count)}
    with Admin(cluster.nameserver) as admin:
        admin.topics.create(topic, queues=4)
        admin.groups.create(group)
    with Producer(cluster.nameserver, group="shop") as producer:
        for body in bodies:
            producer.send(Message(topic, body))
    return bodies


def received(consumer: SimpleConsumer, count: int) -> list[LeasedMessage]:
    found: list[LeasedMessage] = []
    until(lambda: len(found.__iadd__(consumer.receive(wait=2))) >= count)
    return found


def until(is_done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_done():
        assert time.monotonic() < end_s


@conftest.case("what is acknowledged does not come again, one by one and as a batch", SECTION)
def test_acknowledged(cluster: Cluster) -> None:
    topic, group = named()
    bodies = prepared(cluster, topic, group, 20)
    with SimpleConsumer(cluster.nameserver, group=group, topics=topic, start="earliest", invisible=10) as consumer:
        found = received(consumer, len(bodies))
        assert {message.body for message in found} == bodies
        for message in found[:5]:
            consumer.ack(message)
        consumer.ack(*found[5:])
        time.sleep(12)
        assert consumer.receive(wait=5) == []


@conftest.case("what is not acknowledged comes again with one attempt more", SECTION)
def test_delivered_again(cluster: Cluster) -> None:
    topic, group = named()
    prepared(cluster, topic, group, 1)
    with SimpleConsumer(cluster.nameserver, group=group, topics=topic, start="earliest", invisible=5) as consumer:
        (first,) = received(consumer, 1)
        (again,) = received(consumer, 1)
        assert (again.body, again.delivery_attempt) == (first.body, 1)
        with again:
            time.sleep(8)  # longer than its invisible time: it is renewed
        assert consumer.receive(wait=8) == []


@conftest.case("pop mode of a push consumer: every message once, a failed one again", SECTION)
def test_push_consumers_pop(cluster: Cluster) -> None:
    topic, group = named()
    bodies = prepared(cluster, topic, group, 40)
    seen: list[tuple[bytes, int]] = []

    def listen(message: object) -> None:
        assert isinstance(message, LeasedMessage)
        seen.append((message.body, message.delivery_attempt))
        if message.body == b"7" and not message.delivery_attempt:
            raise ValueError("not this time")

    consumer = PushConsumer(
        cluster.nameserver, group=group, topics=topic, listener=listen, start="earliest", mode="pop"
    )
    with consumer:
        until(lambda: len(seen) >= len(bodies) + 1)
        time.sleep(1)
    assert {body for body, _ in seen} == bodies
    assert [attempt for body, attempt in sorted(seen) if body == b"7"] == [0, 1]
    assert len(seen) == len(bodies) + 1


@conftest.case("priority messages: the most urgent first", SECTION)
def test_priorities(cluster: Cluster) -> None:
    topic, group = named()
    with Admin(cluster.nameserver) as admin:
        admin.topics.create(topic, queues=8, attributes={"message.type": "PRIORITY"})
        admin.groups.create(group)
    with Producer(cluster.nameserver, group="shop") as producer:
        for priority in (0, 3, 100, 5):
            receipt = producer.send(Message(topic, b"%d" % priority, priority=priority))
            assert receipt.queue.number == min(priority, 7)
    with SimpleConsumer(cluster.nameserver, group=group, topics=topic, start="earliest") as consumer:
        found: list[bytes] = []
        while len(found) < 4:
            for message in consumer.receive(1, wait=5):
                found.append(message.body)
                consumer.ack(message)
    assert found == [b"100", b"5", b"3", b"0"]
