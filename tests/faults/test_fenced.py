"""A master whose lease has ended, and which lives: clients leave it for the one that took over, without a poll."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import Producer, PushConsumer, ReceivedMessage
from pyromq.broker.base.lease import Lease
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.client.core.client import Client
from pyromq.replication.settings import ReplicationSettings, Role
from pyromq.settings import ClientSettings
from tests.integration.replication_pair import SMALL, a_pair
from tests.integration.test_push_consumer import FAST
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]


class HandTurned:
    """The machine's clock, as leases see it."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


async def leased(folder: Path, nameserver: str, number: int, clock: HandTurned) -> tuple[Broker, Lease]:
    """A master under that lease, which ends in a second of that clock."""
    lease = Lease(clock)
    settings = BrokerSettings(
        port=0,
        vip_port=False,
        nameservers=(nameserver,),
        register_interval_ms=200,
        store=SMALL,
        replication=ReplicationSettings(role=Role.ASYNC_MASTER, managed=True),
    )
    broker = Broker(settings, folder, lease=lease)
    await broker.start()
    lease.promoted(number, broker.store.end_position)
    assert lease.grant(number, clock() + 1, ())
    broker.parts.services.registrar.topics_changed()
    return broker, lease


async def test_producers_and_consumers_leave_a_master_whose_lease_has_ended(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def note(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async with a_pair(tmp_path) as pair:
        clock = HandTurned()
        old, _ = await leased(tmp_path / "old", pair.nameserver, 1, clock)
        new: Broker | None = None
        client = Client(ClientSettings(nameservers=pair.nameserver, route_poll_ms=3_600_000))
        try:
            async with client, Producer(client=client, group="senders", timeout_ms=60_000) as producer:
                consumer = PushConsumer(client=client, listener=note, settings=FAST, group="readers")
                consumer.subscribe("orders")
                await until(lambda: old.parts.services.registrar.registered_with, "registered")
                await producer.send(Message("orders", b"1"))
                async with consumer:
                    await until(lambda: seen == [b"1"], "read at the old master")
                    clock.now_s += 100  # its lease has ended; it is not stopped, and clients are connected
                    new, _ = await leased(tmp_path / "new", pair.nameserver, 2, clock)
                    for _ in range(8):  # one for each queue: the new master is no copy, and one offset was read already
                        await asyncio.wait_for(producer.send(Message("orders", b"2")), 60)
                    await until(lambda: b"2" in seen, "read at the new master")
                    assert client.brokers.address("broker-a") == str(new.address)
        finally:
            await old.stop()
            if new is not None:
                await new.stop()
