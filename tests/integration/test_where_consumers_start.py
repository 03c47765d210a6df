"""Latest is latest, a time is that time, and what comes after the subscription is not missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pyromq import Admin, Message, Producer, PullConsumer, PushConsumer, ReceivedMessage
from pyromq.app import App
from pyromq.settings import PushConsumerSettings
from pyromq.testing import LoopbackBroker

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

OLD, NEW = b"old", b"new"


@pytest.fixture
def broker() -> Any:
    with LoopbackBroker(virtual_time=True) as running:
        yield running


def send(broker: LoopbackBroker, *bodies: bytes, topic: str = "orders") -> None:
    with Producer(broker.nameserver, group="shop") as producer:
        for body in bodies:
            producer.send(Message(topic, body))


def pushed(broker: LoopbackBroker, into: list[bytes], **options: Any) -> PushConsumer:
    def note(message: ReceivedMessage) -> None:
        into.append(message.body)

    return PushConsumer(broker.nameserver, group="billing", topics="orders", listener=note, **options)


@pytest.mark.parametrize("options", [{}, {"orderly": True}, {"broadcast": True}], ids=["shared", "orderly", "each"])
def test_a_new_group_hears_what_is_sent_once_it_is_open_and_nothing_older(
    broker: LoopbackBroker, tmp_path: Path, options: dict[str, Any]
) -> None:
    send(broker, *[OLD] * 20)
    heard: list[bytes] = []
    settings = PushConsumerSettings(offsets_folder=tmp_path)
    with pushed(broker, heard, settings=settings, **options):
        send(broker, NEW, NEW)
        broker.advance(seconds=60)
        assert heard == [NEW, NEW]


def test_a_time_is_that_time_although_the_queue_is_young(broker: LoopbackBroker) -> None:
    send(broker, *[OLD] * 20)
    broker.advance(hours=1)
    moment = datetime.fromtimestamp(broker.now_ms() / 1000, UTC)
    send(broker, NEW)
    heard: list[bytes] = []
    with pushed(broker, heard, start=moment - timedelta(minutes=1)):
        broker.advance(seconds=60)
        assert heard == [NEW]


def test_a_topic_that_its_first_message_creates_is_read_from_its_beginning(broker: LoopbackBroker) -> None:
    heard: list[bytes] = []
    with pushed(broker, heard):
        send(broker, b"1", b"2", b"3")
        broker.advance(seconds=120)
        assert sorted(heard) == [b"1", b"2", b"3"]


def test_queues_that_are_added_later_are_read_from_their_beginning(broker: LoopbackBroker) -> None:
    heard: list[bytes] = []
    with Admin(broker.nameserver) as admin:
        admin.topics.create("orders", queues=1)
        send(broker, *[OLD] * 5)
        with pushed(broker, heard), Producer(broker.nameserver, group="shop") as producer:
            broker.advance(minutes=10)
            admin.topics.create("orders", queues=4)
            for queue in (queue for queue in admin.offsets.ends("orders") if queue.number):
                producer.send(Message("orders", NEW), queue=queue)
            broker.advance(seconds=120)
    assert heard == [NEW] * 3


def without_commits(consumer: PushConsumer) -> PushConsumer:
    """It ends as a process does that is killed: nothing of what it did is committed."""
    consumer.inner._calls.commit = lambda offsets: None  # type: ignore[method-assign]
    return consumer


def test_a_member_that_ends_before_its_first_commit_leaves_where_it_started(broker: LoopbackBroker) -> None:
    send(broker, *[OLD] * 5)
    first, second = list[bytes](), list[bytes]()
    with without_commits(pushed(broker, first)):
        pass
    send(broker, NEW)
    with pushed(broker, second):
        broker.advance(seconds=60)
    assert (first, second) == ([], [NEW])


def test_a_topic_that_came_later_is_not_skipped_by_a_restart_before_the_first_commit(broker: LoopbackBroker) -> None:
    def bodies(consumer: PullConsumer) -> list[bytes]:
        return [message.body for message in consumer.poll(120_000)]

    with PullConsumer(broker.nameserver, group="audit", topics="orders", auto_commit=False) as consumer:
        send(broker, NEW)
        assert bodies(consumer) == [NEW]  # and ends without a commit
    with PullConsumer(broker.nameserver, group="audit", topics="orders", auto_commit=False) as consumer:
        assert bodies(consumer) == [NEW]


def test_a_second_member_goes_on_where_the_first_one_started(broker: LoopbackBroker) -> None:
    send(broker, *[OLD] * 20)
    first, second = list[bytes](), list[bytes]()
    with pushed(broker, first) as one:
        one.pause()
        send(broker, *[NEW] * 8)
        with pushed(broker, second):
            one.resume()
            broker.advance(seconds=120)
    assert sorted(first + second) == [NEW] * 8 and second


def test_a_pull_consumer_starts_at_the_end_too_and_commits_it_although_it_commits_by_hand(
    broker: LoopbackBroker,
) -> None:
    send(broker, *[OLD] * 5)
    with PullConsumer(broker.nameserver, group="audit", topics="orders", auto_commit=False):
        pass  # and no commit
    send(broker, NEW)
    with PullConsumer(broker.nameserver, group="audit", topics="orders", auto_commit=False) as consumer:
        assert [message.body for message in consumer.poll(60_000)] == [NEW]


def test_assigned_queues_start_at_their_end_and_leave_nothing_at_the_broker(broker: LoopbackBroker) -> None:
    send(broker, *[OLD] * 5)
    with PullConsumer(broker.nameserver, group="peek", auto_commit=False) as consumer:
        queues = consumer.queues("orders")
        consumer.assign(queues)
        send(broker, NEW)
        assert [message.body for message in consumer.poll(60_000)] == [NEW]
        assert [consumer.committed(queue) for queue in queues] == [None] * len(queues)


def test_listeners_of_an_app_hear_what_comes(broker: LoopbackBroker) -> None:
    send(broker, *[OLD] * 5)
    heard: list[bytes] = []
    app = App(broker.nameserver)

    @app.consume("orders", group="billing")
    async def note(message: ReceivedMessage) -> None:
        heard.append(message.body)

    with app.running():
        send(broker, NEW)
        broker.advance(seconds=60)
    assert heard == [NEW]
