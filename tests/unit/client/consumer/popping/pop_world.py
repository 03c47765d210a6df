"""A broker in this process, on virtual time, with consumers that pop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pyromq.aio import Admin, Message, Producer
from pyromq.testing import LoopbackBroker

TOPIC, GROUP = "orders", "billing"


class World:
    def __init__(self, broker: LoopbackBroker, admin: Admin, producer: Producer) -> None:
        self.broker = broker
        self.admin = admin
        self.producer = producer
        self.nameserver = broker.nameserver

    async def send(self, *bodies: str, topic: str = TOPIC, **fields: Any) -> None:
        for body in bodies:
            await self.producer.send(Message(topic, body.encode(), **fields))

    async def dead_letters(self) -> list[bytes]:
        return sorted(message.body for message in await self.admin.messages.newest(f"%DLQ%{GROUP}", 100))


def in_world(test: Callable[[World], Awaitable[None]], queues: int = 4, **options: Any) -> None:
    async def run() -> None:
        async with LoopbackBroker(virtual_time=True, sockets=False, **options) as broker:
            async with Admin(broker.nameserver) as admin, Producer(broker.nameserver, group="shop") as producer:
                await admin.topics.create(TOPIC, queues=queues)
                await test(World(broker, admin, producer))

    asyncio.run(run())
