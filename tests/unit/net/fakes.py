"""A connection without a socket, and a handler that writes down what it is told."""

from __future__ import annotations

import asyncio
from typing import Any

from pyromq.net import Address, Connection, ConnectionSettings, Handler
from pyromq.net.half_read import HalfReadFrames
from pyromq.net.idle import IdleWatch
from pyromq.net.stalls import StallWatch
from pyromq.testing import ManualClock
from pyromq.wire.header_errors import HeaderFieldError
from pyromq.wire.received import Received

PEER = Address("192.0.2.7", 4711)
NEVER_IDLE = ConnectionSettings(idle_ms=0)


class Notebook(Handler):
    """Answers nothing."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []  # correlation ids
        self.requests: list[Received[Any]] = []
        self.events: list[str] = []

    def on_connected(self, connection: Connection) -> None:
        self.events.append("connected")

    def on_requests(self, connection: Connection, requests: list[Received[Any]]) -> None:
        self.batches.append([request.correlation_id for request in requests])
        self.requests += requests

    def on_bad_header(self, connection: Connection, error: HeaderFieldError) -> None:
        self.events.append(f"bad header {error.field}")
        super().on_bad_header(connection, error)

    def on_congested(self, connection: Connection) -> None:
        self.events.append("congested")

    def on_drained(self, connection: Connection) -> None:
        self.events.append("drained")

    def on_disconnected(self, connection: Connection, reason: str) -> None:
        self.events.append(f"disconnected: {reason}")


class FakeTransport(asyncio.Transport):
    """Keeps what is written; the test says when, and whether, the peer reads it."""

    def __init__(self, protocol: Connection, *, reads: bool = True) -> None:
        self.protocol = protocol
        self.writes: list[bytes] = []
        self.buffer_bytes = 0
        self.is_reading_paused = False
        self.is_aborted = False
        self._reads, self._high, self._closing, self._paused = reads, 0, False, False

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))
        if not self._reads:
            self.buffer_bytes += len(data)
            if self.buffer_bytes > self._high and not self._paused:
                self._paused = True
                self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def peer_reads_all(self) -> None:
        self.buffer_bytes = 0
        if self._paused:
            self._paused = False
            self.protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self.buffer_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else ("127.0.0.1", 10911)

    def setsockopt(self, *_: int) -> None:
        pass

    def close(self) -> None:
        self._end()

    def abort(self) -> None:
        self.is_aborted = True
        self._end()

    def _end(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


class Rig:
    """Everything around one connection; make it inside a running loop."""

    def __init__(
        self,
        *,
        handler: Handler | None = None,
        is_server: bool = True,
        reads: bool = True,
        settings: ConnectionSettings = NEVER_IDLE,
        half_read: HalfReadFrames | None = None,
        stalls: StallWatch | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.handler = Notebook()
        self.watch = IdleWatch(self.clock, settings.idle_ms)
        self.connection = Connection(
            *(handler or self.handler, self.clock, settings, self.watch, PEER),
            is_server=is_server,
            half_read=half_read,
            stalls=stalls,
        )
        self.transport = FakeTransport(self.connection, reads=reads)
        self.connection.connection_made(self.transport)

    def arrive(self, data: bytes) -> None:
        """One read of the event loop."""
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))


async def turn() -> None:
    """Lets everything that is scheduled for now happen."""
    for _ in range(3):
        await asyncio.sleep(0)
