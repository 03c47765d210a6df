"""Producers against a real name server and broker on loopback, and against scripted ones for what those never do."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import pyromq
from pyromq import aio
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.client.core.broker_health import TABLE_5
from pyromq.errors import (
    BrokerError,
    ClientClosedError,
    ConnectFailedError,
    MessageRefusedError,
    MessageTooLargeError,
    NameServersUnreachableError,
    NoPermissionError,
    NoReplyError,
    NotFoundError,
    NoWritableQueueError,
    RequestTimeoutError,
    SendFailedError,
    ServiceNotAvailableError,
    TopicNotFoundError,
)
from pyromq.hooks import SendHook
from pyromq.model.message import Message, SendReceipt, SendStatus
from pyromq.model.queue import QueueId
from pyromq.model.topic import Perm
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net import TooManyRequestsError
from pyromq.settings import ClientSettings, Compression, ProducerSettings, TlsSettings
from pyromq.testing.loopback import SMALL_FILES, LoopbackBroker
from pyromq.wire.codes import RequestCode as Code
from pyromq.wire.signature import verify
from tests.integration.both_loops import Run
from tests.integration.certificates import make_certificate
from tests.integration.scripted_broker import ScriptedBroker, scripted
from tests.integration.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.integration, pytest.mark.both_modes]

QUICK = ProducerSettings(timeout_ms=10_000)


# --- against a real broker ---


def test_a_new_topic_is_created_by_its_first_message_and_fills_all_queues(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Producer(broker.nameserver, group="g") as producer:
            first = await producer.send(Message("orders", b"first", tags="t", keys="k1 k2", properties={"a": "b"}))
            assert first.status is SendStatus.SEND_OK
            await send_until_routed(producer, "orders")
            receipts = [await producer.send(Message("orders", str(n).encode())) for n in range(8)]
            assert {receipt.queue.number for receipt in receipts} == {0, 1, 2, 3}
            assert len({receipt.message_id for receipt in receipts}) == 8
            async with aio.Admin(broker.nameserver) as admin:
                message = await admin.messages.at(first.queue, first.offset)
        assert (message.topic, message.body, message.tags, message.keys) == ("orders", b"first", "t", ("k1", "k2"))
        assert message.properties["a"] == "b"
        assert message.message_id == first.message_id
        assert message.offset_message_id == first.offset_message_id
        assert message.queue == first.queue

    run(main())


def test_many_sends_at_once_all_get_their_own_receipt(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Producer(broker.nameserver, group="g") as producer:
            await producer.send(Message("orders", b"first"))
            receipts = await asyncio.gather(*(producer.send(Message("orders", b"%d" % n)) for n in range(500)))
            places = {(receipt.queue, receipt.offset) for receipt in receipts}
            assert len(places) == len({receipt.message_id for receipt in receipts}) == 500
            begun = [producer.send_nowait(Message("orders", b"x")) for _ in range(300)]
            assert len({(r.queue, r.offset) for r in await asyncio.gather(*begun)} | places) == 800

    run(main())


def test_messages_with_one_sharding_key_are_in_order_in_one_queue(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Producer(broker.nameserver, group="g") as producer:
            await producer.send(Message("orders", b"first"))
            receipts = [await producer.send(Message("orders", b"x", sharding_key="customer-7")) for _ in range(5)]
            assert len({receipt.queue for receipt in receipts}) == 1
            offsets = [receipt.offset for receipt in receipts]
            assert offsets == list(range(offsets[0], offsets[0] + 5))
            fixed = await producer.send(Message("orders", b"x"), queue=receipts[0].queue)
            assert fixed.queue == receipts[0].queue
            last = await producer.send(Message("orders", b"x"), selector=lambda message, queues: queues[-1])
            assert last.queue.number == 3
            with pytest.raises(MessageRefusedError, match="cannot go to a queue of orders"):
                await producer.send(Message("bills", b"x"), queue=fixed.queue)

    run(main())


def test_large_bodies_travel_compressed_and_come_back_whole(run: Run) -> None:
    async def main() -> None:
        body = b"the same again " * 20_000
        async with LoopbackBroker() as broker:
            for compression in Compression:
                settings = ProducerSettings(compression=compression)
                async with aio.Producer(broker.nameserver, settings=settings, group="g") as producer:
                    receipt = await producer.send(Message("orders", body))
                async with aio.Admin(broker.nameserver) as admin:
                    message = await admin.messages.at(receipt.queue, receipt.offset)
                    assert message.body == body
                    assert (message.size_bytes < 20_000) == (compression is not Compression.NONE)

    run(main())


def test_a_batch_is_split_where_it_must_be_and_every_message_has_its_receipt(run: Run) -> None:
    async def main() -> None:
        settings = ProducerSettings(body_bytes_max=10_000)
        async with (
            LoopbackBroker() as broker,
            aio.Producer(broker.nameserver, settings=settings, group="g") as producer,
        ):
            messages = [Message("orders", b"%04d" % n * 250, keys=f"n{n}") for n in range(25)]
            receipts = await producer.send_batch(messages)
            assert len({receipt.offset_message_id for receipt in receipts}) == 25
            async with aio.Admin(broker.nameserver) as admin:
                for n in (0, 8, 9, 24):
                    message = await admin.messages.at(receipts[n].queue, receipts[n].offset)
                    assert message.body == messages[n].body
                    assert message.message_id == receipts[n].message_id
            with pytest.raises(MessageTooLargeError):
                await producer.send_batch([Message("orders", b"x"), Message("orders", b"x" * 20_000)])

    run(main())


def test_what_needs_no_response_is_stored_all_the_same(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Producer(broker.nameserver, group="g") as producer:
            for _ in range(10):
                await producer.send_oneway(Message("orders", b"x"))
            async with aio.Admin(broker.nameserver) as admin:

                async def stored() -> int:
                    return sum(queue.max_offset for queue in (await admin.topics.stats("orders")).values())

                async with asyncio.timeout(60):
                    while await stored() < 10:  # noqa: ASYNC110 - the broker tells nobody
                        await asyncio.sleep(0.01)

    run(main())


def test_brokers_know_the_producer_before_its_first_message_and_forget_it_after_its_last(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Admin(broker.nameserver) as admin:
            async with aio.Producer(broker.nameserver, group="billing") as producer:
                await producer.send(Message("orders", b"x"))
                connections = await admin.members.producers_of("billing")
                assert [connection.client_id for connection in connections] == [producer.client.id]
                assert connections[0].language == "PYTHON"
            assert await admin.members.producers_of("billing") == ()

    run(main())


def test_sends_resume_when_a_broker_comes_back_on_the_same_port(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with NameServer(NameServerSettings(port=0)) as names:
            nameserver = str(names.address)
            settings = BrokerSettings(port=0, nameservers=(nameserver,), store=SMALL_FILES)
            broker = Broker(settings, tmp_path)
            await broker.start()
            again = BrokerSettings(
                port=broker.address.port, vip_port=False, nameservers=(nameserver,), store=SMALL_FILES
            )
            stored: list[SendReceipt] = []
            stop = asyncio.Event()

            async def load(producer: aio.Producer) -> None:
                while not stop.is_set():
                    stored.append(await producer.send(Message("orders", b"x"), timeout_ms=10_000))

            async with aio.Producer(nameserver, group="g") as producer:
                senders = [asyncio.ensure_future(load(producer)) for _ in range(16)]
                await until(lambda: len(stored) > 200)
                await broker.stop()
                await asyncio.sleep(0.3)
                before = len(stored)
                broker = Broker(again, tmp_path)
                await broker.start()
                await until(lambda: len(stored) > before + 200)
                stop.set()
                await asyncio.gather(*senders)
            assert len({(receipt.queue, receipt.offset) for receipt in stored}) == len(stored)
            await broker.stop()

    run(main())


def test_sends_follow_a_broker_to_another_port(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with NameServer(NameServerSettings(port=0)) as names:
            settings = BrokerSettings(port=0, nameservers=(str(names.address),), store=SMALL_FILES)
            async with aio.Producer(str(names.address), group="g") as producer:
                async with Broker(settings, tmp_path) as broker:
                    first = broker.address
                    await send_until_routed(producer, "orders")
                sending = asyncio.ensure_future(producer.send(Message("orders", b"y"), timeout_ms=10_000))
                await asyncio.sleep(0.2)
                async with Broker(settings, tmp_path) as broker:
                    assert broker.address != first
                    assert (await sending).status is SendStatus.SEND_OK

    run(main())


BROKER_PROCESS = """
import asyncio, sys
from pathlib import Path
from pyromq.broker.broker import Broker
from pyromq.broker.base.settings import BrokerSettings
from pyromq.testing.loopback import SMALL_FILES

