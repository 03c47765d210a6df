"""A shop on a LoopbackBroker: orders, a group that gave up on some of them, and a console's jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pyromq.aio import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.client.core.settings import ClientSettings
from pyromq.errors import DeadLetterError
from pyromq.operate.jobs.book import Jobs
from pyromq.testing import LoopbackBroker


@dataclass
class Shop:
    broker: LoopbackBroker
    admin: Admin
    producer: Producer

    async def send(self, *bodies: bytes, topic: str = "orders", **options: str) -> None:
        for body in bodies:
            await self.producer.send(Message(topic, body, **options))  # type: ignore[arg-type]

    async def bury(self, bodies: Sequence[bytes], group: str = "billing", reason: str = "no such customer") -> None:
        """Orders that the group gives up on at once."""
        await self.admin.groups.create(group)
        letters = len(await self.admin.dead_letters.list(group))
        await self.send(*bodies)

        async def listen(message: ReceivedMessage) -> None:
            raise DeadLetterError(reason)

        consumer = PushConsumer(self.broker.nameserver, group=group, listener=listen, topics="orders", start="earliest")
        async with consumer:
            while len(await self.admin.dead_letters.list(group)) < letters + len(bodies):
                await self.broker.advance(seconds=1)

    def jobs(self, folder: Path | None = None) -> Jobs:
        return Jobs(self.admin, folder, self.broker.clock)


@asynccontextmanager
async def a_shop(seed: int = 0) -> AsyncIterator[Shop]:
    """Virtual time, no sockets; a topic ``orders`` with two queues."""
    async with LoopbackBroker(virtual_time=True, sockets=False, seed=seed) as broker:
        settings = ClientSettings(nameservers=broker.nameserver)
        async with Admin(client_settings=settings) as admin, Producer(broker.nameserver, group="shop") as producer:
            await admin.topics.create("orders", queues=2)
            yield Shop(broker, admin, producer)
