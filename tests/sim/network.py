"""The network between simulated machines: connections that take time, stand still, break, or go one way only.

    write ─▶ wire (in order, each piece has its time) ─▶ is the way open? ─▶ the other end reads it
                                                          no: it stays, as what TCP sends again and again
                                                          for too long: the writer's end breaks
                                                          nobody there any more: the writer hears a reset

Killed processes reset their connections; machines that lose power say nothing, and reset when they are back. All that
is delivered goes into the digest, byte by byte, with its time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from random import Random
from typing import Any, Final, cast

from pyromq.net import Address
from tests.sim.loop import Machine, Process, SimLoop

_KERNEL_BYTES: Final = 256 * 1024  # that the system takes of a writer, before its own buffer grows
_HIGH_BYTES: Final = 64 * 1024
_EOF: Final = b"<end>"
_RESET: Final = b"<reset>"

Bytes = bytes | bytearray | memoryview
Accept = Callable[[Address, Address], Any]


class _NoSocket:
    def setsockopt(self, *arguments: object) -> None:
        """It has no options."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def fileno(self) -> int:
        return -1


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, process: Process, here: Address, there: Address) -> None:
        super().__init__({"sockname": tuple(here), "peername": tuple(there), "socket": _NoSocket(tuple(here))})
        self.network = network
        self.loop = network.loop
        self.process = process
        self.other: SimTransport = self
        self.number = next(network.numbers)
        self.wire: deque[tuple[float, bytes]] = deque()  # on its way to the other end
        self.wire_bytes = 0
        self.is_scheduled = False  # the head of the wire
        self.stuck_s: float | None = None  # since when the wire does not move
        self._protocol: Any = None
        self._unread: deque[memoryview] = deque()
        self._unread_bytes = 0
        self._high, self._low = _HIGH_BYTES, _HIGH_BYTES // 4
        self._is_reading = True
        self._is_reader_called = False
        self._is_writing_paused = False
        self._is_closing = False
        self._has_written_eof = False
        self._has_eof = False
        self.is_over = False  # the operating system knows it no more

    def __hash__(self) -> int:
        return self.number

    def begin(self, protocol: Any) -> None:
        if self._is_closing:
            return
        self._protocol = protocol
        protocol.connection_made(self)
        self._read_soon()

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    # --- writing ---

    def write(self, data: Bytes) -> None:
        if not self._is_closing and not self.process.is_dead and len(data):
            self.network.transmit(self, bytes(data))
            under_way = self.wire_bytes + self.other._unread_bytes
            if under_way > self._high + _KERNEL_BYTES and not self._is_writing_paused:
                self._is_writing_paused = True
                self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Bytes]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._has_written_eof:
            self._has_written_eof = True
            self._send(_EOF)

    def get_write_buffer_size(self) -> int:
        return max(0, self.wire_bytes + self.other._unread_bytes - _KERNEL_BYTES)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def _send(self, data: bytes) -> None:
        self.network.transmit(self, data)

    def has_been_read(self) -> None:
        if self._is_writing_paused and self.get_write_buffer_size() <= self._low:
            self._is_writing_paused = False
            if self._protocol is not None and not self._is_closing:
                self.loop.call_soon(self._protocol.resume_writing, context=self.process.context)

    # --- reading ---

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._read_soon()

    def arrive(self, data: bytes) -> None:
        """The operating system has it; ``read_now`` follows."""
        if data is _RESET:
            self.lose(ConnectionResetError("connection reset by the peer"))
        elif data is _EOF:
            self._has_eof = True
        else:
            self._unread.append(memoryview(data))
            self._unread_bytes += len(data)

    def read_now(self) -> None:
        """The process is told in the same turn, unless it cannot hear."""
        process = self.process
        if process.is_dead or self._is_reader_called or self._protocol is None or not (self._unread or self._has_eof):
            return
        if process.is_paused:
            self._read_soon()
        else:
            self._is_reader_called = True
            self.loop.run_as(process, self._read)

    def _read_soon(self) -> None:
        if not self._is_reader_called and self._protocol is not None and (self._unread or self._has_eof):
            self._is_reader_called = True
            self.loop.call_soon(self._read, context=self.process.context)

    def _read(self) -> None:
        self._is_reader_called = False
        if self._protocol is None or self._is_closing or not self._is_reading:
            return
        if self._unread:
            self._hand_over()
            self._read_soon()
        elif self._has_eof:
            self._has_eof = False
            if not self._protocol.eof_received():
                self.close()

    def _hand_over(self) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer: Any = protocol.get_buffer(self._unread_bytes)
            filled = 0
            if len(self._unread) == 1 and self._unread_bytes <= len(buffer):  # nearly always
                filled = self._unread_bytes
                buffer[:filled] = self._unread.popleft()
            while self._unread and filled < len(buffer):
                data = self._unread.popleft()
                part = data[: len(buffer) - filled]
                buffer[filled : filled + len(part)] = part
                filled += len(part)
                if len(part) < len(data):
                    self._unread.appendleft(data[len(part) :])
            self._unread_bytes -= filled
            protocol.buffer_updated(filled)
        else:
            whole = b"".join(self._unread)
            self._unread.clear()
            self._unread_bytes = 0
            protocol.data_received(whole)
        self.other.has_been_read()

    # --- the end ---

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing and not self.process.is_dead:
            if not self._has_written_eof:
                self._has_written_eof = True
                self._send(_EOF)
            self.lose(None)

    def abort(self) -> None:
        if not self.process.is_dead:
            self.reset()

    def reset(self) -> None:
        """As the operating system does it: what is under way is gone, the other end hears of it."""
        self.wire.clear()
        self.wire_bytes = 0
        if not self.is_over:
            self.network.transmit(self, _RESET)
        self.lose(None)

    def lose(self, error: Exception | None) -> None:
        self.is_over = True
        if not self._is_closing:
            self._is_closing = True
            self._unread.clear()
            self._unread_bytes = 0
            self.loop.call_soon(self._report_lost, error, context=self.process.context)
            self.other.has_been_read()

    def _report_lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)