async def main(nameserver, port, folder):
    settings = BrokerSettings(port=int(port), vip_port=False, nameservers=(nameserver,), store=SMALL_FILES)
    async with Broker(settings, Path(folder)) as broker:
        print(broker.address.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def start_broker(nameserver: str, port: int, folder: Path) -> tuple[asyncio.subprocess.Process, int]:
    arguments = ("-c", BROKER_PROCESS, nameserver, str(port), str(folder))
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    return process, int(await process.stdout.readline())


def test_a_killed_broker_costs_no_receipt_and_sends_go_on_after_it_is_back(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        bodies: dict[str, bytes] = {}
        receipts: list[SendReceipt] = []
        stop = asyncio.Event()

        async def load(producer: aio.Producer, name: int) -> None:
            while not stop.is_set():
                body = f"{name}-{len(receipts)}".encode()
                try:
                    receipt = await producer.send(Message("orders", body), timeout_ms=10_000)
                except SendFailedError as error:
                    assert error.maybe_stored
                else:
                    bodies[receipt.message_id] = body
                    receipts.append(receipt)

        async with NameServer(NameServerSettings(port=0)) as names, AsyncExitStack() as stack:
            nameserver = str(names.address)
            process, port = await start_broker(nameserver, 0, tmp_path)
            producer = await stack.enter_async_context(aio.Producer(nameserver, group="g"))
            admin = await stack.enter_async_context(aio.Admin(nameserver))
            senders = [asyncio.ensure_future(load(producer, name)) for name in range(16)]
            await until(lambda: len(receipts) > 300)
            process.kill()
            await process.wait()
            before = len(receipts)
            process, _ = await start_broker(nameserver, port, tmp_path)
            await until(lambda: len(receipts) > before + 300)
            stop.set()
            await asyncio.gather(*senders)
            for receipt in receipts:
                message = await admin.messages.at(receipt.queue, receipt.offset)
                assert (message.message_id, message.body) == (receipt.message_id, bodies[receipt.message_id])
            process.terminate()
            await process.wait()

    run(main())


# --- no route: three different texts ---


def test_without_a_name_server_the_error_names_the_addresses_that_were_tried(run: Run) -> None:
    async def main() -> None:
        async with aio.Producer("127.0.0.1:1;127.0.0.1:2", group="g") as producer:
            with pytest.raises(NameServersUnreachableError, match="Is one running") as caught:
                await producer.send(Message("orders", b"x"))
            assert {address for address, _ in caught.value.failures} == {"127.0.0.1:1", "127.0.0.1:2"}

    run(main())


def test_a_topic_that_must_not_be_created_is_reported_as_unknown(run: Run) -> None:
    async def main() -> None:
        settings = BrokerSettings(auto_create_topics=False, store=SMALL_FILES)
        async with LoopbackBroker(settings) as broker, aio.Producer(broker.nameserver, group="g") as producer:
            with pytest.raises(TopicNotFoundError, match=r"no broker has topic orders.*create it first"):
                await producer.send(Message("orders", b"x"))

    run(main())


def test_where_no_broker_is_registered_that_is_what_the_error_says(run: Run) -> None:
    async def main() -> None:
        async with NameServer(NameServerSettings(port=0)) as server:
            async with aio.Producer(str(server.address), group="g") as producer:
                with pytest.raises(TopicNotFoundError, match="no broker is registered with the name servers"):
                    await producer.send(Message("orders", b"x"))

    run(main())


def test_a_topic_without_the_right_to_write_says_which_broker_refuses(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Admin(broker.nameserver) as admin:
            await admin.topics.create("archive", perm=Perm.READ)
            async with aio.Producer(broker.nameserver, group="g") as producer:
                with pytest.raises(NoWritableQueueError, match=r"broker-a does not allow writing \(perm 4\)"):
                    await producer.send(Message("archive", b"x"))

    run(main())


# --- against scripted brokers ---


def test_a_refusal_that_may_pass_is_tried_on_another_broker(run: Run) -> None:
    async def main() -> None:
        busy, fine = ScriptedBroker("a", lambda *_: 2), ScriptedBroker("b")
        async with (
            scripted(busy, fine) as cluster,
            aio.Producer(cluster.nameserver, settings=QUICK, group="g") as producer,
        ):
            receipts = [await producer.send(Message("T", b"x")) for _ in range(6)]
            assert {receipt.queue.broker for receipt in receipts} == {"b"}
            assert 1 <= len(busy.sends) <= 6

    run(main())


def test_all_attempts_are_in_the_error_and_no_more_than_three_reach_brokers(run: Run) -> None:
    async def main() -> None:
        brokers = ScriptedBroker("a", lambda *_: 1), ScriptedBroker("b", lambda *_: 1)
        async with (
            scripted(*brokers) as cluster,
            aio.Producer(cluster.nameserver, settings=QUICK, group="g") as producer,
        ):
            with pytest.raises(SendFailedError, match="scripted 1") as caught:
                await producer.send(Message("T", b"x"))
            assert cluster.sends == 3
            assert [attempt.broker for attempt in caught.value.attempts] in (["a", "b", "a"], ["b", "a", "b"])
            assert isinstance(caught.value.__cause__, BrokerError)
            assert not caught.value.maybe_stored

    run(main())


@pytest.mark.parametrize("key", ["", "customer-7"])
def test_a_broker_that_stops_is_waited_for_until_the_time_is_up(run: Run, key: str) -> None:
    """Code 14: nothing was stored, so order does not suffer and there is no second copy."""

    async def main() -> None:
        broker = ScriptedBroker("a")
        broker.script = lambda *_: 14 if len(broker.sends) <= 6 else 0
        async with scripted(broker) as cluster, aio.Producer(cluster.nameserver, group="g") as producer:
            receipt = await producer.send(Message("T", b"x", sharding_key=key), timeout_ms=20_000)
            assert receipt.status is SendStatus.SEND_OK and cluster.sends == 7
            broker.script = lambda *_: 14
            with pytest.raises(SendFailedError, match="scripted 14") as caught:
                await producer.send(Message("T", b"x", sharding_key=key), timeout_ms=300)
            assert isinstance(caught.value.__cause__, ServiceNotAvailableError)
            assert not caught.value.maybe_stored

    run(main())


def test_send_and_send_nowait_have_retries_of_their_own(run: Run) -> None:
    async def main() -> None:
        async with scripted(ScriptedBroker("a", lambda *_: 1)) as cluster:
            async with aio.Producer(cluster.nameserver, group="g", retries=2, nowait_retries=0) as producer:
                for known in (False, True):  # by the slow path, then by the fast one
                    before = cluster.sends
                    with pytest.raises(SendFailedError):
                        await producer.send_nowait(Message("T", b"x"))
                    assert cluster.sends - before == 1, known
                before = cluster.sends
                with pytest.raises(SendFailedError):
                    await producer.send(Message("T", b"x"))
                assert cluster.sends - before == 3

    run(main())


def test_send_nowait_goes_to_the_queue_that_was_chosen(run: Run) -> None:
    def last(message: Message, queues: Sequence[QueueId]) -> QueueId:
        return queues[-1]

    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Producer(broker.nameserver, group="g") as producer:
            first = (await producer.send("T", "x")).queue
            begun = [producer.send_nowait("T", "x", queue=first) for _ in range(5)]
            assert {receipt.queue for receipt in await asyncio.gather(*begun)} == {first}
            begun = [producer.send_nowait(Message("T", b"x"), selector=last) for _ in range(5)]
            assert {receipt.queue.number for receipt in await asyncio.gather(*begun)} == {3}
            with pytest.raises(MessageRefusedError, match="cannot go to a queue of other"):
                await producer.send_nowait("T", "x", queue=QueueId("other", "broker-a", 0))

    run(main())
    with LoopbackBroker() as broker, pyromq.Producer(broker.nameserver, group="g") as producer:
        first = producer.send("T", "x").queue
        assert {producer.send_nowait("T", "x", queue=first).result().queue for _ in range(5)} == {first}
        assert {producer.send_nowait("T", "x", selector=last).result().queue.number for _ in range(5)} == {3}


def test_order_is_not_promised_where_it_cannot_be_kept(run: Run) -> None:
    async def main() -> None:
        async with scripted(ScriptedBroker("a")) as cluster, aio.Producer(cluster.nameserver, group="g") as producer:
            with pytest.raises(MessageRefusedError, match="send_nowait cannot keep the order"):
                producer.send_nowait(Message("T", b"x", sharding_key="k"))
            with pytest.raises(MessageRefusedError, match="retry topic"):
                await producer.send_batch([Message("%RETRY%g", b"x")])
            assert cluster.sends == 0
        async with LoopbackBroker() as broker:

            def in_thread() -> SendReceipt:
                with pyromq.Producer(broker.nameserver, group="g") as producer:
                    with pytest.raises(MessageRefusedError, match="send_nowait cannot keep the order"):
                        producer.send_nowait(Message("T", b"x", sharding_key="k")).result()
                    return producer.send(Message("T", b"x", sharding_key="k"))

            assert (await asyncio.to_thread(in_thread)).status is SendStatus.SEND_OK

    run(main())


def test_a_refusal_that_will_not_pass_is_not_repeated(run: Run) -> None:
    async def main() -> None:
        async with scripted(ScriptedBroker("a", lambda *_: 13)) as cluster:
            async with aio.Producer(cluster.nameserver, settings=QUICK, group="g") as producer:
                with pytest.raises(SendFailedError) as caught:
                    await producer.send(Message("T", b"x"))
                assert isinstance(caught.value.attempts[0].error, BrokerError)
                assert cluster.sends == 1

    run(main())


def test_a_delay_that_is_too_long_is_refused_as_such(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Producer(broker.nameserver, group="g") as producer:
            text = r"refused by broker-a: the message is due in 60\.0 days; at most 40 days are allowed"
            with pytest.raises(SendFailedError, match=text) as caught:
                await producer.send(Message("orders", b"x", delay=timedelta(days=60)))
            assert not caught.value.maybe_stored

    run(main())


def test_silence_ends_with_the_time_and_leaves_doubt(run: Run) -> None:
    async def main() -> None:
        async with scripted(ScriptedBroker("a", lambda *_: None)) as cluster:
            async with aio.Producer(cluster.nameserver, group="g") as producer:
                started = time.monotonic()
                with pytest.raises(SendFailedError, match="may be stored all the same") as caught:
                    await producer.send(Message("T", b"x"), timeout_ms=300)
                assert time.monotonic() - started > 0.25
                assert isinstance(caught.value.__cause__, RequestTimeoutError)
                with pytest.raises(SendFailedError):
                    await producer.send_nowait(Message("T", b"x"), timeout_ms=100)

    run(main())


def test_an_attempt_with_its_own_limit_leaves_time_for_another_broker(run: Run) -> None:
    async def main() -> None:
        silent, fine = ScriptedBroker("a", lambda *_: None), ScriptedBroker("b")
        settings = ProducerSettings(timeout_ms=5_000, attempt_timeout_ms=100)
        async with (
            scripted(silent, fine) as cluster,
            aio.Producer(cluster.nameserver, settings=settings, group="g") as producer,
        ):
            receipts = [await producer.send(Message("T", b"x")) for _ in range(4)]
            assert {receipt.queue.broker for receipt in receipts} == {"b"}

    run(main())


def test_a_message_bound_to_its_queue_is_not_sent_twice(run: Run) -> None:
    async def main() -> None:
        async with scripted(ScriptedBroker("a", lambda *_: 2), ScriptedBroker("b", lambda *_: 2)) as cluster:
            async with aio.Producer(cluster.nameserver, settings=QUICK, group="g") as producer:
                with pytest.raises(SendFailedError):
                    await producer.send(Message("T", b"x", sharding_key="k"))
                assert cluster.sends == 1

    run(main())


def test_a_broker_that_says_go_away_is_reconnected(run: Run) -> None:
    async def main() -> None:
        broker = ScriptedBroker("a")
        broker.script = lambda connection, request: 1500 if connection is broker.connections[0] else 0
        async with (
            scripted(broker) as cluster,
            aio.Producer(cluster.nameserver, settings=QUICK, group="g") as producer,
        ):
            assert (await producer.send(Message("T", b"x"))).status is SendStatus.SEND_OK
            assert len(broker.connections) == 2

    run(main())


@pytest.mark.parametrize(
    ("code", "status", "on_disk"),
    [
        (0, SendStatus.SEND_OK, None),
        (10, SendStatus.FLUSH_DISK_TIMEOUT, False),
        (11, SendStatus.SLAVE_NOT_AVAILABLE, None),
        (12, SendStatus.FLUSH_SLAVE_TIMEOUT, None),
    ],
)
def test_a_receipt_tells_how_safe_the_message_is(run: Run, code: int, status: SendStatus, on_disk: bool | None) -> None:
    async def main() -> None:
        async with scripted(ScriptedBroker("a", lambda *_: code)) as cluster:
            async with aio.Producer(cluster.nameserver, settings=QUICK, group="g") as producer:
                for _ in range(2):  # the long way, then the short one
                    receipt = await producer.send(Message("T", b"x"))
                    assert (receipt.status, receipt.on_disk, receipt.offset) == (status, on_disk, 7)

    run(main())


def test_an_unsafe_receipt_is_not_taken_when_told_so(run: Run) -> None:
    async def main() -> None:
        settings = ProducerSettings(retry_unless_ok=True)
        async with scripted(ScriptedBroker("a", lambda *_: 12)) as cluster:
            async with aio.Producer(cluster.nameserver, settings=settings, group="g") as producer:
                receipt = await producer.send(Message("T", b"x"))
                assert receipt.status is SendStatus.FLUSH_SLAVE_TIMEOUT
                assert cluster.sends == 3

    run(main())


def test_a_slow_broker_is_avoided_when_told_so(run: Run) -> None:
    async def main() -> None:
        slow = ScriptedBroker("a")

        def later(connection: Any, request: Any) -> None:
            asyncio.get_running_loop().call_later(0.1, slow.answer, connection, request, 0)

        slow.script = later
        table = type(TABLE_5)((50,), (60_000,), failure_ms=1_000)
        settings = ProducerSettings(latency_fault=True, latency_table=table)
        async with scripted(slow, ScriptedBroker("b")) as cluster:
            async with aio.Producer(cluster.nameserver, settings=settings, group="g") as producer:
                for _ in range(10):
                    await producer.send(Message("T", b"x"))
        assert len(slow.sends) == 1

    run(main())


def test_an_ordered_topic_keeps_the_places_of_queues_whose_broker_is_gone(run: Run) -> None:
    async def main() -> None:
        async with scripted(ScriptedBroker("a")) as cluster:
            cluster.names.routes["T"] = structs.replace(cluster.names.routes["T"], order_topic_conf="a:1;gone:1")
            async with aio.Producer(cluster.nameserver, settings=QUICK, group="g") as producer:
                receipts = [await producer.send(Message("T", b"x")) for _ in range(4)]
                assert {receipt.queue for receipt in receipts} == {QueueId("T", "a", 0)}
                for key in ("a", "b", "c", "d"):
                    with suppress(SendFailedError):
                        await producer.send(Message("T", b"x", sharding_key=key), timeout_ms=100)
                assert 4 < cluster.sends < 8  # some keys belong to the queue that cannot be reached now

    run(main())


def test_requests_are_signed_with_the_credentials(run: Run) -> None:
    async def main() -> None:
        broker = ScriptedBroker("a")
        settings = ClientSettings(credentials=aio.Credentials("key", "secret"))
        async with scripted(broker) as cluster:
            async with aio.Producer([cluster.nameserver], client_settings=settings, group="g") as producer:
                for _ in range(2):
                    await producer.send(Message("T", b"x"))
        for request in broker.sends:
            assert request.ext()["AccessKey"] == "key"
            assert verify(request.ext(), request.body, "secret")

    run(main())


def test_a_namespace_is_added_to_names_on_the_wire(run: Run) -> None:
    async def main() -> None:
        broker = ScriptedBroker("a")
        settings = ClientSettings(namespace="MQ_INST_1")
        async with scripted(broker, topics=("MQ_INST_1%T",)) as cluster:
            async with aio.Producer(cluster.nameserver, group="g", client_settings=settings) as producer:
                for _ in range(2):
                    await producer.send(Message("T", b"x"))
        assert {request.header.topic for request in broker.sends} == {"MQ_INST_1%T"}
        assert {request.header.producer_group for request in broker.sends} == {"MQ_INST_1%g"}
        assert "INSTANCE_ID\x01MQ_INST_1\x02" in broker.sends[0].header.properties

    run(main())


def test_a_heartbeat_comes_before_the_first_message_and_a_farewell_after_the_last(run: Run) -> None:
    async def main() -> None:
        broker = ScriptedBroker("a")
        async with scripted(broker) as cluster:
            async with aio.Producer(cluster.nameserver, group="g") as producer:
                await producer.send(Message("T", b"x"))
                await producer.client.heartbeat_now()
            assert broker.codes == [Code.HEART_BEAT, Code.SEND_MESSAGE_V2, Code.HEART_BEAT, Code.UNREGISTER_CLIENT]

    run(main())


def test_a_request_gets_the_reply_of_its_consumer(run: Run) -> None:
    async def main() -> None:
        broker = ScriptedBroker("a")

        def script(connection: Any, request: Any) -> int:
            if request.code == Code.SEND_REPLY_MESSAGE_V2:
                broker.push_reply(request, to=broker.connections[0])
            return 0

        broker.script = script
        async with scripted(broker, topics=("T", "C_REPLY_TOPIC")) as cluster:
            async with (
                aio.Producer(cluster.nameserver, group="g") as asker,
                aio.Producer(cluster.nameserver, group="g") as answerer,
            ):

                async def answer() -> None:
                    await until(lambda: bool(broker.sends))
                    await answerer.reply(as_received(broker.sends[0], cluster="C"), b"pong")

                answering = asyncio.ensure_future(answer())
                reply = await asker.request(Message("T", b"ping"), timeout_ms=5_000)
                assert reply.body == b"pong"
                assert reply.get("MSG_TYPE") == "reply"
                await answering
                broker.script = lambda *_: 0
                with pytest.raises(NoReplyError):
                    await asker.request(Message("T", b"ping"), timeout_ms=100)
                with pytest.raises(MessageRefusedError, match="is no request"):
                    await answerer.reply(reply_without_asker(), b"pong")

    run(main())


def test_a_real_broker_brings_the_reply_to_its_request(run: Run) -> None:
    async def main() -> None:
        async with LoopbackBroker() as broker, aio.Admin(broker.nameserver) as admin:
            await admin.topics.create("questions", queues=1)
            async with (
                aio.Producer(broker.nameserver, group="a") as asker,
                aio.Producer(broker.nameserver, group="g") as answerer,
            ):
                asking = asyncio.ensure_future(asker.request(Message("questions", b"ping"), timeout_ms=10_000))
                request = await first_message(admin, QueueId("questions", "broker-a", 0))
                await answerer.reply(request, request.body + b" pong")
                assert (await asking).body == b"ping pong"

    run(main())


def test_everything_may_travel_under_tls(run: Run, tmp_path: Path) -> None:
    ours = make_certificate(tmp_path, "mq", "mq.example")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*ours)

    async def main() -> None:
        async with scripted(ScriptedBroker("a"), tls_context=server) as cluster:
            for tls in (TlsSettings(ca_file=ours.file, hostname="mq.example"), TlsSettings(verify=False)):
                settings = ClientSettings(nameservers=cluster.nameserver, tls=tls)
                async with aio.Producer(client_settings=settings, group="g") as producer:
                    await producer.send(Message("T", b"x"))
            for wrong in (TlsSettings(ca_file=ours.file), TlsSettings(), None):
                settings = ClientSettings(nameservers=cluster.nameserver, tls=wrong, request_timeout_ms=500)
                async with aio.Producer(client_settings=settings, group="g") as producer:
                    with pytest.raises(NameServersUnreachableError):
                        await producer.send(Message("T", b"x"))

    run(main())


def test_hooks_see_every_send_and_may_forbid_one(run: Run) -> None:
    async def main() -> None:
        seen: list[tuple[Any, ...]] = []

        class Policy(SendHook):
            def before_send(self, message: Message) -> None:
                if message.tags == "secret":
                    raise NoPermissionError(code=16, remark="not this one")

            def after_send(self, message: Message, receipt: Any, error: Any, elapsed_ms: int) -> None:
                seen.append((message.body, receipt is not None, type(error).__name__))
                raise RuntimeError("a mistake of the hook")

        async with scripted(ScriptedBroker("a", lambda c, r: 13 if r.body == b"bad" else 0)) as cluster:
            async with aio.Producer(cluster.nameserver, hooks=[Policy()], group="g") as producer:
                await producer.send(Message("T", b"good"))
                with pytest.raises(SendFailedError):
                    await producer.send(Message("T", b"bad"))
                with pytest.raises(NoPermissionError):
                    await producer.send(Message("T", b"x", tags="secret"))
        assert seen == [(b"good", True, "NoneType"), (b"bad", False, "SendFailedError")]

    logging.getLogger("pyromq.client.core.hooks").disabled = True
    try:
        run(main())
    finally:
        logging.getLogger("pyromq.client.core.hooks").disabled = False


def test_too_many_unfinished_sends_are_refused_at_once(run: Run) -> None:
    async def main() -> None:
        settings = ProducerSettings(in_flight_max=3, timeout_ms=200)
        async with scripted(ScriptedBroker("a", lambda *_: None)) as cluster:
            async with aio.Producer(cluster.nameserver, settings=settings, group="g") as producer:
                begun = [producer.send_nowait(Message("T", b"x")) for _ in range(3)]
                with pytest.raises(TooManyRequestsError):
                    producer.send_nowait(Message("T", b"x"))
                outcomes = await asyncio.gather(*begun, return_exceptions=True)
                assert {type(outcome) for outcome in outcomes} == {SendFailedError}

    run(main())


def test_closing_waits_for_what_was_begun(run: Run) -> None:
    async def main() -> None:
        told: list[Any] = []
        async with LoopbackBroker() as broker:
            async with aio.Producer(broker.nameserver, group="g") as producer:
                begun = [
                    producer.send_nowait(Message("orders", b"x"), callback=lambda *outcome: told.append(outcome))
                    for _ in range(100)
                ]
            assert all(future.done() and future.exception() is None for future in begun)
            assert len(told) == 100 and all(error is None for _, error in told)
            with pytest.raises(ClientClosedError):
                await producer.send(Message("orders", b"x"))

    run(main())


def test_a_client_that_is_closed_ends_the_sends_of_all_its_producers(run: Run) -> None:
    async def main() -> None:
        async with scripted(ScriptedBroker("a", lambda *_: None)) as cluster:
            client = aio.Client(ClientSettings(nameservers=cluster.nameserver))
            await client.open()
            producer = aio.Producer(client=client, group="g")
            await producer.open()
            begun = [producer.send_nowait(Message("T", b"x"), timeout_ms=60_000)]
            await until(lambda: cluster.sends == 1)
            begun.append(producer.send_nowait(Message("T", b"x"), timeout_ms=60_000))
            begun.append(producer.send_nowait(Message("T2", b"x"), timeout_ms=60_000))  # its task has not begun
            await client.close()
            for outcome in await asyncio.wait_for(asyncio.gather(*begun, return_exceptions=True), PATIENCE_S):
                assert isinstance(outcome, ClientClosedError | SendFailedError)

    run(main())


def test_a_dead_broker_costs_the_time_of_the_send_and_nothing_was_stored(run: Run) -> None:
    async def main() -> None:
        async with scripted(ScriptedBroker("a")) as cluster:
            route = cluster.names.routes["T"]
            route.broker_datas[0].broker_addrs[0] = "127.0.0.1:1"
            async with aio.Producer(cluster.nameserver, group="g") as producer:
                with pytest.raises(SendFailedError) as caught:
                    await producer.send(Message("T", b"x"), timeout_ms=300)
                assert isinstance(caught.value.__cause__, ConnectFailedError)
                assert not caught.value.maybe_stored

    run(main())


# --- the sync face ---


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "pyromq-client"]


def test_the_sync_face_sends_from_many_threads() -> None:
    before = loop_threads()  # of a client that another test of this process has left open
    with LoopbackBroker() as broker, pyromq.Producer(broker.nameserver, group="g") as producer:
        receipts: list[SendReceipt] = []

        def work() -> None:
            receipts.extend(producer.send(Message("orders", b"x")) for _ in range(50))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({(receipt.queue, receipt.offset) for receipt in receipts}) == 400
        done = threading.Event()
        future = producer.send_nowait(Message("orders", b"x"), callback=lambda receipt, error: done.set())
        assert future.result(60).status is SendStatus.SEND_OK
        assert done.wait(60)
        assert len(producer.send_batch([Message("orders", b"x")] * 3)) == 3
        producer.send_oneway(Message("orders", b"x"))
        with pyromq.Admin(broker.nameserver) as admin:
            assert "orders" in admin.topics.names()
            assert admin.messages.get("orders", receipts[0].message_id).offset == receipts[0].offset
    assert loop_threads() == before


def test_sync_clients_may_share_one_client() -> None:
    with LoopbackBroker() as broker:
        settings = ClientSettings(nameservers=broker.nameserver)
        with pyromq.Client(settings) as client:
            with pyromq.Producer(client=client, group="a") as one, pyromq.Producer(client=client, group="b") as two:
                one.send(Message("orders", b"x"))
                two.send(Message("orders", b"x"))
                with pyromq.Admin(client=client) as admin:
                    assert len(admin.members.producers_of("a")) == len(admin.members.producers_of("b")) == 1


def test_ctrl_c_ends_a_sync_send_at_once() -> None:
    def interrupt(*_: object) -> None:  # the send has arrived, so its sender waits
        os.kill(os.getpid(), signal.SIGINT)

    broker = ScriptedBroker("a", interrupt)
    ready, stop = threading.Event(), threading.Event()
    where: list[str] = []

    async def serve() -> None:
        async with scripted(broker) as cluster:
            where.append(cluster.nameserver)
            ready.set()
            await asyncio.to_thread(stop.wait)

    server = threading.Thread(target=lambda: asyncio.run(serve()))
    server.start()
    ready.wait()
    try:
        with pyromq.Producer(where[0], group="g") as producer:
            with pytest.raises(KeyboardInterrupt):  # not SendFailedError, which comes when the time is over
                producer.send(Message("T", b"x"), timeout_ms=60_000)
    finally:
        stop.set()
        server.join()


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_to_open_its_own_producer() -> None:
    with LoopbackBroker() as broker, pyromq.Producer(broker.nameserver, group="g") as producer:
        producer.send(Message("orders", b"parent"))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                try:
                    producer.send(Message("orders", b"x"))
                except ClientClosedError as error:
                    assert "fork" in str(error)
                producer.close()
                with pyromq.Producer(broker.nameserver, group="g") as own:
                    own.send(Message("orders", b"child"))
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        producer.send(Message("orders", b"parent again"))


def test_a_closed_sync_producer_says_so() -> None:
    producer = pyromq.Producer("127.0.0.1:1", group="g")
    with pytest.raises(ClientClosedError, match="not open"):
        producer.send(Message("orders", b"x"))
    with producer, pytest.raises(NameServersUnreachableError):
        producer.send(Message("orders", b"x"))
    with pytest.raises(ClientClosedError):
        producer.send_batch([Message("orders", b"x")])


# --- helpers ---


async def first_message(admin: aio.Admin, queue: QueueId) -> aio.ReceivedMessage:
    while True:
        try:
            return await admin.messages.at(queue, 0)
        except NotFoundError:
            await asyncio.sleep(0.01)


async def send_until_routed(producer: aio.Producer, topic: str) -> None:
    """A new topic is known to name servers soon after its first message."""
    while producer.client.routes.known(topic) is None:
        await producer.send(Message(topic, b"x"))
        await asyncio.sleep(0.01)


def as_received(request: Any, *, cluster: str) -> aio.ReceivedMessage:
    """A message as a consumer would get it from the broker that took this send."""
    from pyromq.client.core.received_message import split_messages
    from pyromq.wire.record import Draft, encode_record

    properties = (request.header.properties + f"CLUSTER\x01{cluster}\x02").encode()
    draft = Draft(topic=request.header.topic, queue_id=0, body=request.body, properties=properties)
    host = b"\x7f\0\0\1\0\0\x2a\x9f"
    return split_messages(encode_record(draft, offset=0, position=0, stored_ms=1, store_host=host), "a")[0]


def reply_without_asker() -> aio.ReceivedMessage:
    class Header:
        topic, properties = "T", "UNIQ_KEY\x01A\x02"

    class Request:
        header, body = Header, b"x"

    return as_received(Request, cluster="C")
