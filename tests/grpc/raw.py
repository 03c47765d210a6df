"""A peer of the gRPC port that breaks rules: any frames, read or not read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self

import hpack

from pyromq.wire.grpc.framing import with_prefix
from pyromq.wire.grpc.protobuf import Proto
from pyromq.wire.grpc.services import SERVICE
from pyromq.wire.http2 import frames
from tests.grpc.link import request_fields

PIECE_BYTES = 1 << 16


class RawPeer:
    """``async with RawPeer(address)``: connected, with the preface and SETTINGS of its own."""

    def __init__(self, address: str, client_id: str = "attacker", **settings: int) -> None:
        host, port = address.rsplit(":", 1)
        self._address = (host, int(port))
        self._settings = [(frames.Http2Setting[name.upper()], value) for name, value in settings.items()]
        self._client_id = client_id
        self._encoder = hpack.Encoder()
        self._decoder = frames.Http2FrameDecoder()
        self.seen: list[frames.RawFrame] = []

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(*self._address)
        self.writer.write(frames.PREFACE + frames.encode_settings(self._settings))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.writer.transport.abort()

    # --- frames ---

    def head(self, stream: int, name: str, *, ended: bool = False, **more: str) -> bytes:
        """HEADERS of a call, whole; every one of them is written as new."""
        fields = [*request_fields(SERVICE + name, self._client_id), *more.items()]
        flags = frames.END_HEADERS | (frames.END_STREAM if ended else 0)
        return frames.encode_frame(frames.HEADERS, flags, stream, self._encoder.encode(fields))

    def call(self, stream: int, name: str, request: Proto) -> bytes:
        data = with_prefix(request.encode())
        return self.head(stream, name) + frames.encode_frame(frames.DATA, frames.END_STREAM, stream, data)

    # --- what comes of it ---

    async def send(self, data: bytes) -> bool:
        """In pieces; False once the server has ended the connection."""
        with suppress(ConnectionError):
            for at in range(0, len(data), PIECE_BYTES):
                if self.writer.transport.is_closing() or self.reader.at_eof():
                    return False
                self.writer.write(data[at : at + PIECE_BYTES])
                await self.writer.drain()
                await self.look()
            return not self.reader.at_eof()
        return False

    async def look(self) -> None:
        """Read what is there."""
        with suppress(TimeoutError, ConnectionError):
            while data := await asyncio.wait_for(self.reader.read(1 << 20), 0.001):
                self.seen += self._decoder.feed(data)

    def is_answered_by_head(self, stream: int) -> bool:
        return any(kind == frames.HEADERS and number == stream for kind, _, number, _ in self.seen)

    def data_of(self, stream: int) -> bytes:
        return b"".join(payload for kind, _, number, payload in self.seen if (kind, number) == (frames.DATA, stream))

    async def ended(self, timeout_s: float = 60) -> int | None:
        """Until the server has closed it; the code of its GOAWAY, None when it sent none or that was lost."""
        with suppress(ConnectionError):
            async with asyncio.timeout(timeout_s):
                while data := await self.reader.read(1 << 20):
                    self.seen += self._decoder.feed(data)
        codes = [int.from_bytes(payload[4:8], "big") for kind, _, _, payload in self.seen if kind == frames.GOAWAY]
        return codes[0] if codes else None
