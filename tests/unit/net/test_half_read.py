"""Memory of connections: freed with their last reference, and bounded while frames are incomplete."""

from __future__ import annotations

import asyncio
import gc
import logging
import struct
import weakref
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop

from pyromq.net import Address, ConnectionSettings, Handler, Server
from pyromq.net.half_read import HalfReadFrames
from pyromq.testing import ManualClock
from pyromq.wire.codes import RequestCode
from pyromq.wire.command import encode_request
from tests.unit.net.fakes import Rig, turn

HALF = struct.pack(">II", 1_000_000, 100) + bytes(100_000)
WHOLE = encode_request(RequestCode.GET_BROKER_CLUSTER_INFO, 1)
BAD_FIELD = encode_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, 1, {})  # its topic is missing
NO_HEADER = struct.pack(">II", 8, 4) + b"{{{{"
NO_FRAME = b"\xff" * 16


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def on_a_loop(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


@pytest.mark.parametrize("data", [HALF, WHOLE, BAD_FIELD, NO_HEADER, NO_FRAME, WHOLE + HALF])
def test_a_lost_connection_is_free_without_a_collection(data: bytes) -> None:
    async def main() -> None:
        rig = Rig(half_read=HalfReadFrames(1 << 30))
        response = rig.connection.request_nowait(RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=10)
        rig.arrive(data)
        rig.clock.advance_ms(20)
        rig.connection.fail_late_requests()
        rig.connection.abort("the peer left")
        await turn()
        assert response.exception() is not None
        del response
        connection = weakref.ref(rig.connection)
        half_read = weakref.ref(rig.connection._decoder)
        del rig
        assert connection() is None, "something that the connection holds refers back to it"
        assert half_read() is None

    on_a_loop(main())


class Keeper(Handler):
    """Knows its connections weakly."""

    def __init__(self) -> None:
        self.connections: list[weakref.ref[object]] = []
        self.lost = asyncio.Event()

    def on_connected(self, connection: Any) -> None:
        self.connections.append(weakref.ref(connection))

    def on_disconnected(self, connection: Any, reason: str) -> None:
        self.lost.set()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("data", [HALF, BAD_FIELD, NO_HEADER, NO_FRAME])
def test_the_same_with_sockets(data: bytes, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        keeper = Keeper()
        async with Server(keeper, [Address("127.0.0.1", 0)], clock=ManualClock()) as server:
            _, writer = await asyncio.open_connection(*server.addresses[0])
            writer.write(data)
            await writer.drain()
            writer.close()
            await asyncio.wait_for(keeper.lost.wait(), 60)
            await turn()
            assert [known() for known in keeper.connections] == [None]
            assert server.half_read.bytes == 0

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_a_lost_connection_holds_no_half_frame_even_if_somebody_holds_it() -> None:
    async def main() -> None:
        rig = Rig()
        rig.arrive(HALF)
        assert len(rig.connection._decoder.half_read) == len(HALF)
        rig.connection.abort("the peer left")
        await turn()
        assert not rig.connection._decoder.half_read

    on_a_loop(main())


def test_half_frames_count_until_they_are_whole() -> None:
    async def main() -> None:
        all_of_them = HalfReadFrames(1 << 30)
        one, two = Rig(half_read=all_of_them), Rig(half_read=all_of_them)
        one.arrive(WHOLE + WHOLE[:20])
        two.arrive(HALF)
        assert all_of_them.bytes == 20 + len(HALF)
        one.arrive(WHOLE[20:])
        assert all_of_them.bytes == len(HALF)
        two.connection.abort("gone")
        await turn()
        assert all_of_them.bytes == 0

    on_a_loop(main())


def test_above_the_limit_the_largest_half_goes_first(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        all_of_them = HalfReadFrames(250_000)
        small, large, last = (Rig(half_read=all_of_them) for _ in range(3))
        small.arrive(HALF[:50_000])
        large.arrive(HALF)
        large.arrive(bytes(50_000))
        last.arrive(HALF)
        assert large.transport.is_aborted
        assert "half_read_bytes_max" in large.connection.close_reason
        assert small.connection.is_open and last.connection.is_open
        assert all_of_them.bytes == 50_000 + len(HALF)
        assert all_of_them.connections_cut == 1
        await turn()
        assert all_of_them.bytes == 50_000 + len(HALF), "a connection that was cut is not counted twice"

    with caplog.at_level(logging.WARNING):
        on_a_loop(main())
    assert "half_read_bytes=150008" in caplog.text


def test_the_one_that_goes_may_be_the_one_that_is_read() -> None:
    async def main() -> None:
        only = Rig(half_read=HalfReadFrames(90_000), settings=ConnectionSettings(idle_ms=0))
        only.arrive(HALF)
        assert only.transport.is_aborted
        await turn()
        assert not only.connection.is_open

    on_a_loop(main())
