"""Brokers for tests of planning: numbers in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pyromq.errors import ConnectFailedError
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.offsets import HeldRange, Offsets
from pyromq.pipeline.reading.broker_ranges import GroupUsage


class FakeCluster:
    """``held_now`` and ``group`` may be changed at any time."""

    def __init__(self, held: dict[QueueId, HeldRange], group: Offsets | None = None) -> None:
        self.held_now, self.group = held, group if group is not None else {}
        self.by_time: Offsets = {}
        self.keys: dict[str, dict[QueueId, set[int]]] = {}
        self.unindexed: set[QueueId] = set()  # queues of brokers whose index may lack something
        self.bytes_each = 100.0
        self.commits: list[Offsets] = []
        self.is_deaf = False
        self.asked = 0
        self.waits: list[int] = []
        self.others = GroupUsage()
        self.sleep: Callable[[float], object] = lambda seconds: None

    def held(self, *, missing_ok: bool = False, fresh: bool = True) -> dict[QueueId, HeldRange]:
        self.asked += 1
        return dict(self.held_now)

    def wait(self, wait_ms: int) -> None:
        self.waits.append(wait_ms)
        self.sleep(min(wait_ms, 40) / 1000)

    def usage(self) -> GroupUsage:
        return self.others

    def stored(self, queues: Iterable[QueueId]) -> Offsets:
        return {queue: self.group[queue] for queue in queues if queue in self.group}

    def at_times(self, times_ms: Mapping[QueueId, int], held: Mapping[QueueId, HeldRange]) -> Offsets:
        return {queue: self.by_time[queue] for queue in times_ms}

    def with_keys(self, queues: Iterable[QueueId], keys: Iterable[str]) -> dict[QueueId, set[int]]:
        wanted = list(keys)
        return {
            queue: set().union(*(self.keys.get(key, {}).get(queue, set()) for key in wanted))
            for queue in queues
            if queue not in self.unindexed
        }

    def commit(self, offsets: Mapping[QueueId, int]) -> None:
        if self.is_deaf:
            raise ConnectFailedError("no broker there")
        self.commits.append(dict(offsets))
        self.group.update(offsets)

    def average_bytes(self, queue: QueueId, held: HeldRange, start: int) -> float:
        return self.bytes_each
