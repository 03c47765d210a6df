"""Pop on the remoting protocol, with our clients and Java's, on Apache's broker and on ours: the same outcomes."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

import pytest

from interop.asking import connected
from interop.conversation import send_header
from interop.drivers import Drivers
from interop.tests import conftest
from interop.world import PROBE, Cluster, Member, World, bodies_of, numbers
from pyromq import Admin, Message, Producer, PushConsumer, SimpleConsumer
from pyromq.client.consumer.popping.leases import LeasedMessage
from pyromq.model.topic import GroupConfig
from pyromq.wire.codes import RequestCode
from pyromq.wire.headers.producer import SendV2Header

SECTION = "Pop with PyroMQ's clients"
JAVA = "Pop with Java's push consumer (setClientRebalance(false))"
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


# --- Java's push consumer: the broker assigns queues, and says that they are popped ---------------------------------


@pytest.fixture
def java(cluster: Cluster, drivers: Drivers) -> Iterator[World]:
    each = World(drivers.get("java"), cluster, drivers)
    yield each
    each.close()


def popping(cluster: Cluster, topic: str, group: str) -> None:
    """What an operator does once: mqadmin setConsumeMode -m POP."""
    mode = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0}
    asyncio.run(_set_mode(cluster.broker, json.dumps(mode).encode()))


async def _set_mode(broker: str, body: bytes) -> None:
    async with connected(broker) as connection:
        response = await connection.request(RequestCode.SET_MESSAGE_REQUEST_MODE, None, body, timeout_ms=5_000)
        assert response.code == 0, response.remark


@conftest.case("two members share every message, a failed one comes again", JAVA)
def test_java_pops(java: World) -> None:
    java.create_topic()
    prepare_group(java.cluster, java.group)
    popping(java.cluster, java.topic, java.group)
    members = [java.push(pop=True, failTimes=0), java.push(pop=True, failTimes=0)]
    producer = java.start("producer")
    wanted = numbers(60)
    until(lambda: is_popping(java, members, producer))
    java.send(producer, wanted)
    until(lambda: len(set(seen_by(members)) & set(wanted)) == len(wanted))
    time.sleep(2)
    found = [body for body in seen_by(members) if body in wanted]
    assert sorted(found) == wanted


@conftest.case("what its listener fails comes again after the level of its attempt, with one attempt more", JAVA)
def test_java_pop_retries(java: World) -> None:
    java.create_topic()
    prepare_group(java.cluster, java.group)
    popping(java.cluster, java.topic, java.group)
    member, producer = java.push(pop=True, failTimes=1), java.start("producer")
    java.send(producer, ["fails once"])
    found = member.wait(2, 90)
    assert [(each["body"], each["reconsumeTimes"]) for each in found] == [("fails once", 0), ("fails once", 1)]


@conftest.case("at the group's limit the server makes a dead letter, before the client gives the message up", JAVA)
def test_java_pop_dead_letters(java: World, note: conftest.Note) -> None:
    """At its own limit Java's client acknowledges what is older than four hours, so this message is."""
    java.create_topic()
    with Admin(java.cluster.nameserver) as admin:
        admin.groups.create(GroupConfig(group_name=java.group, retry_max_times=1))
        popping(java.cluster, java.topic, java.group)
        member = java.push(pop=True, failTimes=99, maxAttempts=2)
        send_aged(java.cluster, java.topic, b"poison", hours=5)
        member.wait(3 if java.cluster.make == "apache" else 2, 80)
        again_s = 75 if java.cluster.make == "apache" else 45  # what is given back waits 10, 30, then 60 seconds
        attempts = [each["reconsumeTimes"] for each in member.wait(4, again_s)]
        letters = len(admin.dead_letters.list(java.group))
    if java.cluster.make == "apache":
        assert (attempts, letters) == ([0, 1, 2], 0)
        note("the client acknowledges it at its own limit: 3 deliveries, 0 dead letters")
    else:
        assert (attempts, letters) == ([0, 1], 1)


def send_aged(cluster: Cluster, topic: str, body: bytes, hours: int) -> None:
    """Send a message whose producer made it so long ago."""
    born_ms = int(time.time() * 1_000) - hours * 3_600_000
    header = send_header(topic, properties="WAIT\x01true\x02", born_timestamp=born_ms)
    asyncio.run(_send(cluster.broker, header, body))


async def _send(broker: str, header: SendV2Header, body: bytes) -> None:
    async with connected(broker) as connection:
        response = await connection.request(RequestCode.SEND_MESSAGE_V2, header, body, timeout_ms=5_000)
        assert response.code == 0, response.remark


@conftest.case("beside pull members of another group on the same topic: each group gets everything once", JAVA)
def test_java_pops_beside_pulls(java: World) -> None:
    java.create_topic()
    prepare_group(java.cluster, java.group)
    popping(java.cluster, java.topic, java.group)
    popped = java.push(pop=True)
    pulled = java.push(group=f"{java.group}-pulling")
    producer = java.start("producer")
    wanted = numbers(40)
    java.send(producer, wanted)
    for member in (popped, pulled):
        assert sorted(bodies_of(member.wait(len(wanted), 80))) == wanted


def prepare_group(cluster: Cluster, group: str) -> None:
    with Admin(cluster.nameserver) as admin:
        admin.groups.create(group)


def seen_by(members: Sequence[Member]) -> list[str]:
    return [body for member in members for body in bodies_of(member.wait(0))]


def is_popping(java: World, members: Sequence[Member], producer: Member) -> bool:
    """Whether each member gets some: they have their assignments."""
    java.send(producer, [f"{PROBE}-{number}" for number in range(8)])
    time.sleep(0.5)
    return all(member.wait(0) for member in members)
