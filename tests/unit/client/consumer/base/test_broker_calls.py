"""What a group asks of several brokers it asks at the same time, or of those that answer."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.errors import RequestTimeoutError
from pyromq.model.queue import QueueId
from pyromq.model.route import BrokerData, TopicRoute
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


async def test_a_silent_broker_is_asked_for_the_members_after_all_others() -> None:
    """Else each round of each topic would wait for it, half of the time."""
    asked: list[str] = []

    async def ask(link: str, code: int, header: object) -> Any:
        asked.append(link)
        if link == "a:1":
            raise RequestTimeoutError("silent", peer=link, code=code, timeout_ms=1)
        return SimpleNamespace(body=bodies.encode(bodies.GroupMemberIds(consumer_id_list=["me"])))

    names = {"broker-a": "a:1", "broker-b": "b:1"}
    route = TopicRoute(
        broker_datas=tuple(
            BrokerData(cluster="c", broker_name=name, broker_addrs={0: address}) for name, address in names.items()
        )
    )
    client = SimpleNamespace(
        brokers=SimpleNamespace(link=lambda address: address),
        silence=SimpleNamespace(is_silent=lambda address: address == "a:1"),
        rng=Random(1),
        ask=ask,
    )
    calls = BrokerCalls(cast(Any, client), "billing")
    assert [await calls.members(route) for _ in range(20)] == [["me"]] * 20
    assert set(asked) == {"b:1"}
