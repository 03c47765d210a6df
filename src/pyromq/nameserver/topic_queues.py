"""Which brokers keep queues of which topic. A topic without broker does not exist."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from pyromq.model.route import QueueData

_NONE: Final[Mapping[str, QueueData]] = MappingProxyType({})


class QueueDataTable:
    """Queue data by topic and broker name. One owner: the route table."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[str, QueueData]] = {}
        self._counts: dict[str, int] = {}  # topics by broker; brokers without one are not in it
        self.revision = 0  # counts changes

    def of(self, topic: str) -> Mapping[str, QueueData]:
        """Queue data by broker name; empty for an unknown topic."""
        return self._by_topic.get(topic, _NONE)

    def topics(self, matches: Callable[[Mapping[str, QueueData]], bool] = bool) -> list[str]:
        """Sorted names of all topics whose queue data match."""
        return sorted(topic for topic, queues in self._by_topic.items() if matches(queues))

    def count_of(self, broker: str) -> int:
        """On how many topics a broker is."""
        return self._counts.get(broker, 0)

    def __len__(self) -> int:
        """How many topics there are."""
        return len(self._by_topic)

    def put(self, topic: str, data: QueueData) -> None:
        queues = self._by_topic.setdefault(topic, {})
        known = queues.get(data.broker_name)
        if known != data:
            queues[data.broker_name] = data
            self.revision += 1
            if known is None:
                self._counts[data.broker_name] = self._counts.get(data.broker_name, 0) + 1

    def change_perm(self, broker: str, change: Callable[[int], int]) -> int:
        """Apply a change to the permissions of every topic on a broker; how many topics that are."""
        mine = [(topic, queues[broker]) for topic, queues in self._by_topic.items() if broker in queues]
        for topic, data in mine:
            self.put(topic, replace(data, perm=change(data.perm)))
        return len(mine)

    def drop(self, topic: str, brokers: Collection[str] | None = None) -> None:
        """Forget a topic on those brokers, on all of them by default."""
        queues = self._by_topic.get(topic, {})
        gone = queues.keys() if brokers is None else queues.keys() & brokers
        if gone:
            for broker in gone:
                self._forget(broker, 1)
            self._keep(topic, {broker: data for broker, data in queues.items() if broker not in gone})

    def drop_broker(self, broker: str) -> None:
        """Forget a broker in every topic."""
        mine = [topic for topic, queues in self._by_topic.items() if broker in queues]
        for topic in mine:
            queues = self._by_topic[topic]
            del queues[broker]
            if not queues:
                del self._by_topic[topic]
        self._forget(broker, len(mine))
        self.revision += len(mine)

    def _forget(self, broker: str, topics: int) -> None:
        left = self._counts.get(broker, 0) - topics
        if left > 0:
            self._counts[broker] = left
        else:
            self._counts.pop(broker, None)

    def _keep(self, topic: str, queues: dict[str, QueueData]) -> None:
        if queues:
            self._by_topic[topic] = queues
        else:
            del self._by_topic[topic]
        self.revision += 1
