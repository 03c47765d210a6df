"""One connection to the gRPC port on asyncio: calls in, messages out; it runs on any loop, also on a simulated one."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import hpack

from pyromq.wire.grpc.framing import GrpcError, GrpcStatus, MessageCutter, with_prefix
from pyromq.wire.grpc.protobuf import Proto, decode
from pyromq.wire.grpc.services import SERVICE
from pyromq.wire.http2 import frames

P = TypeVar("P", bound=Proto)

_WINDOW: Final = 1 << 20
_CREDIT: Final = _WINDOW // 2  # what was read is given back in such pieces


def request_fields(path: str, client_id: str) -> list[tuple[str, str]]:
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "broker"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("x-mq-client-id", client_id),
        ("x-mq-language", "PYTHON"),
    ]


@dataclass(eq=False)
class _Answer:
    """What came for one call."""

    done: asyncio.Future[None]
    cutter: MessageCutter = field(default_factory=lambda: MessageCutter(1 << 30))
    messages: list[bytes] = field(default_factory=list)
    read_bytes: int = 0


class GrpcLink(asyncio.Protocol):
    """``await open_link(…)``; a call raises ConnectionError when the link is lost, TimeoutError, and GrpcError."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.is_open = False
        self.goaway_code: int | None = None
        self._transport: asyncio.Transport | None = None
        self._frames = frames.Http2FrameDecoder()
        self._encoder, self._decoder = hpack.Encoder(), hpack.Decoder()
        self._ids = itertools.count(1, 2)
        self._calls: dict[int, _Answer] = {}
        self._read_bytes = 0
        self._block = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True
        settings = ((frames.Http2Setting.ENABLE_PUSH, 0), (frames.Http2Setting.INITIAL_WINDOW_SIZE, _WINDOW))
        self.write(frames.PREFACE + frames.encode_settings(settings) + frames.encode_window_update(0, _WINDOW))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        for answer in self._calls.values():
            if not answer.done.done():
                answer.done.set_exception(ConnectionResetError("the link is lost"))
        self._calls.clear()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    # --- calls ---

    async def call(self, name: str, request: Proto, kind: type[P], *, timeout_s: float = 10) -> list[P]:
        """The messages of the response."""
        if not self.is_open:
            raise ConnectionResetError("the link is lost")
        stream = next(self._ids)
        answer = self._calls[stream] = _Answer(asyncio.get_running_loop().create_future())
        block = self._encoder.encode(request_fields(SERVICE + name, self.client_id))
        self.write(
            frames.encode_frame(frames.HEADERS, frames.END_HEADERS, stream, block)
            + frames.encode_frame(frames.DATA, frames.END_STREAM, stream, with_prefix(request.encode()))
        )
        try:
            async with asyncio.timeout(timeout_s):
                await answer.done
        except TimeoutError:
            self.write(frames.encode_reset(stream, frames.Http2Code.CANCEL))
            raise
        finally:
            self._calls.pop(stream, None)
        return [decode(kind, each) for each in answer.messages]

    # --- frames ---

    def data_received(self, data: bytes) -> None:
        for kind, flags, stream, payload in self._frames.feed(data):
            if kind == frames.SETTINGS and not flags & frames.ACK:
                self.write(frames.SETTINGS_ACK)
            elif kind == frames.PING and not flags & frames.ACK:
                self.write(frames.encode_frame(frames.PING, frames.ACK, 0, payload))
            elif kind == frames.DATA:
                self._on_data(stream, payload, is_last=bool(flags & frames.END_STREAM))
            elif kind == frames.HEADERS:
                self._on_headers(stream, payload, is_last=bool(flags & frames.END_STREAM))
            elif kind == frames.RST_STREAM:
                self._end(stream, GrpcError(GrpcStatus.CANCELLED, f"reset with code {int.from_bytes(payload, 'big')}"))
            elif kind == frames.GOAWAY:
                self.goaway_code = int.from_bytes(payload[4:8], "big")
                self.is_open = False

    def _on_data(self, stream: int, payload: bytes, *, is_last: bool) -> None:
        self._read_bytes += len(payload)
        if self._read_bytes >= _CREDIT:
            self.write(frames.encode_window_update(0, self._read_bytes))
            self._read_bytes = 0
        answer = self._calls.get(stream)
        if answer is None:
            return
        answer.messages += answer.cutter.feed(payload)
        answer.read_bytes += len(payload)
        if answer.read_bytes >= _CREDIT and not is_last:
            self.write(frames.encode_window_update(stream, answer.read_bytes))
            answer.read_bytes = 0
        if is_last:
            self._end(stream, None)

    def _on_headers(self, stream: int, payload: bytes, *, is_last: bool) -> None:
        fields = {str(name): str(value) for name, value in self._decoder.decode(payload)}
        if not is_last:
            return
        status = int(fields.get("grpc-status", GrpcStatus.UNKNOWN))
        self._end(stream, GrpcError(GrpcStatus(status), fields.get("grpc-message", "")) if status else None)

    def _end(self, stream: int, error: Exception | None) -> None:
        answer = self._calls.get(stream)
        if answer is None or answer.done.done():
            return
        if error is None:
            answer.done.set_result(None)
        else:
            answer.done.set_exception(error)


async def open_link(host: str, port: int, client_id: str, *, timeout_s: float = 10) -> GrpcLink:
    """Connect. Raises OSError, TimeoutError."""
    loop: Any = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        _, link = await loop.create_connection(lambda: GrpcLink(client_id), host, port)
    return cast(GrpcLink, link)
