"""A server that parts with its clients: what they have sent is answered first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from pyromq.net import Address, Connection, Handler, Server
from pyromq.net.half_read import unread_bytes
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.command import encode_request, encode_response
from pyromq.wire.received import Received

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
ASK = encode_request(RequestCode.GET_BROKER_CLUSTER_INFO, 1)


class Refusing(Handler):
    """Refuses every request, as a broker does whose role ends."""

    def __init__(self) -> None:
        self.refused = asyncio.Queue[int]()

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        for request in requests:
            code = ResponseCode.SERVICE_NOT_AVAILABLE
            connection.send(encode_response(code, request.correlation_id, remark="stopping"))
            self.refused.put_nowait(request.correlation_id)


Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def peer_with_unread_request(server: Server, handler: Refusing) -> Peer:
    """A peer whose second request is in the server's socket, and not read."""
    reader, writer = await asyncio.open_connection(*server.addresses[0])
    writer.write(ASK)
    await handler.refused.get()
    await reader.readexactly(4)
    (connection,) = server.connections
    connection.hold_reading()
    writer.write(encode_request(RequestCode.GET_BROKER_CLUSTER_INFO, 2))
    assert connection._transport is not None
    while not unread_bytes(connection._transport):  # noqa: ASYNC110, the kernel tells nobody
        await asyncio.sleep(0)
    return reader, writer


@LOOPS
def test_a_request_that_was_not_read_yet_is_answered(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        handler = Refusing()
        async with Server(handler, [Address("127.0.0.1", 0)], clock=ManualClock()) as server:
            reader, writer = await peer_with_unread_request(server, handler)
            (connection,) = server.connections
            parting = asyncio.create_task(server.part("the role changes"))
            await asyncio.sleep(0)
            assert connection.is_open
            connection.go_on_reading()
            await parting
            assert await handler.refused.get() == 2
            assert b"stopping" in await reader.read(), "answered, then closed"
            assert not connection.is_open
            writer.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


@LOOPS
def test_who_never_reads_is_left_in_the_end(
    new_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.net.server._PART_S", 0.003)

    async def main() -> None:
        handler = Refusing()
        async with Server(handler, [Address("127.0.0.1", 0)], clock=ManualClock()) as server:
            _, writer = await peer_with_unread_request(server, handler)
            (connection,) = server.connections
            await server.part("the role changes")
            assert not connection.is_open
            writer.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_a_loop_that_is_busy_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, passed_s = 0, 0.0

    def look(connection: Connection) -> bool:
        nonlocal looks, passed_s
        looks, passed_s = looks + 1, passed_s + 0.1
        return True

    async def main() -> None:
        loop, handler = asyncio.get_running_loop(), Refusing()
        monkeypatch.setattr(loop, "time", lambda known=loop.time: known() + passed_s)
        async with Server(handler, [Address("127.0.0.1", 0)], clock=ManualClock()) as server:
            _, writer = await peer_with_unread_request(server, handler)
            (connection,) = server.connections
            monkeypatch.setattr(Connection, "has_unserved", property(look))
            await server.part("the role changes")
            assert not connection.is_open
            writer.close()

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(main())
    assert looks <= 3, "the moment is one of time, not of looks"
