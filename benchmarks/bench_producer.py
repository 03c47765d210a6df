"""Producers over loopback sockets: client CPU of sending 1 KiB, the servers in a process of their own.

The broker there answers at once, without a store: rates are what a client could do, not what a broker does. CPU is
that of the client's process: message, id, properties, frame, future, system calls, answer, receipt. Each line is
measured with the compiled core and without, in turns (``modes``).
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from benchmarks.measure import Row, measure
from benchmarks.modes import in_both_modes
from pyromq import aio
from pyromq.client.core.received_message import split_messages
from pyromq.client.sync import faces
from pyromq.clock import SystemClock
from pyromq.model.message import Message
from pyromq.model.route import BrokerData, QueueData, TopicRoute
from pyromq.net import Address, Connection, Handler, Server
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_response
from pyromq.wire.headers.producer import SendResponseHeader
from pyromq.wire.json.route import encode_route
from pyromq.wire.received import Received
from pyromq.wire.record import Draft, encode_record

SENDS = 20_000
BODY = b"x" * 1024
LOOPS: tuple[tuple[str, Callable[[], asyncio.AbstractEventLoop]], ...] = (
    ("uvloop", uvloop.new_event_loop),
    ("asyncio", asyncio.new_event_loop),
)
SENT = SendResponseHeader(
    msg_id="7F00000100002A9F0000000000001000",
    queue_id=0,
    queue_offset=7,
    transaction_id="7F000001251A3A122C29493E92150000",
    region="DefaultRegion",
    trace_on="true",
)
BATCH = 32
BATCH_SENT = SendResponseHeader(msg_id=",".join([SENT.msg_id] * BATCH), queue_id=0, queue_offset=7)


class Servers(Handler):
    """A name server and a broker at one address."""

    route = b""

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for request in requests:
            if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
                connection.send(encode_response(0, request.correlation_id, body=self.route))
            elif request.code == RequestCode.SEND_BATCH_MESSAGE:
                connection.send(encode_response(0, request.correlation_id, BATCH_SENT))
            else:
                connection.send(encode_response(0, request.correlation_id, SENT))


async def serve() -> None:
    servers = Servers()
    async with Server(servers, [Address("127.0.0.1", 0)], clock=SystemClock()) as server:
        broker = BrokerData(cluster="C", broker_name="broker-a", broker_addrs={0: str(server.addresses[0])})
        queues = QueueData(broker_name="broker-a", read_queue_nums=4, write_queue_nums=4, perm=6)
        servers.route = encode_route(TopicRoute(broker_datas=(broker,), queue_datas=(queues,)), strict=True)
        print(server.addresses[0], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def servers() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.bench_producer", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate("")


def rows() -> list[Row]:
    return in_both_modes("producer")


def rows_of_one_mode() -> list[Row]:
    with servers() as address:
        found = [
            _sent(f"{name}, {outstanding} awaiting coroutines", new_loop, address, outstanding)
            for name, new_loop in LOOPS
            for outstanding in (64, 1)
        ]
        found.append(_begun("uvloop, send_nowait, 64 at a time", address))
        found.append(_batched("uvloop, send_batch of 32", address))
        found += [_sync(f"sync face, {threads} thread(s)", address, threads) for threads in (1, 8)]
    found.append(_split("taking a pull response of 32 apart"))
    return found


def _sent(name: str, new_loop: Callable[[], asyncio.AbstractEventLoop], address: str, outstanding: int) -> Row:
    total = SENDS if outstanding > 1 else SENDS // 8

    async def main() -> int:
        async with aio.Producer(address, group="makers") as producer:
            await producer.send(Message("T", BODY))

            async def send() -> None:
                for _ in range(total // outstanding):
                    await producer.send(Message("T", BODY))

            await asyncio.gather(*(send() for _ in range(outstanding)))
        return total

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return measure(name, lambda: runner.run(main()), bytes_per_operation=len(BODY))


def _begun(name: str, address: str) -> Row:
    async def main() -> int:
        async with aio.Producer(address, group="makers") as producer:
            await producer.send(Message("T", BODY))
            for _ in range(SENDS // 64):
                begun = [producer.send_nowait(Message("T", BODY)) for _ in range(64)]
                await asyncio.gather(*begun)
        return SENDS

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return measure(name, lambda: runner.run(main()), bytes_per_operation=len(BODY))


def _batched(name: str, address: str) -> Row:
    async def main() -> int:
        async with aio.Producer(address, group="makers") as producer:
            for _ in range(SENDS // BATCH):
                await producer.send_batch([Message("T", BODY) for _ in range(BATCH)])
        return SENDS // BATCH * BATCH

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return measure(name, lambda: runner.run(main()), bytes_per_operation=len(BODY))


def _sync(name: str, address: str, count: int) -> Row:
    total = SENDS // 8

    def run() -> int:
        with faces.Producer(address, group="makers") as producer:

            def send() -> None:
                for _ in range(total // count):
                    producer.send(Message("T", BODY))

            threads = [threading.Thread(target=send) for _ in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return total

    return measure(name, run, bytes_per_operation=len(BODY))


def _split(name: str) -> Row:
    properties = b"UNIQ_KEY\x017F000001251A3A122C29493E92150000\x02TAGS\x01a\x02"
    draft = Draft(topic="T", queue_id=1, body=BODY, properties=properties)
    host = b"\x7f\0\0\1\0\0\x2a\x9f"
    response = b"".join(
        encode_record(draft, offset=n, position=n * 1200, stored_ms=1, store_host=host) for n in range(32)
    )

    def run() -> int:
        for _ in range(1_000):
            split_messages(response, "broker-a")
        return 32_000

    return measure(name, run, bytes_per_operation=len(BODY))


if __name__ == "__main__" and sys.argv[1:] == ["serve"]:
    uvloop.run(serve())
