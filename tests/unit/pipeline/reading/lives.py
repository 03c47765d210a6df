"""Lives of a streaming query over a cluster with two queues."""

from __future__ import annotations

from typing import Any

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.offsets import HeldRange
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.core.places import RelativeOffset
from pyromq.pipeline.reading.stream import Stream
from pyromq.testing import ManualClock
from tests.unit.pipeline.brokers import FakeCluster

A, B, NEW = QueueId("orders", "broker-a", 0), QueueId("orders", "broker-a", 1), QueueId("orders", "broker-b", 0)


def cluster(**more: Any) -> FakeCluster:
    return FakeCluster({A: HeldRange(0, 40), B: HeldRange(0, 40)}, **more)


class Life:
    """One life of a query, with a clock that its sleeps move."""

    def __init__(self, cluster: FakeCluster, **options: Any) -> None:
        self.clock = ManualClock()
        self.cluster = cluster
        chosen = {"topics": ("orders",), "group": "reports", "starting": RelativeOffset.LATEST, **options}
        cluster.sleep = lambda s: self.clock.advance_ms(max(1, int(s * 1000)))
        self.stream = Stream(SourceOptions(**chosen), cluster, clock=self.clock, sleep=cluster.sleep)
