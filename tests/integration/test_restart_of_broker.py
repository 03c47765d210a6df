"""A broker that restarts, in virtual time: what senders notice of it."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyromq import Admin, Message, Producer, aio
from pyromq.errors import SendFailedError
from pyromq.model.message import SendReceipt
from pyromq.net import Address
from pyromq.outbox import AsyncForwardingProducer, KeptReceipt, Outbox
from pyromq.settings import ProducerSettings
from pyromq.testing import LoopbackBroker

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

DOWN_MS = 5_000  # longer than a send waits for an answer, shorter than it waits for a broker
FIRST, SECOND = Message("orders", b"first"), Message("orders", b"second")

Send = Callable[[aio.Producer], Awaitable[SendReceipt | list[SendReceipt]]]
WAYS: dict[str, Send] = {
    "send": lambda producer: producer.send(SECOND),
    "send with a sharding key": lambda producer: producer.send(Message("orders", b"second", sharding_key="k")),
    "send_nowait": lambda producer: producer.send_nowait(SECOND),
    "send_batch": lambda producer: producer.send_batch([SECOND, SECOND]),
    "send_batch of several requests": lambda producer: producer.send_batch([Message("orders", b"x" * 600)] * 4),
}


def run(test: Callable[[LoopbackBroker], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with LoopbackBroker(virtual_time=True) as broker:
            async with aio.Admin(broker.nameserver) as admin:
                await admin.topics.create("orders", queues=1)
            await test(broker)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())


async def is_away(producer: aio.Producer) -> None:
    """Until the producer's connection is gone."""
    (link,) = producer.client.brokers.ready_links()
    if connection := link.ready:
        await connection.wait_closed()


@pytest.mark.parametrize("way", WAYS)
def test_a_restart_of_a_few_seconds_is_invisible_to_default_senders(way: str) -> None:
    async def test(broker: LoopbackBroker) -> None:
        settings = ProducerSettings(body_bytes_max=1_000)
        async with aio.Producer(broker.nameserver, group="shop", settings=settings) as producer:
            await producer.send(FIRST)
            began_ms = broker.now_ms()
            restart = asyncio.ensure_future(broker.restart(down_ms=DOWN_MS))
            await is_away(producer)
            sent = await WAYS[way](producer)
            assert DOWN_MS <= broker.now_ms() - began_ms <= 10_000
            receipts = sent if isinstance(sent, list) else [sent]
            assert [receipt.offset for receipt in receipts] == list(range(1, 1 + len(receipts)))
            await restart

    run(test)


@pytest.mark.parametrize("way", WAYS)
def test_a_time_that_was_given_is_kept_to(way: str) -> None:
    async def test(broker: LoopbackBroker) -> None:
        settings = ProducerSettings(body_bytes_max=1_000, timeout_ms=3_000)
        async with aio.Producer(broker.nameserver, group="shop", settings=settings) as producer:
            await producer.send(FIRST)
            restart = asyncio.ensure_future(broker.restart(down_ms=DOWN_MS))
            await is_away(producer)
            began_ms = broker.now_ms()
            with pytest.raises(SendFailedError) as raised:
                await WAYS[way](producer)
            assert broker.now_ms() - began_ms == 3_000 and not raised.value.maybe_stored
            await restart

    run(test)


def test_a_time_of_one_send_is_kept_to_and_the_wait_has_its_limit() -> None:
    async def test(broker: LoopbackBroker) -> None:
        async with aio.Producer(broker.nameserver, group="shop") as producer:
            await producer.send(FIRST)
            restart = asyncio.ensure_future(broker.restart(down_ms=30_000))
            await is_away(producer)
            for given, took_ms in ((2_000, 2_000), (None, 15_000)):
                began_ms = broker.now_ms()
                with pytest.raises(SendFailedError):
                    await producer.send(SECOND, timeout_ms=given)
                assert broker.now_ms() - began_ms == took_ms
            await restart
            assert (await producer.send(SECOND)).offset == 1

    run(test)


def test_sends_under_way_when_the_broker_stops_are_taken_by_its_successor() -> None:
    async def test(broker: LoopbackBroker) -> None:
        async with aio.Producer(broker.nameserver, group="shop") as producer:
            await producer.send(FIRST)
            (link,) = producer.client.brokers.ready_links()
            futures: list[asyncio.Future[SendReceipt]] = []
            restart = asyncio.ensure_future(broker.restart(down_ms=DOWN_MS))
            while link.ready:  # the last of them while it stops: those are answered with code 14, or not at all
                futures.append(producer.send_nowait(SECOND))
                await asyncio.sleep(0)
            offsets = [receipt.offset for receipt in await asyncio.gather(*futures)]
            assert futures and len(set(offsets)) == len(futures)
            await restart

    run(test)


def test_the_sync_face_waits_as_well() -> None:
    with LoopbackBroker(virtual_time=True) as broker:
        with Admin(broker.nameserver) as admin:
            admin.topics.create("orders", queues=1)
        with Producer(broker.nameserver, group="shop") as producer, ThreadPoolExecutor() as threads:
            producer.send(FIRST)
            restarted = threads.submit(broker.restart, down_ms=DOWN_MS)
            sent = [producer.send(SECOND) for _ in range(20)]
            assert producer.send_batch([SECOND] * 2)[-1].offset >= 22 and len(sent) == 20
            restarted.result()


def test_store_and_forward_keeps_instead_of_waiting(tmp_path: Any) -> None:
    async def test(broker: LoopbackBroker) -> None:
        outbox = Outbox(f"{tmp_path}/kept.db")
        async with AsyncForwardingProducer(broker.nameserver, group="shop", outbox=outbox) as producer:
            await producer.send(FIRST)
            restart = asyncio.ensure_future(broker.restart(down_ms=30_000))
            await is_away(producer.producer)
            began_ms = broker.now_ms()
            assert isinstance(await producer.send(SECOND), KeptReceipt)
            assert broker.now_ms() - began_ms == 3_000
            await restart
            assert await producer.flush(60_000) == 0

    run(test)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not let a held port be listened on")
def test_no_other_program_gets_the_port_of_a_broker_that_is_away() -> None:
    async def test(broker: LoopbackBroker) -> None:
        address = Address.parse(broker.address)
        restart = asyncio.ensure_future(broker.restart(down_ms=DOWN_MS))
        await asyncio.sleep(DOWN_MS / 2000)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((address.host, address.port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address.host, address.port)).close()
        await restart
        assert broker.address == str(address)

    run(test)


def test_a_restarted_broker_has_the_ports_that_it_had_and_no_others() -> None:
    async def test(broker: LoopbackBroker) -> None:
        before = (broker.address, broker.broker.grpc_address)
        await broker.restart()
        assert (broker.address, broker.broker.grpc_address) == before and before[1] is None

    run(test)
