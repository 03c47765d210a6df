"""Kombu's transport with the real package: queues, acknowledgements, exchanges that are listened to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.exceptions import ChannelError, OperationalError
from kombu.message import Message as KombuMessage

import pyromq.integrations.celery
from pyromq import Admin, Message
from pyromq import Producer as MessageProducer
from pyromq.errors import MessageTooLargeError, TransportError
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until_on_thread

pytestmark = pytest.mark.integration

DEFAULT = Exchange("", type="direct")


@pytest.fixture
def loopback() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(delay_levels_ms=(20,) * 18) as broker:
        yield broker


@pytest.fixture
def connection(loopback: LoopbackBroker) -> Iterator[Connection]:
    with connect(loopback) as connection:
        yield connection


def connect(loopback: LoopbackBroker, **options: Any) -> Connection:
    return Connection(f"pyromq://{loopback.nameserver}//", transport_options={"topic_queues": 1, **options})


def publish(connection: Connection, queue: str, *bodies: object, **options: Any) -> None:
    with connection.channel() as channel:
        producer = Producer(channel)
        for body in bodies:
            producer.publish(body, routing_key=queue, declare=[Queue(queue)], **options)


class Collector:
    """A consumer whose messages a test looks at one by one."""

    def __init__(self, connection: Connection, *queues: Queue, prefetch: int = 0, no_ack: bool = False) -> None:
        self.connection = connection
        self.messages: list[KombuMessage] = []
        self.channel = connection.channel()
        self.consumer = Consumer(
            self.channel, list(queues), on_message=self.messages.append, no_ack=no_ack, prefetch_count=prefetch or None
        )
        self.consumer.consume()

    def take(self, count: int, timeout: float = 10) -> list[KombuMessage]:
        while len(self.messages) < count:
            self.connection.drain_events(timeout=timeout)
        taken, self.messages[:] = self.messages[:count], self.messages[count:]
        return taken

    def nothing(self, timeout: float = 0.3) -> bool:
        try:
            self.connection.drain_events(timeout=timeout)
        except TimeoutError:
            return True
        return False


def dead_letters(loopback: LoopbackBroker, group: str) -> int:
    with Admin(loopback.nameserver) as admin:
        return len(admin.dead_letters.list(group))


def test_messages_arrive_and_are_acknowledged_in_any_order(connection: Connection) -> None:
    bodies = [{"n": number, "text": "grüße 🎉"} for number in range(5)]
    publish(connection, "mail", *bodies)
    collector = Collector(connection, Queue("mail"))
    messages = collector.take(5)
    assert [message.payload for message in messages] == bodies
    for message in (messages[3], messages[0], messages[1], messages[4]):
        message.ack()
    collector.channel.close()
    again = Collector(connection, Queue("mail"))
    assert [message.payload["n"] for message in again.take(2)] == [2, 3]  # 3 lies behind one that was not done
    assert again.nothing() or again.messages[0].payload["n"] == 4


def test_prefetch_bounds_what_is_out(connection: Connection) -> None:
    publish(connection, "mail", *range(5))
    collector = Collector(connection, Queue("mail"), prefetch=2)
    first, second = collector.take(2)
    assert collector.nothing()
    second.ack()
    [third] = collector.take(1)
    assert (first.payload, second.payload, third.payload) == (0, 1, 2)
    assert collector.nothing()


def test_a_rejected_message_is_a_dead_letter_and_a_requeued_one_comes_again(
    connection: Connection, loopback: LoopbackBroker
) -> None:
    publish(connection, "mail", "bad", "flaky")
    collector = Collector(connection, Queue("mail"))
    bad, flaky = collector.take(2)
    bad.reject()
    flaky.requeue()
    [again] = collector.take(1)
    assert again.payload == "flaky" and again.delivery_info["redelivered"] is True
    again.ack()
    assert collector.nothing()
    assert dead_letters(loopback, "celery-mail") == 1
    assert connection.default_channel._size("mail") == 0


def test_a_dead_letter_can_be_sent_again(connection: Connection, loopback: LoopbackBroker) -> None:
    publish(connection, "mail", "bad", headers={"id": "1", "task": "bill"})
    collector = Collector(connection, Queue("mail"))
    collector.take(1)[0].reject()
    with Admin(loopback.nameserver) as admin:
        until_on_thread(lambda: dead_letters(loopback, "celery-mail") == 1)
        assert len(admin.dead_letters.redrive("celery-mail")) == 1
    [again] = collector.take(1)
    assert again.payload == "bad" and again.headers["id"] == "1"
    again.ack()


def test_a_poison_message_that_is_requeued_for_ever_is_a_dead_letter(
    connection: Connection, loopback: LoopbackBroker
) -> None:
    publish(connection, "mail", "poison")
    collector = Collector(connection, Queue("mail"))
    for _ in range(17):
        collector.take(1)[0].requeue()
    assert collector.nothing(1)
    assert dead_letters(loopback, "celery-mail") == 1


def test_what_is_not_kombus_is_a_dead_letter(connection: Connection, loopback: LoopbackBroker) -> None:
    connection.default_channel.queue_declare("mail")
    with MessageProducer(loopback.nameserver, group="stranger") as producer:
        producer.send(Message("mail", b"\xff"))
        producer.send(Message("mail", b"[1]"))
    publish(connection, "mail", "fine")
    collector = Collector(connection, Queue("mail"))
    assert collector.take(1)[0].payload == "fine"
    assert collector.nothing()
    assert dead_letters(loopback, "celery-mail") == 2


def test_messages_of_a_consumer_that_is_done_when_they_are_delivered(connection: Connection) -> None:
    publish(connection, "mail", 1, 2)
    collector = Collector(connection, Queue("mail"), no_ack=True)
    collector.take(2)
    collector.channel.close()
    connection.close()
    assert connection.default_channel._size("mail") == 0


def test_single_messages_sizes_and_purges(connection: Connection) -> None:
    channel = connection.default_channel
    channel.queue_declare("häufig 1.x")
    assert channel.basic_get("häufig 1.x") is None
    publish(connection, "häufig 1.x", *range(4))
    message = channel.basic_get("häufig 1.x")
    assert message.payload == 0
    message.ack()
    assert channel.basic_get("häufig 1.x", no_ack=True).payload == 1
    until_on_thread(lambda: channel.queue_declare("häufig 1.x").message_count == 2, "what is done is committed")
    assert channel.queue_purge("häufig 1.x") == 2
    assert channel.queue_declare("häufig 1.x", passive=True) == ("häufig 1.x", 0, 0)
    with pytest.raises(ChannelError, match="NOT_FOUND - no queue 'unknown'"):
        channel.queue_declare("unknown", passive=True)


def test_an_eta_is_kept_by_the_broker() -> None:
    with LoopbackBroker(virtual_time=True) as loopback, connect(loopback) as connection:
        due_s = loopback.now_ms() / 1000 + 86_400
        eta = datetime.fromtimestamp(due_s, UTC).isoformat()
        publish(connection, "mail", "tomorrow", headers={"eta": eta, "id": "1", "task": "remind"})
        publish(connection, "mail", "now", headers={"eta": "2001-01-01T00:00:00", "id": "2", "task": "remind"})
        publish(connection, "mail", "odd", headers={"eta": "after lunch"})
        collector = Collector(connection, Queue("mail"))
        loopback.advance(hours=23)
        now, odd = collector.take(2)
        assert (now.payload, now.headers["eta"]) == ("now", None)
        assert (odd.payload, odd.headers["eta"]) == ("odd", "after lunch")
        assert collector.nothing(0)
        with Admin(loopback.nameserver) as admin:
            assert [message.topic for message in admin.delays.list()] == ["mail"]
        loopback.advance(hours=1)
        [tomorrow] = collector.take(1)
        assert (tomorrow.payload, tomorrow.headers["eta"]) == ("tomorrow", None)


def test_tasks_are_found_by_their_ids(connection: Connection, loopback: LoopbackBroker) -> None:
    publish(connection, "mail", 1, headers={"id": "task-1", "task": "shop.tasks.send"})
    with Admin(loopback.nameserver) as admin:
        [message] = admin.messages.find("mail", "task-1")
        assert message.tags == "shop.tasks.send"


def test_a_fanout_reaches_all_that_listen(loopback: LoopbackBroker) -> None:
    news = Exchange("news", type="fanout")
    with connect(loopback) as one, connect(loopback) as two, connect(loopback) as sender:
        early = Producer(sender.channel())
        early.publish("before", exchange=news, declare=[news])
        listeners = [Collector(each, Queue("", news, exclusive=True)) for each in (one, two)]
        early.publish("after", exchange=news, declare=[news])
        for listener in listeners:
            [message] = listener.take(1)
            message.ack()
            assert message.payload == "after"
            assert listener.nothing()


def test_those_that_listen_to_events_choose_by_routing_key(loopback: LoopbackBroker) -> None:
    events = Exchange("celeryev", type="topic")
    with connect(loopback) as one, connect(loopback) as two, connect(loopback) as sender:
        everything = Collector(one, Queue("", events, "#", exclusive=True), no_ack=True)
        workers = Collector(two, Queue("", events, "worker.#", auto_delete=True), no_ack=True)
        producer = Producer(sender.channel())
        for key in ("task.sent", "worker.online", "task.done", "worker.heartbeat"):
            producer.publish(key, exchange=events, routing_key=key, declare=[events])
        assert [message.payload for message in everything.take(4)][1] == "worker.online"
        assert [message.payload for message in workers.take(2)] == ["worker.online", "worker.heartbeat"]
        assert workers.nothing()


def test_listeners_leave_no_topic_of_their_own(loopback: LoopbackBroker) -> None:
    news = Exchange("news", type="fanout")
    with connect(loopback) as connection, Admin(loopback.nameserver) as admin:
        Collector(connection, Queue("only-for-me", news, exclusive=True))
        assert not [topic for topic in admin.topics.names() if "only-for-me" in topic]


def test_topic_and_direct_exchanges_lead_to_queues(connection: Connection) -> None:
    logs = Exchange("logs", type="topic")
    errors, everything = Queue("errors", logs, "*.error"), Queue("all-logs", logs, "#")
    with connection.channel() as channel:
        producer = Producer(channel)
        producer.publish("x", exchange=logs, routing_key="shop.error", declare=[errors, everything])
        producer.publish("y", exchange=logs, routing_key="shop.info", declare=[errors, everything])
        with pytest.raises(ChannelError, match="the message would be lost"):
            producer.publish("z", exchange=Exchange("nowhere", type="direct"), routing_key="none")
    collector = Collector(connection, errors, everything)
    found = sorted((message.delivery_info["routing_key"], message.payload) for message in collector.take(3))
    assert found == [("shop.error", "x"), ("shop.error", "x"), ("shop.info", "y")]


def test_a_cancelled_consumer_may_still_acknowledge(connection: Connection) -> None:
    publish(connection, "mail", *range(4))
    collector = Collector(connection, Queue("mail"), prefetch=2)
    messages = collector.take(2)
    collector.consumer.cancel()
    for message in messages:
        message.ack()
    with Connection(connection.as_uri(include_password=True), transport_options={"topic_queues": 1}) as other:
        assert [message.payload for message in Collector(other, Queue("mail")).take(2)] == [2, 3]


def test_a_consumer_that_was_cancelled_goes_on(connection: Connection) -> None:
    publish(connection, "mail", *range(4))
    collector = Collector(connection, Queue("mail"), prefetch=2)
    first, second = collector.take(2)
    collector.consumer.cancel()
    assert collector.nothing(0.05)
    collector.consumer.consume()
    first.ack()
    second.ack()
    assert [message.payload for message in collector.take(2)] == [2, 3]


def test_mistakes_are_told(loopback: LoopbackBroker) -> None:
    with connect(loopback) as connection, pytest.raises(MessageTooLargeError):
        publish(connection, "mail", os.urandom(6 << 20).hex())
    nowhere = Connection("pyromq://127.0.0.1:1//")
    with pytest.raises((OperationalError, TransportError)):
        nowhere.ensure_connection(max_retries=1, interval_start=0)
    nowhere.close()
    assert pyromq.integrations.celery.Transport.driver_type == "pyromq"


def test_a_virtual_host_is_a_namespace_and_a_path_names_the_transport(loopback: LoopbackBroker) -> None:
    url = f"pyromq://{loopback.nameserver}/staging"
    with Connection(url, transport="pyromq.integrations.celery:Transport") as connection:
        publish(connection, "mail", 1)
        with Admin(loopback.nameserver) as admin:
            assert "staging%mail" in admin.topics.names()
        assert connection.default_channel._size("mail") == 1
        collector = Collector(connection, Queue("mail"))
        [message] = collector.take(1)
        assert message.payload == 1
        message.requeue()
        [message] = collector.take(1)
        message.ack()
        publish(connection, "mail", 2, 3)
        collector.take(2)
        channel = connection.default_channel
        until_on_thread(lambda: channel._size("mail") == 2, "what is done is committed")
        assert channel._purge("mail") == 2 and channel._size("mail") == 0


def test_a_child_of_a_fork_makes_a_connection_of_its_own(loopback: LoopbackBroker) -> None:
    program = f"""
import os
import pyromq.integrations.celery
from kombu import Connection, Producer, Queue
connection = Connection("pyromq://{loopback.nameserver}//")
send = lambda text: connection.Producer().publish(text, routing_key="mail", declare=[Queue("mail")], retry=True)
send("parent")
pid = os.fork()
send("child" if pid == 0 else "parent again")
connection.close()
if pid:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=30)
    with connect(loopback) as connection:
        found = sorted(message.payload for message in Collector(connection, Queue("mail")).take(3))
    assert found == ["child", "parent", "parent again"]


def test_a_broker_may_restart_under_a_consumer(connection: Connection, loopback: LoopbackBroker) -> None:
    collector = Collector(connection, Queue("mail"))
    publish(connection, "mail", *range(10))
    loopback.restart()
    publish(connection, "mail", *range(10, 20), retry=True)
    found: set[int] = set()
    while found != set(range(20)):
        [message] = collector.take(1, 20)
        found.add(message.payload)
        message.ack()
