"""Single messages, acknowledged in any order: what is finished is not delivered again, everything else is."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from pyromq import Admin
from pyromq.client.core.received_message import ReceivedMessage
from pyromq.errors import ClientClosedError, ConfigError
from pyromq.integrations.acknowledging import SyncAcknowledgingConsumer
from pyromq.integrations.task_queues import SyncTaskQueues, TaskQueues
from pyromq.testing import LoopbackBroker

pytestmark = pytest.mark.integration


@pytest.fixture
def broker() -> Iterator[LoopbackBroker]:
    with LoopbackBroker(virtual_time=True) as broker:
        yield broker


def connect(broker: LoopbackBroker, topic_queues: int = 1) -> SyncTaskQueues:
    return SyncTaskQueues(TaskQueues(broker.nameserver, group="tasks", topic_queues=topic_queues))


def bodies(messages: list[ReceivedMessage]) -> list[str]:
    return [message.body.decode() for message in messages]


def take_all(consumer: SyncAcknowledgingConsumer, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    while len(found) < count and (batch := consumer.take(count - len(found), 60_000)):
        found += batch
    return found


def test_messages_are_acknowledged_in_any_order(broker: LoopbackBroker) -> None:
    with connect(broker) as queues:
        for number in range(5):
            queues.put("mail", str(number).encode(), task="send", task_id=f"id-{number}")
        consumer = queues.consume("mail")
        messages = take_all(consumer, 5)
        assert [message.keys for message in messages] == [(f"id-{number}",) for number in range(5)]
        for message in [messages[4], messages[2], messages[1]]:
            consumer.ack(message)
        broker.advance(seconds=1)
        assert queues.size("mail") == 5  # the first one is not done
        consumer.ack(messages[0])
        broker.advance(seconds=1)
        assert queues.size("mail") == 2  # 3 and 4: the offset stops at 3
        consumer.close()
        again = queues.consume("mail")
        assert bodies(take_all(again, 2)) == ["3", "4"]
        again.close()


def test_what_was_not_acknowledged_comes_again_after_a_crash(broker: LoopbackBroker) -> None:
    with connect(broker) as queues:
        queues.put("mail", b"long")
        with connect(broker) as others:
            consumer = others.consume("mail")
            assert bodies(take_all(consumer, 1)) == ["long"]
            consumer.close()  # as a crash: nothing was said about it
        consumer = queues.consume("mail")
        [message] = take_all(consumer, 1)
        assert message.delivery_attempt == 0
        consumer.ack(message)
        consumer.close()
        assert queues.size("mail") == 0


def test_a_released_message_is_the_next_one_again(broker: LoopbackBroker) -> None:
    with connect(broker) as queues:
        for text in ("a", "b", "c"):
            queues.put("mail", text.encode())
        consumer = queues.consume("mail")
        first, second = take_all(consumer, 2)
        consumer.release([first, second])
        assert bodies(take_all(consumer, 3)) == ["a", "b", "c"]
        consumer.close()


def test_a_failed_message_comes_again_after_its_delay_and_is_a_dead_letter_in_the_end(broker: LoopbackBroker) -> None:
    with connect(broker) as queues, Admin(broker.nameserver) as admin:
        queues.put("mail", b"flaky")
        queues.put("mail", b"bad")
        consumer = queues.consume("mail")
        flaky, bad = take_all(consumer, 2)
        sent = broker.now_ms()
        consumer.retry(flaky, 4_000)
        consumer.dead(bad)
        [again] = take_all(consumer, 1)
        assert again.body == b"flaky" and again.delivery_attempt == 1 and again.topic == "mail"
        assert broker.now_ms() - sent >= 4_000
        assert [letter.topic for letter in admin.dead_letters.list(queues.group("mail"))] == ["mail"]
        while again.delivery_attempt < 16:
            consumer.retry(again, 0)
            [again] = take_all(consumer, 1)
        consumer.retry(again)
        broker.advance(hours=3)
        assert len(admin.dead_letters.list(queues.group("mail"))) == 2
        assert queues.size("mail") == 0
        consumer.close()


def test_a_delayed_message_waits_at_the_broker(broker: LoopbackBroker) -> None:
    with connect(broker) as queues:
        consumer = queues.consume("mail")
        queues.put("mail", b"later", delay_ms=86_400_000)
        queues.put("mail", b"past", due_ms=1)
        assert bodies(take_all(consumer, 1)) == ["past"]
        broker.advance(hours=23)
        assert consumer.take(1, 0) == []
        assert queues.size("mail") == 1  # the one that is out
        broker.advance(hours=1)
        assert bodies(take_all(consumer, 1)) == ["later"]
        consumer.close()


def test_a_word_about_a_message_counts_once(broker: LoopbackBroker) -> None:
    with connect(broker) as queues:
        queues.put("mail", b"one")
        consumer = queues.consume("mail")
        [message] = take_all(consumer, 1)
        consumer.ack(message)
        consumer.ack(message)
        consumer.dead(message)
        consumer.release([message])
        broker.advance(seconds=30)
        assert consumer.take(1, 1_000) == []
        assert queues.size("mail") == 0
        consumer.close()
        consumer.close()
        with pytest.raises(ClientClosedError):
            consumer.ack(message)


def test_a_queue_that_moves_while_its_task_runs_says_so(
    broker: LoopbackBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(broker, topic_queues=2) as queues, connect(broker) as others:
        for number in range(8):
            queues.put("mail", str(number).encode())
        first = queues.consume("mail")
        messages = take_all(first, 8)
        with caplog.at_level(logging.WARNING):
            second = others.consume("mail")
            again = take_all(second, 4)
            assert len(again) == 4 and set(bodies(again)) < set(bodies(messages))
            for message in messages:
                first.ack(message)
            broker.advance(seconds=1)
        moved = [record.getMessage() for record in caplog.records if "while its tasks run" in record.getMessage()]
        ended = [record for record in caplog.records if "task ended after its queue went" in record.getMessage()]
        assert "tasks=4" in moved[0] and len(ended) == 4
        for message in again:
            second.ack(message)
        broker.advance(seconds=1)
        assert queues.size("mail") == 0
        second.close()
        first.close()


def test_short_tasks_run_once_when_a_member_joins(broker: LoopbackBroker, caplog: pytest.LogCaptureFixture) -> None:
    with connect(broker, topic_queues=4) as queues, connect(broker) as others:
        for number in range(40):
            queues.put("mail", str(number).encode())
        first = queues.consume("mail")
        out = take_all(first, 12)
        second = others.consume("mail")  # half of the queues will be its own
        for message in out:
            broker.advance(ms=100)
            first.ack(message)
        found = bodies(out)
        while batch := first.take(1, 10) + second.take(1, 5_000):
            found += bodies(batch)
            for message in batch:
                (first if message in first.inner._out else second).ack(message)
        assert sorted(map(int, found)) == list(range(40))  # each of them once
        assert not [record for record in caplog.records if "may run again" in record.getMessage()]
        first.close()
        second.close()


def test_unknown_queues_are_empty_and_can_be_purged(broker: LoopbackBroker) -> None:
    with connect(broker) as queues:
        assert queues.size("never used") == 0 and queues.purge("never used") == 0 and not queues.exists("never used")
        for number in range(3):
            queues.put("häufig 1", str(number).encode())
        assert queues.exists("häufig 1") and queues.size("häufig 1") == 3
        assert queues.purge("häufig 1") == 3  # no worker was ever there
        assert queues.size("häufig 1") == 0
        queues.put("häufig 1", b"new")
        consumer = queues.consume("häufig 1")
        assert bodies(take_all(consumer, 1)) == ["new"]
        consumer.close()


def test_a_purge_reaches_workers_that_run(broker: LoopbackBroker) -> None:
    with connect(broker) as queues:
        consumer = queues.consume("mail")
        for number in range(10):
            queues.put("mail", str(number).encode())
        take_all(consumer, 2)
        assert queues.purge("mail") == 10
        queues.put("mail", b"after")
        assert bodies(take_all(consumer, 1)) == ["after"]
        consumer.close()


def test_join_waits_until_all_is_done(broker: LoopbackBroker) -> None:
    with connect(broker) as queues:
        queues.put("mail", b"one")
        assert not queues.join("mail", timeout_ms=200)
        consumer = queues.consume("mail")
        consumer.ack(take_all(consumer, 1)[0])
        assert queues.join("mail", timeout_ms=5_000)
        consumer.close()


def test_mistakes_are_told(broker: LoopbackBroker) -> None:
    with pytest.raises(ConfigError, match="topic_queues must be a whole number"):
        TaskQueues(broker.nameserver, group="tasks", topic_queues=0)
    with pytest.raises(TypeError, match="no option 'topic'"):
        TaskQueues(broker.nameserver, group="tasks", topic="x")  # type: ignore[call-arg]


def test_many_messages_of_several_queues_in_a_mixed_order(broker: LoopbackBroker) -> None:
    count = 200
    with connect(broker, topic_queues=4) as queues:
        for number in range(count):
            queues.put("mail", str(number).encode())
        consumer = queues.consume("mail")
        messages = take_all(consumer, count)
        assert sorted(map(int, bodies(messages))) == list(range(count))
        for message in [*islice(messages, 1, None, 2), *islice(messages, 0, None, 2)]:
            consumer.ack(message)
        broker.advance(seconds=1)
        assert queues.size("mail") == 0
        consumer.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_lost_while_members_come_and_go(broker: LoopbackBroker, seed: int) -> None:
    """Members take, acknowledge, fail, release and vanish as chance has it; in the end every message was done."""
    print(f"seed {seed}")
    chance, count = Random(seed), 60
    done: set[str] = set()
    with connect(broker, topic_queues=4) as first:
        for number in range(count):
            first.put("mail", str(number).encode(), delay_ms=chance.choice([0, 0, 500]))
        connections = [first, *(connect(broker) for _ in range(2))]
        for connection in connections[1:]:
            connection.open()
        members: dict[int, SyncAcknowledgingConsumer] = {}
        held: dict[int, list[ReceivedMessage]] = {}
        for _ in range(150):
            which = chance.randrange(len(connections))
            if which not in members:
                members[which], held[which] = connections[which].consume("mail"), []
            member, mine = members[which], held[which]
            match chance.choices(["take", "ack", "retry", "release", "close"], [6, 4, 1, 1, 0.5])[0]:
                case "take":
                    mine += member.take(chance.randint(1, 5), 100)
                case "close":
                    member.close()
                    del members[which]
                case word if mine:
                    message = mine.pop(chance.randrange(len(mine)))
                    if word == "ack":
                        member.ack(message)
                        done.add(message.body.decode())
                    elif word == "retry":
                        member.retry(message, 0)
                    else:
                        member.release([message])
        for member in members.values():
            member.close()
        last = first.consume("mail")
        while batch := last.take(10, 30_000):
            for message in batch:
                last.ack(message)
                done.add(message.body.decode())
        broker.advance(seconds=1)
        assert done == {str(number) for number in range(count)}
        assert first.size("mail") == 0
        last.close()
        for connection in connections[1:]:
            connection.close()
