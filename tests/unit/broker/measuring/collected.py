"""The metrics of a LoopbackBroker as a strict reader reads them."""

from __future__ import annotations

from pyromq.broker.broker import Broker
from pyromq.metrics.exposition import whole_text
from pyromq.metrics.samples import ServerSamples
from pyromq.testing import LoopbackBroker
from tests.unit.metrics.grammar import ReadFamily, read_text


def parts_of(broker: Broker) -> list[ServerSamples]:
    steps = broker.collect()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[ServerSamples] = end.value
            return found


def metrics_at(loopback: LoopbackBroker) -> dict[str, ReadFamily]:
    return read_text(whole_text(loopback._on_loop(lambda: parts_of(loopback.broker))).decode())
