"""Topic queues by topic, of one producer: found when a topic is first sent to, dropped when its route changes."""

from __future__ import annotations

from typing import Final

from pyromq.client.core.client import Client
from pyromq.client.core.settings import ProducerSettings
from pyromq.client.producer.topic_queues import TopicQueues, borrowed_queues, queues_to_write
from pyromq.errors import NO_BROKER, NoRouteError, NoWritableQueueError, RequestTimeoutError, TopicNotFoundError
from pyromq.model.queue import QueueId

REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"
_BORROWED_MS: Final = 200  # between two looks whether a new topic is known now


class TopicQueuesTable:
    """``known`` has them by the topic as the application calls it."""

    def __init__(self, client: Client, settings: ProducerSettings) -> None:
        self._client = client
        self._clock = client.clock
        self._settings = settings
        self.known: dict[str, TopicQueues] = {}
        self._renew_at_ms: dict[str, int] = {}

    def topics(self) -> list[str]:
        """Those that are worth keeping fresh, as servers know them."""
        return [topic_queues.topic for topic_queues in self.known.values() if not topic_queues.is_borrowed]

    def route_changed(self, topic: str) -> None:
        """Those of the topic go, and when it is the template all that borrow from it: its brokers may be others now."""
        is_template = topic == self._settings.template_topic
        for name, topic_queues in list(self.known.items()):
            if topic_queues.topic != topic and not (is_template and topic_queues.is_borrowed):
                continue
            del self.known[name]
            self._renew_at_ms.pop(name, None)

    def used(self, topic_queues: TopicQueues) -> None:
        """A message was stored: a borrowed topic should be a real one by now."""
        if topic_queues.is_borrowed:
            self._client.routes.refresh_soon(topic_queues.topic)

    async def find(self, name: str, timeout_ms: int) -> TopicQueues:
        """Where messages of a topic can go. Raises NoRouteError, ClientClosedError, RequestTimeoutError."""
        topic_queues = self.known.get(name)
        if topic_queues is None:
            self._client.require_open()
            topic_queues = self.known[name] = await self._look_up(name, max(1, timeout_ms))
        if topic_queues.is_borrowed and self._clock.monotonic_ms() >= self._renew_at_ms.get(name, 0):
            self._renew_at_ms[name] = self._clock.monotonic_ms() + _BORROWED_MS
            self._client.routes.refresh_soon(topic_queues.topic)
        return topic_queues

    async def _look_up(self, name: str, timeout_ms: int) -> TopicQueues:
        # replies go to a topic of the system, which is outside of namespaces
        topic = name if name.endswith(REPLY_TOPIC_SUFFIX) else self._client.wire_name(name)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        try:
            route = await self._client.routes.get(topic, timeout_ms=timeout_ms)
        except TopicNotFoundError as error:
            return await self._borrow(name, topic, deadline_ms, error)
        try:
            queues = queues_to_write(topic, route)
        except NoWritableQueueError as error:
            queues = await self._ask_again(topic, self._left_ms(deadline_ms), error)
        return self._made(topic, queues, is_borrowed=False)

    async def _ask_again(self, topic: str, timeout_ms: int, error: NoWritableQueueError) -> list[QueueId]:
        """So it was when name servers were asked: by now there may be a master, or the right to write."""
        try:
            route = await self._client.routes.refresh(topic, timeout_ms=timeout_ms)
        except (NoRouteError, RequestTimeoutError):  # a broker that restarts is missing for a while
            raise error from None
        return queues_to_write(topic, route)

    def _left_ms(self, deadline_ms: int) -> int:
        return max(1, deadline_ms - self._clock.monotonic_ms())

    async def _borrow(self, name: str, topic: str, deadline_ms: int, error: TopicNotFoundError) -> TopicQueues:
        client, template_topic = self._client, self._settings.template_topic
        try:
            template = await client.routes.get(template_topic, timeout_ms=self._left_ms(deadline_ms))
        except TopicNotFoundError:
            text = f"no broker has topic {topic}, and none creates topics by itself: create it first"
            if await client.nameservers.knows_no_broker(timeout_ms=self._left_ms(deadline_ms)):
                text = NO_BROKER
            raise TopicNotFoundError(topic, text) from error
        queues = borrowed_queues(topic, template, self._settings.new_topic_queues)
        self._renew_at_ms[name] = self._clock.monotonic_ms() + _BORROWED_MS
        return self._made(topic, queues, is_borrowed=True)

    def _made(self, topic: str, queues: list[QueueId], *, is_borrowed: bool) -> TopicQueues:
        brokers = self._client.brokers  # an ordered topic may list one that is gone: its queues keep their places
        addresses = {queue.broker: brokers.address(queue.broker) for queue in queues}
        links = {name: brokers.link(address) for name, address in addresses.items() if address is not None}
        cursor = self._client.rng.randrange(len(queues))
        return TopicQueues(topic, queues, links, cursor=cursor, borrowed=is_borrowed)
