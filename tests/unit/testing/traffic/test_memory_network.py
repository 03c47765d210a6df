"""Connections without sockets: bytes arrive whole and in order, ends are heard of, readers can hold writers back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from pyromq import Message, Producer, PullConsumer, aio
from pyromq.broker.base.settings import BrokerSettings
from pyromq.errors import ConfigError, MQError
from pyromq.net import Address
from pyromq.net.settings import TlsMode
from pyromq.testing import LoopbackBroker
from pyromq.testing.traffic.memory_network import MemoryNetwork
from pyromq.testing.traffic.memory_transport import MemoryTransport

HERE, THERE = Address("127.0.0.1", 1), Address("127.0.0.1", 2)


class End(asyncio.BufferedProtocol):
    """Notes what it is told; its buffer is small, so that reads are cut."""

    def __init__(self, size: int = 8) -> None:
        self._buffer = bytearray(size)
        self.read = b""
        self.told: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.told.append("made")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append(f"lost {type(exc).__name__}")

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.read += self._buffer[:nbytes]

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


def both(test: Callable[[MemoryTransport, End, MemoryTransport, End], Coroutine[Any, Any, None]]) -> None:
    async def inside() -> None:
        here, there = MemoryTransport.connected(asyncio.get_running_loop(), HERE, THERE)
        one, other = End(), End()
        here.begin(one)
        there.begin(other)
        await test(here, one, there, other)

    asyncio.run(inside())


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_bytes_arrive_in_order_however_they_are_cut() -> None:
    async def test(here: MemoryTransport, one: End, there: MemoryTransport, other: End) -> None:
        data = bytearray(b"first, ")
        here.write(data)
        data[:] = b"changed"  # it is the writer's own again
        here.writelines([b"then", memoryview(b" more"), b"", b" than fits"])
        there.write(b"and back")
        assert other.read == b""  # not in the same turn
        await turns()
        assert (other.read, one.read) == (b"first, then more than fits", b"and back")
        assert here.get_extra_info("peername") == tuple(THERE) and there.get_protocol() is other
        assert here.get_write_buffer_size() == 0

    both(test)


def test_close_delivers_what_was_written_before() -> None:
    async def test(here: MemoryTransport, one: End, there: MemoryTransport, other: End) -> None:
        here.write(b"a long farewell, longer than one read")
        here.close()
        here.close()
        here.write(b"too late")
        await turns()
        assert other.read == b"a long farewell, longer than one read"
        assert one.told == other.told == ["made", "lost NoneType"]
        assert here.is_closing() and there.is_closing()

    both(test)


def test_abort_delivers_nothing_more() -> None:
    async def test(here: MemoryTransport, one: End, there: MemoryTransport, other: End) -> None:
        here.write(b"unread")
        here.abort()
        there.write(b"to nobody")
        await turns()
        assert (other.read, one.read) == (b"", b"")
        assert (one.told, other.told) == (["made", "lost NoneType"], ["made", "lost ConnectionResetError"])

    both(test)


def test_a_reader_that_pauses_holds_the_writer_back() -> None:
    async def test(here: MemoryTransport, one: End, there: MemoryTransport, other: End) -> None:
        here.set_write_buffer_limits(high=20)
        there.pause_reading()
        here.write(b"x" * 30)
        await turns()
        assert other.read == b"" and one.told == ["made", "pause"] and not there.is_reading()
        there.resume_reading()
        await turns()
        assert other.read == b"x" * 30 and one.told == ["made", "pause", "resume"]

    both(test)


def test_a_closed_end_is_heard_of_after_reading_goes_on() -> None:
    async def test(here: MemoryTransport, one: End, there: MemoryTransport, other: End) -> None:
        there.pause_reading()
        here.write(b"bye")
        here.close()
        await turns()
        assert other.told == ["made"]
        there.resume_reading()
        await turns()
        assert other.read == b"bye" and other.told == ["made", "lost NoneType"]

    both(test)


def test_two_servers_cannot_have_one_address() -> None:
    network = MemoryNetwork()
    address = network.listen(Address("127.0.0.1", 0), lambda peer, wanted: None)
    assert network.listen(Address("127.0.0.1", 0), lambda peer, wanted: None) != address
    with pytest.raises(ConfigError, match="another server of this test"):
        network.listen(address, lambda peer, wanted: None)
    network.leave(address)
    assert network.listen(address, lambda peer, wanted: None) == address


def test_without_sockets_nobody_outside_can_connect_and_sync_clients_can() -> None:
    with LoopbackBroker(sockets=False) as broker:
        with Producer(broker.nameserver, group="shop") as producer:
            for number in range(50):
                producer.send(Message("orders", b"%d" % number * 20_000))
        with PullConsumer(
            broker.nameserver.replace("127.0.0.1", "localhost"), group="g", topics="orders", start="earliest"
        ) as reader:
            count = 0
            while count < 50:
                count += len(reader.poll(timeout_ms=10_000))
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(Address.parse(broker.address), 5)
        broker.restart()
        broker.cut_connections()
        with Producer(broker.nameserver, group="shop") as producer:
            producer.send(Message("orders", b"again"))
        assert broker.sent("orders")[-1].body == b"again"


async def test_without_sockets_on_the_running_loop_also_uvloop() -> None:
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
    async with LoopbackBroker(sockets=False) as broker:
        async with aio.Producer(broker.nameserver, group="shop") as producer:
            await producer.send(Message("orders", b"42"))
        assert broker.stored("orders").bodies == [b"42"]
    assert not hasattr(asyncio.get_running_loop(), "__dict__") or "create_connection" not in vars(
        asyncio.get_running_loop()
    )


async def test_an_address_of_a_broker_that_is_gone_is_refused() -> None:
    async with LoopbackBroker(sockets=False) as broker:
        names = broker.nameserver
    with pytest.raises(MQError):
        async with aio.Producer(names, group="shop") as producer:
            await producer.send(Message("orders", b"42"))


def test_tls_needs_sockets(tmp_path: Any) -> None:
    async def test() -> None:
        async with LoopbackBroker(sockets=False) as broker:
            async with aio.Admin(broker.nameserver, tls=True) as admin:
                with pytest.raises(MQError, match="sockets=True"):
                    await admin.topics.names()

    asyncio.run(test())
    assert TlsMode.DISABLED is BrokerSettings().tls_mode