class _Listening:
    """What ``create_server`` returns."""

    def __init__(self, network: Network, address: Address) -> None:
        self._network = network
        self._address = address
        self.sockets = (_NoSocket(tuple(address)),)

    def close(self) -> None:
        self._network.leave(self._address)

    async def wait_closed(self) -> None:
        """It is."""

    def is_serving(self) -> bool:
        return True


class Network:
    """Ways between machines are open unless ``cut``; each piece takes some time, by the generator."""

    def __init__(self, loop: SimLoop, rng: Random, digest: Any) -> None:
        self.loop = loop
        self.rng = rng
        self.digest = digest
        self.numbers = count(1)
        self.delay_ms: tuple[float, float] = (0.2, 1.5)
        self.slow_ms: dict[tuple[str, str], float] = {}  # added to ways of single machines
        self.give_up_s = 60.0
        self.delivered = 0
        self._machines: dict[str, Machine] = {}
        self._servers: dict[Address, tuple[Process, Accept]] = {}
        self._ports = count(20_000)
        self._cut: dict[tuple[str, str], int] = {}  # ways that are closed, by how many faults
        self._stuck: dict[SimTransport, None] = {}
        self._dialing: dict[asyncio.Future[None], None] = {}
        self.transports: dict[SimTransport, None] = {}

    def add(self, machine: Machine) -> None:
        self._machines[machine.ip] = machine

    # --- faults ---

    def cut(self, source: Machine, target: Machine) -> None:
        way = source.ip, target.ip
        self._cut[way] = self._cut.get(way, 0) + 1

    def mend(self, source: Machine, target: Machine) -> None:
        way = source.ip, target.ip
        if way in self._cut:
            self._cut[way] -= 1
            if not self._cut[way]:
                del self._cut[way]
        self.kick()

    def is_open(self, source: str, target: str) -> bool:
        return not (self._cut and (source, target) in self._cut) and (
            self._machines[target].has_power and self._machines[source].has_power
        )

    def kick(self) -> None:
        """Something has changed: what stood still is sent again."""
        for transport in list(self._stuck):
            self._stuck.pop(transport)
            transport.stuck_s = None
            self._schedule(transport, self.loop.true_s + self.rng.uniform(0.05, 0.8))
        dialing, self._dialing = self._dialing, {}
        for future in dialing:
            if not future.done():
                future.set_result(None)

    def break_connections(self, source: Machine, target: Machine) -> int:
        """Those between the two machines end, at both ends."""
        broken = 0
        for transport in list(self.transports):
            ends = transport.process.machine, transport.other.process.machine
            if ends == (source, target) and not transport.is_over:
                transport.lose(ConnectionResetError("a middlebox has forgotten the connection"))
                transport.other.lose(ConnectionResetError("a middlebox has forgotten the connection"))
                broken += 1
        return broken

    def process_died(self, process: Process) -> None:
        """Its sockets are closed by the operating system, if there still is one."""
        for address in [each for each, (owner, _) in self._servers.items() if owner is process]:
            del self._servers[address]
        for transport in [each for each in self.transports if each.process is process]:
            if process.machine.has_power:
                transport.reset()
            else:
                transport.wire.clear()
                transport.is_over = True

    # --- connections ---

    def listen(self, process: Process, address: Address, accept: Accept) -> Address:
        port = address.port or next(self._ports)
        bound = Address(process.machine.ip if address.host in ("0.0.0.0", "127.0.0.1") else address.host, port)
        if bound in self._servers:
            raise OSError(98, f"address in use: {bound}")
        self._servers[bound] = process, accept
        return bound

    def leave(self, address: Address) -> None:
        self._servers.pop(address, None)

    def serve(self, process: Process, factory: Any, host: str, port: int) -> _Listening:
        address = self.listen(process, Address(host or "0.0.0.0", port), lambda peer, wanted: factory())
        return _Listening(self, address)

    async def connect(self, process: Process, factory: Any, host: str, port: int) -> Any:
        source = process.machine
        wanted = Address(source.ip if host in ("localhost", "127.0.0.1") else host, port)
        if wanted.host not in self._machines:
            raise OSError(113, f"no route to {wanted}")
        await self.passed(source.ip, wanted.host)
        found = self._servers.get(wanted)
        if found is None:
            await self.passed(wanted.host, source.ip)
            raise ConnectionRefusedError(111, f"nobody listens on {wanted}")
        server, accept = found
        peer = Address(source.ip, next(self._ports))
        here, there = SimTransport(self, process, peer, wanted), SimTransport(self, server, wanted, peer)
        here.other, there.other = there, here
        self.transports[here] = self.transports[there] = None
        self.loop.call_soon(self._accepted, accept, there, peer, wanted, context=server.context)
        await self.passed(wanted.host, source.ip)
        if here.is_closing():
            raise ConnectionResetError(104, f"{wanted} does not want us")
        protocol = factory()
        here.begin(protocol)
        return here, protocol

    def _accepted(self, accept: Accept, transport: SimTransport, peer: Address, wanted: Address) -> None:
        protocol = accept(peer, wanted)
        if protocol is None:
            transport.reset()
        else:
            transport.begin(protocol)

    async def passed(self, source: str, target: str) -> None:
        while True:
            await asyncio.sleep(self.delay_s(source, target))
            if self.is_open(source, target):
                return
            opened = self.loop.create_future()
            self._dialing[opened] = None
            await opened

    def delay_s(self, source: str, target: str) -> float:
        if source == target:
            return 0.00005
        low_ms, high_ms = self.delay_ms
        delay_ms = low_ms + (high_ms - low_ms) * self.rng.random()
        return (delay_ms + self.slow_ms.get((source, target), 0.0) if self.slow_ms else delay_ms) / 1000

    # --- bytes ---

    def transmit(self, transport: SimTransport, data: bytes) -> None:
        source, target = transport.process.machine.ip, transport.other.process.machine.ip
        arrives_s = self.loop.true_s + self.delay_s(source, target)
        if transport.wire and transport.wire[-1][0] > arrives_s:
            arrives_s = transport.wire[-1][0]
        transport.wire.append((arrives_s, data))
        transport.wire_bytes += len(data)
        self._schedule(transport, arrives_s)

    def _schedule(self, transport: SimTransport, at_s: float) -> None:
        if not transport.is_scheduled and transport not in self._stuck:
            transport.is_scheduled = True
            self.loop.call_for(None, at_s, self._deliver, transport)

    def _deliver(self, transport: SimTransport) -> None:
        transport.is_scheduled = False
        if not transport.wire:
            return
        other, now_s = transport.other, self.loop.true_s
        if not self.is_open(transport.process.machine.ip, other.process.machine.ip):
            self._stuck[transport] = None
            transport.stuck_s = now_s
            self.loop.call_for(None, now_s + self.give_up_s, self._give_up, transport, now_s)
            return
        while transport.wire and transport.wire[0][0] <= now_s:
            _, data = transport.wire.popleft()
            transport.wire_bytes -= len(data)
            self._arrive(transport, other, data)
        other.read_now()
        if transport.wire:
            self._schedule(transport, max(now_s, transport.wire[0][0]))
        elif transport.is_over and other.is_over:
            self.transports.pop(transport, None)
            self.transports.pop(other, None)

    def _arrive(self, transport: SimTransport, other: SimTransport, data: bytes) -> None:
        self.delivered += 1
        head = b"%d %d %d " % (transport.number, round(self.loop.true_s * 1e6), len(data))
        self.digest.update(head + data)
        if other.is_over:
            if data is not _RESET and not transport.is_over:
                transport.wire.clear()
                transport.lose(ConnectionResetError("connection reset by the peer"))
            return
        other.arrive(data)

    def _give_up(self, transport: SimTransport, since_s: float) -> None:
        if transport.stuck_s == since_s and transport in self._stuck:
            self._stuck.pop(transport)
            transport.wire.clear()
            transport.lose(TimeoutError("the peer does not take what is sent"))
