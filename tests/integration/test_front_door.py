"""The first program of a newcomer: it runs as long as it should, and a wrong port is named as such."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading

import pytest

from pyromq import Admin, Message, Producer, PushConsumer, aio
from pyromq.errors import WrongServerError
from pyromq.testing import LoopbackBroker
from tests.integration.waiting import until

pytestmark = pytest.mark.integration

PROGRAM = """
import sys
from pyromq{face} import PushConsumer

{function} bill(message):
    print(message.body.decode(), flush=True)

consumer = PushConsumer(sys.argv[1], group="billing", listener=bill, topics="orders", start="earliest")
{run}
print("over", flush=True)
"""
SYNC = PROGRAM.format(face="", function="def", run="consumer.run()")
AIO = PROGRAM.format(face=".aio", function="async def", run="import asyncio; asyncio.run(consumer.run())")

UVLOOP = AIO.replace("asyncio", "uvloop")


def send(nameserver: str, *bodies: bytes) -> None:
    with Producer(nameserver, group="shop") as producer:
        for body in bodies:
            producer.send(Message("orders", body))


@pytest.mark.parametrize("program", [SYNC, AIO, UVLOOP], ids=["sync", "aio", "uvloop"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_ends_run_and_what_was_consumed_is_committed(program: str, number: signal.Signals) -> None:
    with LoopbackBroker() as broker, Admin(broker.nameserver) as admin:
        send(broker.nameserver, b"42")
        command = [sys.executable, "-c", program, broker.nameserver]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None and process.stdout.readline() == "42\n"
                process.send_signal(number)
                output, errors = process.communicate(timeout=90)
            finally:
                process.kill()
        assert (output, errors, process.returncode) == ("over\n", "", 0)
        progress = admin.groups.lag("billing", "orders").values()
        assert sum(queue.broker_offset - queue.consumer_offset for queue in progress) == 0


def test_run_ends_after_a_number_of_messages() -> None:
    seen: list[bytes] = []
    with LoopbackBroker() as broker:
        send(broker.nameserver, b"1", b"2", b"3")
        consumer = PushConsumer(
            broker.nameserver,
            group="billing",
            listener=lambda message: seen.append(message.body),
            topics=["orders"],
            start="earliest",
        )
        assert consumer.run(messages=3, timeout_ms=30_000) == 3
    assert sorted(seen) == [b"1", b"2", b"3"]


async def test_so_it_does_on_asyncio() -> None:
    async def bill(message: aio.ReceivedMessage) -> None: ...

    async with LoopbackBroker() as broker, aio.Producer(broker.nameserver, group="shop") as producer:
        await producer.send(Message("orders", b"42"))
        consumer = aio.PushConsumer(
            broker.nameserver, group="billing", listener=bill, topics="orders", start="earliest"
        )
        async with consumer:
            assert await consumer.run(messages=1, timeout_ms=30_000) == 1


def test_run_on_another_thread_ends_with_close() -> None:
    with LoopbackBroker() as broker:
        send(broker.nameserver, b"42")
        seen = threading.Event()
        consumer = PushConsumer(
            broker.nameserver, group="billing", listener=lambda message: seen.set(), topics="orders", start="earliest"
        )
        running = threading.Thread(target=consumer.run)
        running.start()
        assert seen.wait(30)
        consumer.close()
        running.join(30)
        assert not running.is_alive()


def test_the_address_of_a_broker_is_no_name_server() -> None:
    with LoopbackBroker() as broker:
        text = f"{broker.address} is a broker, not a name server; its name server usually listens on port 9876"
        with Producer(broker.address, group="shop") as producer, pytest.raises(WrongServerError, match=text):
            producer.send(Message("orders", b"42"))
        with Admin(broker.address) as admin, pytest.raises(WrongServerError, match=text):
            admin.brokers.cluster()


async def test_a_consumer_with_such_an_address_warns(caplog: pytest.LogCaptureFixture) -> None:
    async with LoopbackBroker() as broker:
        with caplog.at_level(logging.WARNING):
            async with aio.PushConsumer(broker.address, group="billing", listener=print, topics="orders"):
                await until(lambda: "is a broker, not a name server" in caplog.text)
