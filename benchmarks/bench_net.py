"""Connections over loopback sockets: a 1 KiB send request as the Java client writes it, and its response.

Client and server share this process and its loop, so CPU counts both sides and all system calls. The server answers at
once, without a store. "wire alone" is what encoding and decoding cost of each row above it; the last two rows have no
sockets and answer with ready-made bytes: their difference is what net adds on a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import uvloop

from benchmarks.bench_frames import BODY, SEND, SENT
from benchmarks.measure import Row, measure
from pyromq.clock import SystemClock
from pyromq.net import Address, Connection, ConnectionSettings, Handler, Server, open_connection
from pyromq.net.idle import IdleWatch
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import encode_request, encode_response
from pyromq.wire.frame import FrameDecoder
from pyromq.wire.received import Received, decode_received

REQUESTS = 40_000
LOOPS: tuple[tuple[str, Callable[[], asyncio.AbstractEventLoop]], ...] = (
    ("uvloop", uvloop.new_event_loop),
    ("asyncio", asyncio.new_event_loop),
)
CODE = int(RequestCode.SEND_MESSAGE_V2)
OK = int(ResponseCode.SUCCESS)
A_READ = 64
PEER = Address("127.0.0.1", 1)


class Echo(Handler):
    """Answers every send request as a broker does."""

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for request in requests:
            connection.send(encode_response(OK, request.correlation_id, SENT))


def rows() -> list[Row]:
    found = [
        _asked(f"{name}, {outstanding} outstanding, client and server", new_loop, outstanding)
        for name, new_loop in LOOPS
        for outstanding in (64, 1)
    ]
    found.append(measure("wire alone: request and answer, both ways", _wire_alone))
    chunk = b"".join(encode_request(CODE, number, SEND, body=BODY) for number in range(A_READ))
    with asyncio.Runner() as runner:
        found.append(measure("server: 64 a read, from read to write", lambda: runner.run(_serve(chunk))))
    found.append(measure("server: of it frames and headers", lambda: _read(chunk)))
    return found


def _asked(name: str, new_loop: Callable[[], asyncio.AbstractEventLoop], outstanding: int) -> Row:
    total = REQUESTS if outstanding > 1 else REQUESTS // 8
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return measure(name, lambda: runner.run(_ask(total, outstanding)), bytes_per_operation=len(BODY))


async def _ask(total: int, outstanding: int) -> int:
    clock = SystemClock()
    async with Server(Echo(), [Address("127.0.0.1", 0)], clock=clock) as server:
        connection = await open_connection(server.addresses[0], clock=clock)

        async def ask() -> None:
            for _ in range(total // outstanding):
                await connection.request(CODE, SEND, BODY, timeout_ms=3_000)

        await asyncio.gather(*(ask() for _ in range(outstanding)))
        connection.close()
    return total


def _wire_alone() -> int:
    for _ in range(REQUESTS // A_READ):
        asked = b"".join([encode_request(CODE, number, SEND, body=BODY) for number in range(A_READ)])
        requests = [decode_received(frame) for frame in FrameDecoder().feed(asked)]
        told = b"".join([encode_response(OK, request.correlation_id, SENT) for request in requests])
        for frame in FrameDecoder().feed(told):
            decode_received(frame)
    return REQUESTS // A_READ * A_READ


class Ready(Handler):
    def __init__(self) -> None:
        self.response = encode_response(OK, 1, SENT)

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for _ in requests:
            connection.send(self.response)


class NoSocket(asyncio.Transport):
    """Takes what is written."""

    def is_closing(self) -> bool:
        return False

    def write(self, data: object) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else ("127.0.0.1", 1)

    def setsockopt(self, *_: int) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


async def _serve(chunk: bytes) -> int:
    clock = SystemClock()
    connection = Connection(Ready(), clock, ConnectionSettings(), IdleWatch(clock, 0), PEER, is_server=True)
    connection.connection_made(NoSocket())
    connection.get_buffer(-1)[: len(chunk)] = chunk
    for _ in range(REQUESTS // A_READ):
        connection.buffer_updated(len(chunk))
    return REQUESTS // A_READ * A_READ


def _read(chunk: bytes) -> int:
    feed, view = FrameDecoder().feed, memoryview(bytearray(chunk))
    for _ in range(REQUESTS // A_READ):
        for frame in feed(view):
            decode_received(frame)
    return REQUESTS // A_READ * A_READ
