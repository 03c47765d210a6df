"""Where a producer may send: found within the time of a send, forgotten when it may be wrong."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.client.core.settings import ProducerSettings
from pyromq.client.producer.topic_queues import TopicQueues
from pyromq.client.producer.topic_queues_table import TopicQueuesTable
from pyromq.errors import TopicNotFoundError
from pyromq.model.queue import QueueId
from pyromq.model.route import TopicRoute
from pyromq.testing import ManualClock

TEMPLATE = ProducerSettings().template_topic


class SlowNames:
    """Every response takes two seconds, and no topic is known."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.asked: list[tuple[str, int]] = []

    async def get(self, topic: str, *, timeout_ms: int) -> TopicRoute:
        self.asked.append((topic, timeout_ms))
        self._clock.advance_ms(2_000)
        raise TopicNotFoundError(topic)

    async def knows_no_broker(self, *, timeout_ms: int) -> bool:
        self.asked.append(("brokers", timeout_ms))
        return False


def topic_queues_table(clock: ManualClock, routes: object = None) -> TopicQueuesTable:
    client: Any = SimpleNamespace(
        clock=clock,
        routes=routes,
        nameservers=routes,
        rng=Random(1),
        wire_name=lambda name: name,
        require_open=lambda: None,
    )
    return TopicQueuesTable(cast(Any, client), ProducerSettings())


async def test_asking_for_a_topic_and_then_for_the_template_takes_one_timeout_together() -> None:
    clock = ManualClock()
    names = SlowNames(clock)
    with pytest.raises(TopicNotFoundError, match="create it first"):
        await topic_queues_table(clock, names).find("orders", 3_000)
    assert names.asked == [("orders", 3_000), (TEMPLATE, 1_000), ("brokers", 1)]


def test_what_is_borrowed_from_the_template_goes_when_its_brokers_change() -> None:
    found = topic_queues_table(ManualClock())
    known = found.known
    for topic, is_borrowed in (("mine", False), ("borrowed", True)):
        known[topic] = TopicQueues(topic, [QueueId(topic, "broker-a", 0)], {}, borrowed=is_borrowed)
    found.route_changed("another")
    assert set(known) == {"mine", "borrowed"}
    found.route_changed(TEMPLATE)
    assert set(known) == {"mine"}
    found.route_changed("mine")
    assert not known
