"""One connection without a socket: what a client sends, what the server writes, a clock that is set by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import hpack

from pyromq.net.address import Address
from pyromq.net.half_read import HalfReadFrames
from pyromq.net.http2 import CallLane, CallMethod, GrpcCall, Http2Connection, Http2Limits
from pyromq.net.idle import IdleWatch
from pyromq.testing import ManualClock
from pyromq.wire.grpc.framing import MessageCutter, with_prefix
from pyromq.wire.http2 import frames


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_reading = True
        self.closed = ""
        self.unsent = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return bool(self.closed)

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.closed = self.closed or "closed"

    def abort(self) -> None:
        self.closed = "aborted"


class Calls:
    """A handler that keeps calls, and answers with ``answer`` if there is one."""

    def __init__(self) -> None:
        self.calls: list[tuple[GrpcCall, bytes]] = []
        self.answer: Any = None
        self.disconnected = 0

    def lane(self, connection: Http2Connection) -> CallLane | None:
        return None

    def method(self, path: bytes) -> CallMethod | None:
        return {b"/one": CallMethod(self._take), b"/stream": CallMethod(self._take, is_stream=True)}.get(path)

    def _take(self, call: GrpcCall, message: bytes) -> None:
        self.calls.append((call, message))
        if self.answer is not None:
            self.answer(call, message)

    def on_read(self) -> None:
        """Calls are answered at once."""

    def on_disconnected(self, connection: Http2Connection) -> None:
        self.disconnected += 1


class Talk:
    """The client's side; make it inside a running loop."""

    def __init__(self, limits: Http2Limits | None = None, handler: Calls | None = None, **settings: int) -> None:
        self.clock = ManualClock()
        self.handler = handler or Calls()
        self.watch: IdleWatch[Http2Connection] = IdleWatch(self.clock, 120_000)
        self.half_read = HalfReadFrames(1 << 20)
        self.connection = Http2Connection(
            self.handler,
            self.clock,
            limits or Http2Limits(**settings),
            self.watch,
            Address("127.0.0.1", 5),
            self.half_read,
        )
        self.transport = FakeTransport()
        self.connection.connection_made(self.transport)
        self._encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()
        self._frames = frames.Http2FrameDecoder()

    def greet(self, **settings: int) -> Talk:
        values = [(frames.Http2Setting[name.upper()], value) for name, value in settings.items()]
        self.feed(frames.PREFACE + frames.encode_settings(values))
        return self

    def feed(self, data: bytes) -> None:
        self.connection.data_received(data)

    def frame(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        self.feed(frames.encode_frame(kind, flags, stream, payload))

    def block(self, path: str = "/one", **more: str) -> bytes:
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path), ("content-type", "application/grpc")]
        return self._encoder.encode([*fields, *((name.replace("_", "-"), value) for name, value in more.items())])

    def open(self, stream: int, path: str = "/one", *, ended: bool = False, **more: str) -> None:
        flags = frames.END_HEADERS | (frames.END_STREAM if ended else 0)
        self.frame(frames.HEADERS, flags, stream, self.block(path, **more))

    def call(self, stream: int, message: bytes = b"hello", path: str = "/one", **more: str) -> None:
        self.open(stream, path, **more)
        self.frame(frames.DATA, frames.END_STREAM, stream, with_prefix(message))

    async def read(self) -> list[frames.RawFrame]:
        """What the server has written since the last read."""
        for _ in range(5):
            await asyncio.sleep(0)
        data, self.transport.written = bytes(self.transport.written), bytearray()
        return self._frames.feed(data)

    def fields(self, payload: bytes) -> dict[str, str]:
        return {str(name): str(value) for name, value in self._decoder.decode(payload)}


def messages(found: list[frames.RawFrame], stream: int) -> list[bytes]:
    cutter = MessageCutter(1 << 30)
    return [
        each for kind, _, number, data in found if (kind, number) == (frames.DATA, stream) for each in cutter.feed(data)
    ]


def goaway(found: list[frames.RawFrame]) -> int | None:
    """The code of the connection's end."""
    codes = [int.from_bytes(payload[4:8], "big") for kind, _, _, payload in found if kind == frames.GOAWAY]
    return codes[0] if codes else None


def resets(found: list[frames.RawFrame]) -> dict[int, int]:
    return {number: int.from_bytes(payload, "big") for kind, _, number, payload in found if kind == frames.RST_STREAM}
