"""A route that names replicas alone is what name servers say between two masters: clients look again by themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.aio import Producer, PushConsumer, ReceivedMessage
from pyromq.client.core.client import Client
from pyromq.errors import NoMasterError, SendFailedError
from pyromq.replication.settings import Role
from pyromq.settings import ClientSettings
from tests.integration.replication_pair import Pair, a_pair
from tests.integration.test_push_consumer import FAST
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

NAME = "broker-a"


def client_of(pair: Pair) -> Client:
    """It does not poll routes within any test's time."""
    return Client(ClientSettings(nameservers=pair.nameserver, route_poll_ms=3_600_000))


async def between_two_masters(pair: Pair, client: Client) -> None:
    """The master is gone, the replica is there, and the client has heard so."""
    await pair.caught_up()
    await pair.metadata_taken()
    await pair.stop_master()

    async def hears() -> None:
        while client.brokers.address(NAME) is not None:
            await client.routes.refresh("orders", timeout_ms=10_000)

    await asyncio.wait_for(hears(), 60)


async def promote(pair: Pair) -> None:
    assert pair.replica is not None
    await pair.replica.change_role(Role.ASYNC_MASTER, 0)


async def test_a_send_waits_for_the_replica_that_takes_over(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, client_of(pair) as client:
        await pair.start_master(Role.ASYNC_MASTER)
        await pair.start_replica()
        async with Producer(client=client, group="senders", timeout_ms=60_000) as producer:
            await producer.send(Message("orders", b"1"))
            await between_two_masters(pair, client)
            sending = asyncio.ensure_future(producer.send(Message("orders", b"2")))
            await asyncio.sleep(0)  # it has begun
            await promote(pair)
            receipt = await sending
            assert receipt.queue.broker == NAME


async def test_a_send_says_that_there_is_no_master_when_its_time_is_over(tmp_path: Path) -> None:
    async with a_pair(tmp_path) as pair, client_of(pair) as client:
        await pair.start_master(Role.ASYNC_MASTER)
        await pair.start_replica()
        async with Producer(client=client, group="senders", timeout_ms=60_000) as producer:
            await producer.send(Message("orders", b"1"))
            await between_two_masters(pair, client)
            with pytest.raises(SendFailedError, match="broker-a has no master") as caught:
                await producer.send(Message("orders", b"2"), timeout_ms=300)
        assert isinstance(caught.value.attempts[-1].error, NoMasterError)
        assert not caught.value.maybe_stored


async def test_a_consumer_sends_back_to_the_replica_that_took_over(tmp_path: Path) -> None:
    seen: list[tuple[bytes, int]] = []

    async def fail_once(message: ReceivedMessage) -> None:
        seen.append((message.body, message.delivery_attempt))
        if not message.delivery_attempt:
            raise ValueError("not now")

    async with a_pair(tmp_path) as pair, client_of(pair) as client:
        await pair.start_master(Role.ASYNC_MASTER, replica_reads=True)
        await pair.start_replica(replica_reads=True)
        async with Producer(client=client, group="senders", timeout_ms=60_000) as producer:
            await producer.send(Message("orders", b"1"))
            await between_two_masters(pair, client)
            consumer = PushConsumer(client=client, listener=fail_once, settings=FAST, group="readers")
            consumer.subscribe("orders")
            async with consumer:
                await until(lambda: (b"1", 0) in seen, "read from the replica, and failed")
                await promote(pair)
                await until(lambda: client.brokers.address(NAME) is not None, "the client knows the new master")
