"""Group view: what is subscribed, which queues that means, and which other members there are.

Subscriptions are of two kinds. ``wanted`` is what the application asked for; ``effective`` is what brokers are told in
heartbeats, and what pulls go by. They differ for a moment after a change: no pull may be under way when brokers hear of
the new expression, because one that a broker holds goes on by the old one and would pass over messages of the new.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from pyromq.client.consumer.assigning.owned_queues import OwnedQueues
from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.rules.assignment import Assignment, next_version
from pyromq.client.consumer.rules.flow_control import FlowControl
from pyromq.client.consumer.rules.subscription import subscribe_retries, subscribe_sql, subscribe_tags
from pyromq.client.core.client import Client
from pyromq.errors import MQError, TopicNotFoundError
from pyromq.model.queue import QueueId
from pyromq.wire.json.heartbeat import Subscription

logger = logging.getLogger(__name__)


class Subscriptions:
    """By topic, as servers know it. Both tables are replaced whole."""

    def __init__(self) -> None:
        self.wanted: dict[str, Subscription] = {}
        self.effective: dict[str, Subscription] = {}

    def add(self, topic: str, expression: str, *, sql: bool, now_ms: int) -> None:
        """Raises InvalidExpressionError."""
        known = self.wanted.get(topic)
        version = next_version(known.sub_version if known else 0, now_ms)
        made = subscribe_sql(topic, expression, version) if sql else subscribe_tags(topic, expression, version)
        self.wanted = {**self.wanted, topic: made}

    def add_retries(self, group: str, now_ms: int) -> None:
        made = subscribe_retries(group, now_ms)
        self.wanted = {**self.wanted, made.topic: made}

    def remove(self, topic: str) -> None:
        self.wanted = {each: made for each, made in self.wanted.items() if each != topic}

    @property
    def changed(self) -> set[str]:
        """Topics for which brokers must hear something new."""
        topics = self.wanted.keys() | self.effective.keys()
        return {topic for topic in topics if self.wanted.get(topic) != self.effective.get(topic)}

    def take_effect(self) -> None:
        self.effective = self.wanted


class GroupView:
    """What the rebalancer needs to know; asks name servers and brokers for it."""

    def __init__(
        self,
        client: Client,
        calls: BrokerCalls,
        subscriptions: Subscriptions,
        owned_queues: OwnedQueues,
        flow: FlowControl,
    ) -> None:
        self._client = client
        self._calls = calls
        self._owned_queues = owned_queues
        self._flow = flow
        self._subscriptions = subscriptions
        self._told: list[str] = []  # addresses of brokers that know us

    def topics(self) -> Collection[str]:
        return list(self._subscriptions.wanted)

    async def prepare(self) -> None:
        timeout_ms = self._client.settings.request_timeout_ms
        for topic in sorted(self._subscriptions.wanted):
            try:
                await self._client.routes.get(topic, timeout_ms=timeout_ms)
            except MQError as error:
                level = logging.INFO if isinstance(error, TopicNotFoundError) else logging.WARNING
                logger.log(level, "no route yet: topic=%s error=%s", topic, error)
        brokers = self._client.brokers.addresses(masters_only=False)
        if (changed := self._subscriptions.changed) or self._told != brokers:
            await self._tell_brokers(changed)
            self._told = brokers

    async def _tell_brokers(self, changed: Collection[str]) -> None:
        owned_by_change = [owned for owned in self._owned_queues.owned.values() if owned.queue.topic in changed]
        for owned in owned_by_change:
            owned.stop_pulling()
        self._subscriptions.take_effect()
        try:
            await self._client.heartbeat_now()
        finally:
            for owned in owned_by_change:
                self._owned_queues.pull_again(owned)

    def queues_of(self, topic: str) -> Collection[QueueId] | None:
        route = self._client.routes.known(topic)
        return None if route is None else route.readable_queues(topic)

    async def members_of(self, topic: str) -> Collection[str] | None:
        route = self._client.routes.known(topic)
        if route is None:
            return None
        members = await self._calls.members(route)
        if members is not None and self._client.id not in members:  # the broker has not heard of us, or forgot
            await self._client.heartbeat_now()
            members = await self._calls.members(route)
        return members

    def shared(self, assignment: Assignment) -> None:
        self._flow.share_among(len(assignment.queues))
