"""Clients that are opened twice, closed half, or told nonsense: nothing is left behind, and nobody else suffers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pyromq.aio import Message, Producer, PullConsumer, PushConsumer, ReceivedMessage
from pyromq.client.core.client import Client
from pyromq.errors import ClientClosedError
from pyromq.model.route import BrokerData
from pyromq.settings import ClientSettings
from pyromq.wire.codes import RequestCode as Code
from tests.integration.quick_consumer import QUEUE, quick_consumer
from tests.integration.scripted_broker import ScriptedBroker, scripted
from tests.integration.scripted_queues import scripted_queues
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]

GROUP = "billing"


async def ignore(message: ReceivedMessage) -> None: ...


async def cancelled(work: asyncio.Task[None], when: Callable[[], object]) -> None:
    await until(when)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_opening_twice_is_refused_and_the_first_one_stays_whole() -> None:
    async with scripted(ScriptedBroker()) as cluster:
        client = Client(ClientSettings(nameservers=cluster.nameserver))
        async with client, Producer(client=client, group="g") as shared:
            for again in (client, shared):
                with pytest.raises(ClientClosedError, match="twice"):
                    await again.open()
            async with Producer(cluster.nameserver, group="g") as own:
                with pytest.raises(ClientClosedError, match="twice"):
                    await own.open()
                await own.send(Message("T", b"1"))
            assert client._roles == [shared]
        assert len(client.tasks) == 0


@pytest.mark.parametrize("point", ["at once", "while it says farewell"])
async def test_a_consumer_whose_closing_is_cancelled_is_gone_all_the_same(point: str) -> None:
    async with scripted_queues(GROUP) as broker:
        broker.codes[Code.UNREGISTER_CLIENT] = None  # no answer
        member = quick_consumer(broker, ignore)
        await member.open()
        await until(lambda: member.assignment)
        closing = asyncio.ensure_future(member.close())
        await asyncio.sleep(0)
        await cancelled(closing, lambda: point == "at once" or broker.asked[Code.UNREGISTER_CLIENT])
        assert not member.assignment and len(member._tasks) == 0 and len(member.client.tasks) == 0
        assert not member.client.is_open


@pytest.mark.parametrize("kind", [PushConsumer, PullConsumer])
async def test_a_consumer_whose_opening_is_cancelled_is_gone(kind: Any) -> None:
    asked = asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as nameserver:
        host, port = nameserver.sockets[0].getsockname()
        options = {"listener": ignore} if kind is PushConsumer else {}
        consumer = kind(f"{host}:{port}", group=GROUP, topics="orders", **options)
        opening = asyncio.ensure_future(consumer.open())
        await cancelled(opening, asked.is_set)
        assert not consumer.client.is_open, "nobody else will close it: async with was never entered"


async def test_a_producer_whose_closing_is_cancelled_leaves_its_group() -> None:
    async with scripted(ScriptedBroker(script=lambda *_: None)) as cluster:
        async with Client(ClientSettings(nameservers=cluster.nameserver)) as client:
            producer = Producer(client=client, group="g")
            await producer.open()
            sending = producer.send_nowait(Message("T", b"1"))
            await until(lambda: cluster.sends)
            closing = asyncio.ensure_future(producer.close())
            await asyncio.sleep(0)
            await cancelled(closing, lambda: True)
            assert not client._roles
            with pytest.raises(ClientClosedError):
                await sending


async def test_a_broker_with_a_nonsense_address_keeps_no_heartbeat_from_the_others() -> None:
    async with scripted(ScriptedBroker()) as cluster:
        nonsense = BrokerData(cluster="C", broker_name="broker-x", broker_addrs={0: "no-port-at-all"})
        route = cluster.names.routes["T"]
        cluster.names.routes["T"] = type(route)(
            broker_datas=(nonsense, *route.broker_datas), queue_datas=route.queue_datas
        )
        settings = ClientSettings(nameservers=cluster.nameserver, heartbeat_ms=20)
        async with Producer(group="g", client_settings=settings) as producer:
            await producer.send(Message("T", b"1"))
            (broker,) = cluster.brokers
            before = broker.codes.count(Code.HEART_BEAT)
            await until(lambda: broker.codes.count(Code.HEART_BEAT) > before + 3, "heartbeats go on")


async def test_a_queue_whose_orderly_listener_is_still_busy_stays_locked_when_its_consumer_closes() -> None:
    release, begun = threading.Event(), threading.Event()

    def hold(message: ReceivedMessage) -> None:
        begun.set()
        release.wait(60)

    async with scripted_queues(GROUP, queues=2) as broker:
        broker.put(b"0")
        member = quick_consumer(broker, hold, orderly=True, close_timeout_ms=50)
        async with member:
            await until(lambda: begun.is_set() and len(broker.locks) == 3)
        await until(lambda: set(broker.locks) == {QUEUE}, "another owner must wait until the lock runs out")
        release.set()
