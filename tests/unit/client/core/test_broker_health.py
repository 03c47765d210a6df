"""Brokers that are slow are avoided for a while."""

from __future__ import annotations

import pytest

from pyromq.client.core.broker_health import TABLE_5, BrokerHealth
from pyromq.client.producer.topic_queues import TopicQueues
from pyromq.model.queue import QueueId
from pyromq.testing import ManualClock

QUEUES = [QueueId("t", broker, number) for broker in ("a", "b", "c") for number in range(2)]


def topic_queues(cursor: int = 0, queues: list[QueueId] = QUEUES) -> TopicQueues:
    return TopicQueues("t", queues, {}, cursor=cursor)


@pytest.mark.parametrize(
    ("latency_ms", "avoided_ms"), [(0, 0), (99, 0), (550, 2_000), (1_800, 5_000), (3_000, 6_000), (99_999, 30_000)]
)
def test_a_slow_broker_is_avoided_as_long_as_the_table_says(latency_ms: int, avoided_ms: int) -> None:
    assert TABLE_5.avoid_for_ms(latency_ms) == avoided_ms


def test_a_slow_broker_is_back_after_its_time() -> None:
    clock = ManualClock()
    health = BrokerHealth(clock)
    health.answered("a", 600)
    assert not health.is_available("a") and health.is_reachable("a")
    chosen = topic_queues()
    assert "a" not in {chosen.next_healthy("b", health).broker for _ in range(10)}
    clock.advance_ms(2_000)
    assert health.is_available("a")
