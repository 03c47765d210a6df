"""Group view: what is subscribed, which queues that means, and which other members there are.

Subscriptions are of two kinds. ``wanted`` is what the application asked for; ``effective`` is what brokers get in
heartbeats, and what pulls go by. They differ for a moment after a change: no pull may be under way when brokers hear of
the new expression, because one that a broker holds goes on by the old one and would pass over messages of the new.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from pyromq.client.consumer.assigning.owned_queues import OwnedQueues
from pyromq.client.consumer.base.admission import Admission
from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.rules.assignment import Assignment, next_version
from pyromq.client.consumer.rules.flow_control import FlowControl
from pyromq.client.consumer.rules.start_offset import Subscribed
from pyromq.client.consumer.rules.subscription import subscribe_retries, subscribe_sql, subscribe_tags
from pyromq.client.core.client import Client
from pyromq.errors import NO_BROKER, MQError, NoPermissionError, TopicNotFoundError
from pyromq.model.names import RETRY_PREFIX
from pyromq.model.queue import QueueId
from pyromq.wire.codes import RequestCode
from pyromq.wire.json.heartbeat import Subscription
from pyromq.wire.json.route import decode_topics

logger = logging.getLogger(__name__)

_LOOKS_BEFORE_WARNING: Final = 2  # a second apart


class Subscriptions:
    """By topic, as servers know it. Both tables are replaced whole."""

    def __init__(self) -> None:
        self.wanted: dict[str, Subscription] = {}
        self.effective: dict[str, Subscription] = {}

    def add(self, topic: str, expression: str, *, sql: bool, now_ms: int) -> None:
        """Subscribe to a topic. Raises InvalidExpressionError."""
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


class RebalanceView:
    """What the rebalancer needs to know; asks name servers and brokers for it."""

    def __init__(
        self,
        client: Client,
        calls: BrokerCalls,
        subscriptions: Subscriptions,
        owned_queues: OwnedQueues,
        flow: FlowControl,
        admission: Admission,
    ) -> None:
        self._client = client
        self._calls = calls
        self._owned_queues = owned_queues
        self._flow = flow
        self._admission = admission
        self._subscriptions = subscriptions
        self._reported: list[str] = []  # addresses of brokers that know us
        self._looks: dict[str, int] = {}  # at topics that are absent
        self.absent: set[str] = set()  # topics that no name server knew when they were last asked for
        self._since_ms: dict[str, int] = {}  # when the first round with a topic began
        self._subscribed: dict[str, Subscribed] = {}  # topics whose first round is over

    def topics(self) -> Collection[str]:
        return list(self._subscriptions.wanted)

    def subscribed(self, topic: str) -> Subscribed | None:
        """When a topic was subscribed, and what was found; None as long as the first round with it goes on."""
        if topic in self.absent and topic not in self._subscribed:
            return Subscribed(self._client.clock.now_ms(), was_absent=True)
        return self._subscribed.get(topic)

    def round_over(self) -> None:
        """Topics of this round are subscribed: what is found of them later was not there, or could not be asked."""
        for topic, since_ms in self._since_ms.items():
            self._subscribed.setdefault(topic, Subscribed(since_ms, topic in self.absent))

    def round_begins(self) -> None:
        """Topics that are new are being subscribed from now on; of those that are gone nothing is remembered."""
        wanted, now_ms = self._subscriptions.wanted, self._client.clock.now_ms()
        self._since_ms = {topic: self._since_ms.get(topic, now_ms) for topic in wanted}
        self._subscribed = {topic: known for topic, known in self._subscribed.items() if topic in wanted}

    async def prepare(self) -> None:
        self.round_begins()
        timeout_ms = self._client.settings.request_timeout_ms
        for topic in sorted(self._subscriptions.wanted):
            try:
                await self._client.routes.get(topic, timeout_ms=timeout_ms)
            except TopicNotFoundError as error:
                await self._not_there(topic, error)
            except MQError as error:
                if isinstance(error, NoPermissionError) and self._admission.refuse(error):
                    continue
                logger.warning("no route yet: topic=%s error=%s", topic, error)
            else:
                self._there(topic)
        brokers = self._client.brokers.addresses(masters_only=False)
        if (changed := self._subscriptions.changed) or self._reported != brokers:
            await self._notify_brokers(changed)
            self._reported = brokers

    def _there(self, topic: str) -> None:
        if topic in self.absent:
            self.absent.discard(topic)
            self._looks.pop(topic, None)
            logger.info("topic exists now: topic=%s", topic)

    async def _not_there(self, topic: str, error: TopicNotFoundError) -> None:
        """A topic may be created by its first message, so it is waited for; a misspelt one would wait for ever."""
        looks = self._looks[topic] = self._looks.get(topic, 0) + 1
        self.absent.add(topic)
        if (
            looks == 1
        ):  # the broker that just created it may be on its way to say; and retry topics come with heartbeats
            logger.info("no route yet: topic=%s error=%s", topic, error)
        if looks != _LOOKS_BEFORE_WARNING or topic.startswith(RETRY_PREFIX):
            return
        name = self._client.plain_name(topic)
        if await self._client.nameservers.knows_no_broker(timeout_ms=self._client.settings.request_timeout_ms):
            logger.warning("%s; waiting for topic %r", NO_BROKER, name)
            return
        close = get_close_matches(name, await self._names(), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        logger.warning("topic %r does not exist%s; waiting", name, hint)

    async def _names(self) -> list[str]:
        """All topics, for advice alone."""
        try:
            code, timeout_ms = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, self._client.settings.request_timeout_ms
            response = await self._client.nameservers.ask(code, None, timeout_ms=timeout_ms)
            return [self._client.plain_name(name) for name in decode_topics(response.body).topic_list]
        except MQError as error:
            logger.debug("no list of topics: error=%s", error)
            return []

    async def _notify_brokers(self, changed: Collection[str]) -> None:
        owned_by_change = [owned for owned in self._owned_queues.owned.values() if owned.queue.topic in changed]
        for owned in owned_by_change:
            owned.stop_pulling()
        self._subscriptions.take_effect()
        try:
            await self._beat()
        finally:
            for owned in owned_by_change:
                self._owned_queues.pull_again(owned)

    async def _beat(self) -> None:
        accepted, refusal = await self._client.heartbeat_now()
        if accepted:
            self._admission.admit()
        elif refusal is not None:
            self._admission.refuse(refusal)

    def queues_of(self, topic: str) -> Collection[QueueId] | None:
        route = self._client.routes.known(topic)
        return None if route is None else route.readable_queues(topic)

    async def members_of(self, topic: str) -> Collection[str] | None:
        route = self._client.routes.known(topic)
        if route is None:
            return None
        members = await self._calls.members(route)
        if members is None or self._client.id not in members:  # the broker has not heard of us, or forgot
            await self._beat()
            members = await self._calls.members(route)
        return members

    def shared(self, assignment: Assignment) -> None:
        self._flow.share_among(len(assignment.queues))
