"""Tasks of a framework in pop mode: more workers than queues, each message settled by itself, renewed while it runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq import Admin
from pyromq.errors import ConfigError
from pyromq.integrations.task_queues import SyncTaskQueues, TaskQueues
from pyromq.testing import LoopbackBroker
from tests.integration.test_acknowledging_consumer import bodies, take_all

pytestmark = pytest.mark.integration


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(virtual_time=True) as broker:
        yield broker


def connect(broker: LoopbackBroker) -> SyncTaskQueues:
    return SyncTaskQueues(TaskQueues(broker.nameserver, group="tasks", topic_queues=1, mode="pop"))


def put(queues: SyncTaskQueues, *texts: str) -> None:
    for text in texts:
        queues.put("mail", text.encode())


def test_two_workers_share_the_messages_of_one_queue(broker: LoopbackBroker) -> None:
    with connect(broker) as here, connect(broker) as there:
        put(here, *"abcdefghijklmnop")  # more than what one worker has begun and has ahead
        first, second = here.consume("mail"), there.consume("mail")
        found = [take_all(first, 3), take_all(second, 3)]
        assert len(set(bodies(found[0] + found[1]))) == 6, "both work, though there is one queue"
        for consumer, messages in zip((first, second), found, strict=True):
            for message in reversed(messages):
                consumer.ack(message)
        done = set(bodies(found[0] + found[1]))
        while len(done) < 16:
            for consumer in (first, second):
                for message in consumer.take(5, 1_000):
                    done.add(message.body.decode())
                    consumer.ack(message)
        broker.advance(seconds=1)
        first.close()
        second.close()
        assert here.size("mail") == 0


def test_what_was_finished_is_not_repeated_because_of_what_was_not(broker: LoopbackBroker) -> None:
    with connect(broker) as queues:
        put(queues, "long", "short")
        consumer = queues.consume("mail")
        _, short = take_all(consumer, 2)
        consumer.ack(short)
        broker.advance(seconds=1)
        consumer.close()
        again = queues.consume("mail")
        found = take_all(again, 1)
        assert (bodies(found), found[0].delivery_attempt) == (["long"], 0), "released, and not counted"
        assert again.take(1, 1_000) == []
        again.ack(found[0])
        again.close()
        assert queues.size("mail") == 0


def test_a_task_that_takes_long_stays_with_its_worker(broker: LoopbackBroker) -> None:
    with connect(broker) as here, connect(broker) as there:
        put(here, "slow")
        first, second = here.consume("mail"), there.consume("mail")
        workers = [(first, second), (second, first)]
        [(owner, message, other)] = [
            (mine, batch[0], yours) for mine, yours in workers if (batch := mine.take(1, 2_000))
        ]
        broker.advance(minutes=10, leap=False)
        assert other.take(1, 1_000) == []
        owner.ack(message)
        broker.advance(seconds=1)
        first.close()
        second.close()
        assert here.size("mail") == 0


def test_a_failed_task_comes_again_after_its_time_and_a_rejected_one_is_dead(broker: LoopbackBroker) -> None:
    with connect(broker) as queues:
        put(queues, "fails")
        consumer = queues.consume("mail")
        [message] = take_all(consumer, 1)
        consumer.retry(message, 30_000, error=ValueError("not now"))
        assert consumer.take(1, 20_000) == []
        [again] = take_all(consumer, 1)
        assert again.delivery_attempt == 1
        consumer.release([again])
        [same] = take_all(consumer, 1)
        assert same.delivery_attempt == 1, "a release does not count"
        consumer.dead(same, error="bad")
        broker.advance(seconds=2)
        consumer.close()
        with Admin(broker.nameserver) as admin:
            assert [letter.body for letter in admin.messages.newest("%DLQ%tasks-mail", 10)] == [b"fails"]


def test_another_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match='mode must be "queue" or "pop"'):
        TaskQueues("127.0.0.1:9876", group="tasks", mode="push")  # type: ignore[arg-type]
