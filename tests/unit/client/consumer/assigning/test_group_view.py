"""What brokers hear of a changed subscription, and what must not be under way then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.client.consumer.assigning.group_view import RebalanceView, Subscriptions
from pyromq.client.consumer.base.admission import Admission
from pyromq.client.core.heartbeats import HeartbeatResult
from pyromq.errors import InvalidExpressionError, RequestTimeoutError
from pyromq.model.queue import QueueId
from pyromq.testing import ManualClock


def test_a_change_takes_effect_when_it_is_told() -> None:
    subscriptions = Subscriptions()
    subscriptions.add("orders", "A || B", sql=False, now_ms=1_000)
    assert subscriptions.changed == {"orders"} and subscriptions.effective == {}
    subscriptions.take_effect()
    assert not subscriptions.changed
    subscriptions.remove("orders")
    assert subscriptions.changed == {"orders"} and "orders" in subscriptions.effective


def test_a_new_expression_is_newer_even_if_the_clock_went_back() -> None:
    subscriptions = Subscriptions()
    subscriptions.add("orders", "A", sql=False, now_ms=1_000)
    subscriptions.add("orders", "B", sql=False, now_ms=10)
    assert subscriptions.wanted["orders"].sub_version == 1_001


def test_a_bad_expression_changes_nothing() -> None:
    subscriptions = Subscriptions()
    with pytest.raises(InvalidExpressionError):
        subscriptions.add("orders", "||", sql=False, now_ms=1)
    assert not subscriptions.changed


class Rig:
    """A member that owns a queue of ``orders`` and one of ``clicks``; ``events`` has what happened, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_heartbeat_lost = False
        self.subscriptions = Subscriptions()
        for topic in ("orders", "clicks"):
            self.subscriptions.add(topic, "*", sql=False, now_ms=1)
        self.subscriptions.take_effect()
        owned = {QueueId(topic, "a", 0): self._owned(topic) for topic in ("orders", "clicks")}
        client = SimpleNamespace(
            clock=ManualClock(),
            settings=SimpleNamespace(request_timeout_ms=1),
            routes=SimpleNamespace(get=self._route),
            brokers=SimpleNamespace(addresses=lambda masters_only: ["a:1"]),
            heartbeat_now=self._heartbeat,
        )
        queues = SimpleNamespace(owned=owned, pull_again=lambda each: self.events.append(f"pull {each.queue.topic}"))
        nothing = cast(Any, None)
        self.admission = Admission(lambda _: None)
        self.view = RebalanceView(
            cast(Any, client), nothing, self.subscriptions, cast(Any, queues), nothing, self.admission
        )

    def _owned(self, topic: str) -> Any:
        return SimpleNamespace(queue=QueueId(topic, "a", 0), stop_pulling=lambda: self.events.append(f"stop {topic}"))

    async def _route(self, topic: str, *, timeout_ms: int) -> None: ...

    async def _heartbeat(self) -> HeartbeatResult:
        tags = self.subscriptions.effective["orders"].sub_string
        self.events.append(f"tell {tags}")
        if self.is_heartbeat_lost:
            raise RequestTimeoutError("silent", timeout_ms=1)
        return HeartbeatResult(accepted=1)


async def test_no_pull_of_a_topic_is_under_way_when_brokers_hear_of_its_new_expression() -> None:
    """A pull that a broker holds goes on by the old one, and would pass over messages of the new."""
    rig = Rig()
    await rig.view.prepare()
    rig.events.clear()
    rig.subscriptions.add("orders", "red", sql=False, now_ms=2)
    await rig.view.prepare()
    assert rig.events == ["stop orders", "tell red", "pull orders"]
    rig.events.clear()
    await rig.view.prepare()
    assert rig.events == [], "they know it now"


async def test_pulls_go_on_although_brokers_could_not_be_told() -> None:
    rig = Rig()
    await rig.view.prepare()
    rig.events.clear()
    rig.is_heartbeat_lost = True
    rig.subscriptions.add("orders", "red", sql=False, now_ms=2)
    with pytest.raises(RequestTimeoutError):
        await rig.view.prepare()
    assert rig.events == ["stop orders", "tell red", "pull orders"]
