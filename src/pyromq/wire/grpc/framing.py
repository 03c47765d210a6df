"""gRPC on HTTP/2: messages within DATA, metadata within header lists, the outcome within trailers.

byte   0            1        5
       compressed   length   message          big-endian; compressed is 0, or 1 for the algorithm of grpc-encoding
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final
from urllib.parse import quote

from pyromq.errors import RemoteProtocolError

_PREFIX: Final = Struct(">BI")
PREFIX_BYTES: Final = _PREFIX.size
_TIMEOUT_UNITS: Final = {b"H": 3_600_000.0, b"M": 60_000.0, b"S": 1_000.0, b"m": 1.0, b"u": 1e-3, b"n": 1e-6}
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


class GrpcStatus(IntEnum):
    """How a call ended, as gRPC has it; what an application says is within its response."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcError(RemoteProtocolError):
    """A call that ends with a status of gRPC."""

    def __init__(self, status: GrpcStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def with_prefix(message: bytes) -> bytes:
    return _PREFIX.pack(0, len(message)) + message


def without_prefixes(data: bytes) -> Iterator[bytes]:
    """Messages that lie one behind the other, each with its prefix; none is compressed or cut."""
    at = 0
    while at < len(data):
        end = at + PREFIX_BYTES + int.from_bytes(data[at + 1 : at + PREFIX_BYTES], "big")
        yield data[at + PREFIX_BYTES : end]
        at = end


class MessageCutter:
    """Cuts the DATA of one stream into messages, decompressed. It keeps at most one that is not complete."""

    __slots__ = ("_bytes_max", "_encoding", "_need", "buffer")

    def __init__(self, bytes_max: int, encoding: bytes = b"identity") -> None:
        self._bytes_max = bytes_max
        self._encoding = encoding
        self.buffer = bytearray()
        self._need = PREFIX_BYTES  # bytes of the buffer before it is worth a look

    def feed(self, data: bytes) -> list[bytes]:
        """Messages that are complete by now. Raises GrpcError."""
        if not self.buffer and len(data) >= PREFIX_BYTES:  # nearly always one message in one frame
            compressed, size = _PREFIX.unpack_from(data)
            if not compressed and size == len(data) - PREFIX_BYTES and size <= self._bytes_max:
                return [data[PREFIX_BYTES:]]
        buffer = self.buffer
        buffer += data
        if len(buffer) < self._need:
            return []
        found: list[bytes] = []
        at = 0
        self._need = PREFIX_BYTES
        while len(buffer) - at >= PREFIX_BYTES:
            compressed, size = _PREFIX.unpack_from(buffer, at)
            self._check(compressed, size)
            end = at + PREFIX_BYTES + size
            if end > len(buffer):
                self._need = end - at
                break
            found.append(self._plain(compressed, bytes(buffer[at + PREFIX_BYTES : end])))
            at = end
        del buffer[:at]
        return found

    def _check(self, compressed: int, size: int) -> None:
        if compressed > 1:
            raise GrpcError(GrpcStatus.INTERNAL, f"a message begins with the byte {compressed}, not with 0 or 1")
        if size > self._bytes_max:
            text = f"a message of {size} bytes, at most {self._bytes_max} are allowed"
            raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, text)

    def _plain(self, compressed: int, data: bytes) -> bytes:
        if not compressed:
            return data
        if self._encoding not in (b"gzip", b"deflate"):
            text = f"messages may be compressed by gzip or deflate, not by {self._encoding.decode(errors='replace')!r}"
            raise GrpcError(GrpcStatus.UNIMPLEMENTED, text)
        return inflated(data, self._bytes_max, _GZIP_WINDOW if self._encoding == b"gzip" else zlib.MAX_WBITS)


def inflated(data: bytes, bytes_max: int, window: int = _GZIP_WINDOW) -> bytes:
    """The bytes of a gzip (or zlib) stream. Raises GrpcError for damaged ones, and for those that are too many."""
    stream = zlib.decompressobj(window)
    try:
        plain = stream.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise GrpcError(GrpcStatus.INTERNAL, f"compressed bytes are damaged: {error}") from error
    if len(plain) > bytes_max:
        text = f"it decompresses to more than {bytes_max} bytes"
        raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, text)
    if not stream.eof:
        raise GrpcError(GrpcStatus.INTERNAL, "compressed bytes end too early")
    return plain


def timeout_ms(text: bytes | None) -> float | None:
    """How long the caller waits; None when it does not say, or not in gRPC's form (at most eight digits and a unit)."""
    if not text or not text[:-1].isdigit() or len(text) > 9:
        return None
    unit = _TIMEOUT_UNITS.get(text[-1:])
    return None if unit is None else int(text[:-1]) * unit


def message_text(text: str) -> bytes:
    """``grpc-message``, percent-encoded."""
    return quote(text[:1000], safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~").encode()
