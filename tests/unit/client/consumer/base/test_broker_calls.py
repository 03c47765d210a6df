"""What a group asks of several brokers it asks at the same time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.errors import RequestTimeoutError
from pyromq.model.queue import QueueId
from pyromq.wire.json import bodies

HERE, THERE = QueueId("T", "broker-a", 0), QueueId("T", "broker-b", 0)


async def test_a_silent_broker_does_not_hold_up_the_locks_at_the_others() -> None:
    b_was_asked = asyncio.Event()

    async def ask(link: str, code: int, header: object, body: bytes) -> Any:
        if link == "broker-a":
            async with asyncio.timeout(60):
                await b_was_asked.wait()
            raise RequestTimeoutError("silent", peer=link, code=code, timeout_ms=1)
        b_was_asked.set()
        return SimpleNamespace(body=bodies.encode(bodies.LockResponse(granted=(THERE,))))

    brokers = SimpleNamespace(address=lambda name, _id: name, link=lambda address: address)
    calls = BrokerCalls(cast(Any, SimpleNamespace(id="me", brokers=brokers, ask=ask)), "billing")
    assert await calls.lock([HERE, THERE]) == ({THERE}, set())
