"""The metrics and health of a LoopbackBroker over HTTP, as a server of its own shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyromq.endpoint.endpoint import Endpoint
from pyromq.metrics.settings import MetricsSettings

if TYPE_CHECKING:
    from pyromq.testing.loopback import LoopbackBroker


@contextmanager
def metrics_of(broker: LoopbackBroker, settings: MetricsSettings | None = None) -> Iterator[str]:
    """``with metrics_of(broker) as url``, inside of ``with LoopbackBroker() as broker``: ``url`` ends in /metrics."""
    endpoint = Endpoint(settings or MetricsSettings(port=0))
    endpoint.add(broker.broker)

    async def start() -> None:
        await endpoint.__aenter__()

    async def stop() -> None:
        await endpoint.__aexit__(None, None, None)

    broker.on_loop(start)
    try:
        yield endpoint.url
    finally:
        broker.on_loop(stop)
