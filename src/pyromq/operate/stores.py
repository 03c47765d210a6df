"""Stores of brokers: segments, disk, retention, last recovery; consume queues as they are stored."""

from __future__ import annotations

from pyromq.client.admin.requests import AdminRequests
from pyromq.model.queue import QueueId
from pyromq.operate.reading.retention import LogRetention, log_retention
from pyromq.wire.headers.admin import QueryConsumeQueueHeader
from pyromq.wire.json.bodies import QueueView
from pyromq.wire.json.store_facts import StoreFacts


class StoreFacet:
    """``admin.stores``: what brokers have on disk."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests
        self._client = requests.client

    async def facts(self, broker: str) -> StoreFacts | None:
        """Return segments, disk, retention and last recovery of a broker (its name, or its address).

        None for Apache RocketMQ, which says nothing of the kind.
        """
        return await self._requests.brokers.store_facts(broker)

    async def retention(self, broker: str) -> LogRetention:
        """Return how long a broker (its name, or its address) keeps messages at the rate of the last ten minutes."""
        told, facts = await self._requests.brokers.runtime(broker), await self.facts(broker)
        config = await self._requests.brokers.config(broker) if facts is None else {}
        return log_retention(broker, told, config, facts)

    async def queue_entries(self, queue: QueueId, offset: int, count: int = 10, *, group: str = "") -> QueueView:
        """Return entries of a consume queue as they are stored, and with a group whether its filter takes them."""
        header = QueryConsumeQueueHeader(
            topic=self._client.wire_name(queue.topic),
            queue_id=queue.number,
            index=offset,
            count=count,
            consumer_group=self._client.wire_name(group) if group else None,
        )
        return await self._requests.brokers.queue_entries(queue.broker, header)
