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
        self.revision = 0  # counts changes

    def of(self, topic: str) -> Mapping[str, QueueData]:
        """Queue data by broker name; empty for an unknown topic."""
        return self._by_topic.get(topic, _NONE)

    def topics(self, matches: Callable[[Mapping[str, QueueData]], bool] = bool) -> list[str]:
        """Sorted names of all topics whose queue data match."""
        return sorted(topic for topic, queues in self._by_topic.items() if matches(queues))

    def count_of(self, broker: str) -> int:
        """On how many topics a broker is."""
        return sum(broker in queues for queues in self._by_topic.values())

    def put(self, topic: str, data: QueueData) -> None:
        queues = self._by_topic.setdefault(topic, {})
        if queues.get(data.broker_name) != data:
            queues[data.broker_name] = data
            self.revision += 1

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
            self._keep(topic, {broker: data for broker, data in queues.items() if broker not in gone})

    def drop_broker(self, broker: str) -> None:
        """Forget a broker in every topic."""
        for topic in [topic for topic, queues in self._by_topic.items() if broker in queues]:
            self.drop(topic, (broker,))

    def _keep(self, topic: str, queues: dict[str, QueueData]) -> None:
        if queues:
            self._by_topic[topic] = queues
        else:
            del self._by_topic[topic]
        self.revision += 1
