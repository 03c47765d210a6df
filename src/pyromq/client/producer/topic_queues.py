"""Topic queues: where messages of a topic may be sent, and which queue is next.

A topic that no broker has yet borrows its queues from the template topic: the broker that gets its first message
creates it. Borrowed queues are used only until the name servers know the topic itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyromq.client.core.broker_health import BrokerHealth
from pyromq.compiled_core import SendFrame
from pyromq.errors import NoMasterError, NoWritableQueueError
from pyromq.model.queue import QueueId
from pyromq.model.route import TopicRoute
from pyromq.net import Link


class TopicQueues:
    """Replaced whole when the route changes; only the cursor moves. ``links`` are those to the masters, by broker."""

    __slots__ = ("_cursor", "brokers", "frames", "is_borrowed", "links", "queues", "topic")

    def __init__(
        self,
        topic: str,
        queues: Sequence[QueueId],
        links: Mapping[str, Link],
        *,
        cursor: int = 0,
        borrowed: bool = False,
    ) -> None:
        assert queues
        self.topic = topic
        self.queues = tuple(queues)
        self.frames: list[SendFrame | None] = [None] * len(queues)  # of sends to each queue; the fast path fills it
        self.links = links
        self.is_borrowed = borrowed
        self.brokers = frozenset(queue.broker for queue in queues)
        self._cursor = cursor

    def next(self) -> QueueId:
        """Choose the next queue, one after the other."""
        return self.queues[self.next_place()]

    def next_place(self) -> int:
        """Where in ``queues`` the next one is."""
        self._cursor = place = (self._cursor + 1) % len(self.queues)
        return place

    def next_elsewhere(self, last_broker: str) -> QueueId:
        """The next one that is not on that broker, if there is any."""
        return self._next_where(lambda broker: broker != last_broker) or self.next()

    def next_healthy(self, last_broker: str, health: BrokerHealth) -> QueueId:
        """The next one on a broker that is quick, or at least there, and not the last one; or else simply the next."""
        return (
            self._next_where(lambda broker: broker != last_broker and health.is_available(broker))
            or self._next_where(lambda broker: broker != last_broker and health.is_reachable(broker))
            or self.next()
        )

    def _next_where(self, is_good: Callable[[str], bool]) -> QueueId | None:
        for _ in self.queues:
            queue = self.next()
            if is_good(queue.broker):
                return queue
        return None


def queues_to_write(topic: str, route: TopicRoute) -> list[QueueId]:
    """Raises NoWritableQueueError, which says why there is none, and InvalidRouteError.

    When all that is missing is a master, that is a NoMasterError.
    """
    queues = route.publishable_queues(topic)
    if not queues:
        reason, headless = _why_not(route), _without_master(route)
        raise NoMasterError(topic, reason, broker=headless) if headless else NoWritableQueueError(topic, reason)
    return queues


def borrowed_queues(topic: str, template: TopicRoute, queues_max: int) -> list[QueueId]:
    """Queues that the topic will have once a broker creates it; raises NoWritableQueueError, InvalidRouteError."""
    queues = template.publishable_queues(topic)
    reads = {data.broker_name: data.read_queue_nums for data in template.queue_datas}
    kept = [queue for queue in queues if queue.number < min(queues_max, reads.get(queue.broker, 0))]
    if not kept:
        raise NoWritableQueueError(topic, f"it would be created, but {_why_not(template)}")
    return kept


def _without_master(route: TopicRoute) -> str:
    """A broker that would take messages if it had a master; empty when there is none."""
    masters = {broker.broker_name for broker in route.broker_datas if broker.master_addr}
    wanted = (data.broker_name for data in route.queue_datas if data.writable and data.write_queue_nums)
    return next((name for name in wanted if name not in masters), "")


def _why_not(route: TopicRoute) -> str:
    names = {broker.broker_name: broker for broker in route.broker_datas}
    reasons = []
    for data in route.queue_datas:
        broker = names.get(data.broker_name)
        if not data.writable:
            reasons.append(f"broker {data.broker_name} does not allow writing (perm {data.perm})")
        elif broker is None or not broker.master_addr:
            reasons.append(f"broker {data.broker_name} has no master")
        elif not data.write_queue_nums:
            reasons.append(f"broker {data.broker_name} has no write queues of it")
    return "; ".join(reasons) or "no broker lists queues of it"
