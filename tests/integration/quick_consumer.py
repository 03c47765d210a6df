"""Push consumers of scripted brokers, at a pace that keeps tests short."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyromq.aio import PushConsumer, QueueId
from pyromq.client.core.client import Client
from pyromq.clock import Clock
from pyromq.settings import ClientSettings, PushConsumerSettings
from tests.integration.scripted_queues import NAME, ScriptedQueues

QUEUE = QueueId("T", NAME, 0)
_QUICK = PushConsumerSettings(
    start="earliest",
    persist_ms=20,
    error_wait_ms=50,
    retry_wait_ms=20,
    rest_ms=10,
    lock_ms=50,
)


def quick_settings(**changes: Any) -> PushConsumerSettings:
    """Of a consumer that does not wait long for anything."""
    return replace(_QUICK, **changes)


def quick_consumer(
    broker: ScriptedQueues, listener: Any, *, clock: Clock | None = None, name: str = "", **changes: Any
) -> PushConsumer:
    """Subscribed to ``T``; several of one group need a ``name`` each."""
    client = Client(ClientSettings(nameservers=broker.nameserver, instance_name=name), clock=clock)
    made = PushConsumer(client=client, listener=listener, settings=quick_settings(**changes), group=broker.group)
    made._owns_client = True
    made.subscribe("T")
    return made
