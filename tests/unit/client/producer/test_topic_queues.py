"""Which queue a message goes to."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.core.broker_health import BrokerHealth
from pyromq.client.producer.topic_queues import TopicQueues, borrowed_queues, queues_to_write
from pyromq.errors import NoWritableQueueError
from pyromq.model.queue import QueueId
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.testing import ManualClock

QUEUES = [QueueId("t", broker, number) for broker in ("a", "b", "c") for number in range(2)]


def topic_queues(cursor: int = 0, queues: list[QueueId] = QUEUES) -> TopicQueues:
    return TopicQueues("t", queues, {}, cursor=cursor)


def route(perm: int = 6, reads: int = 8, writes: int = 8, **addresses: str) -> TopicRoute:
    brokers = [BrokerData(cluster="C", broker_name=name, broker_addrs={0: at}) for name, at in addresses.items()]
    queues = [
        QueueData(broker_name=name, read_queue_nums=reads, write_queue_nums=writes, perm=perm) for name in addresses
    ]
    return TopicRoute(broker_datas=tuple(brokers), queue_datas=tuple(queues))


def test_queues_are_used_one_after_the_other() -> None:
    chosen = topic_queues()
    assert Counter(chosen.next() for _ in range(12)) == dict.fromkeys(QUEUES, 2)


@given(cursor=st.integers(0, 100), last=st.sampled_from(["a", "b", "c"]))
def test_another_attempt_goes_to_another_broker(cursor: int, last: str) -> None:
    assert topic_queues(cursor).next_elsewhere(last).broker != last


def test_the_only_broker_is_asked_again() -> None:
    assert topic_queues(queues=QUEUES[:2]).next_elsewhere("a").broker == "a"


def test_a_new_topic_borrows_as_many_queues_as_it_will_have() -> None:
    queues = borrowed_queues("new", route(perm=7, a="1:1", b="2:2"), 4)
    assert queues == [QueueId("new", broker, number) for broker in ("a", "b") for number in range(4)]
    assert len(borrowed_queues("new", route(perm=7, reads=2, a="1:1"), 4)) == 2


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (route(perm=4, a="1:1"), r"broker a does not allow writing \(perm 4\)"),
        (route(writes=0, a="1:1"), "broker a has no write queues of it"),
        (TopicRoute(), "no broker lists queues"),
        (
            TopicRoute(
                broker_datas=(BrokerData(cluster="C", broker_name="a", broker_addrs={1: "1:1"}),),
                queue_datas=(QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=6),),
            ),
            "broker a has no master",
        ),
    ],
)
def test_a_topic_that_cannot_be_written_says_why(found: TopicRoute, text: str) -> None:
    with pytest.raises(NoWritableQueueError, match=text):
        queues_to_write("t", found)
    with pytest.raises(NoWritableQueueError, match=text):
        borrowed_queues("t", found, 4)


def test_when_all_are_slow_one_that_can_be_reached_is_taken_and_else_any() -> None:
    health = BrokerHealth(ManualClock())
    health.failed("a", was_reached=False)
    health.failed("b", was_reached=True)
    health.failed("c", was_reached=False)
    chosen = topic_queues()
    assert {chosen.next_healthy("", health).broker for _ in range(10)} == {"b"}
    assert {chosen.next_healthy("b", health).broker for _ in range(10)} <= {"a", "b", "c"}
    health.answered("a", 1)
    assert {chosen.next_healthy("", health).broker for _ in range(10)} == {"a"}
