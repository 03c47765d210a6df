"""Frames of HTTP/2: cut out of a stream of bytes, and written.

    byte   0        3      4       5            9
           length   type   flags   stream id    payload                                                  big-endian

A connection begins with a preface of 24 bytes from the client. Frames above ``FRAME_BYTES_MAX`` are refused before they
are read, so a half-read frame takes no more than that.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import Final

from pyromq.errors import RemoteProtocolError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_BYTES_MAX: Final = 16_384  # RFC 9113: the default, and the least that a peer must accept
WINDOW_MAX: Final = 2**31 - 1
WINDOW_DEFAULT: Final = 65_535
HEAD_BYTES: Final = 9

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

_ID_MASK: Final = 0x7FFF_FFFF
_PAIR: Final = Struct(">HI")
_WORD: Final = Struct(">I")
_TWO_WORDS: Final = Struct(">II")
_HEAD: Final = Struct(">BHBBI")  # the length in two parts
_ENTRY_BYTES: Final = _PAIR.size


class Http2Code(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class Http2Setting(IntEnum):
    HEADER_TABLE_SIZE = 0x1
    ENABLE_PUSH = 0x2
    MAX_CONCURRENT_STREAMS = 0x3
    INITIAL_WINDOW_SIZE = 0x4
    MAX_FRAME_SIZE = 0x5
    MAX_HEADER_LIST_SIZE = 0x6


class Http2Error(RemoteProtocolError):
    """The peer broke the protocol in a way that ends the connection."""

    def __init__(self, code: Http2Code, text: str) -> None:
        super().__init__(text)
        self.code = code


class Http2StreamError(RemoteProtocolError):
    """The peer broke the protocol in a way that ends one stream."""

    def __init__(self, code: Http2Code, text: str) -> None:
        super().__init__(text)
        self.code = code


RawFrame = tuple[int, int, int, bytes]
"""Type, flags, stream id, payload."""


class Http2FrameDecoder:
    """Cuts what arrives into frames. It keeps at most one frame that is not complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def half_read_bytes(self) -> int:
        return len(self._buffer)

    def joined(self, data: bytes) -> bytes:
        """What is kept of an incomplete frame, and this behind it; nothing is kept any more."""
        if self._buffer:
            data = bytes(self._buffer) + data
            self._buffer.clear()
        return data

    def feed(self, data: bytes) -> list[RawFrame]:
        """All frames that are complete by now. Raises Http2Error for one that is too large."""
        buffer, chunk = self._buffer, data
        if buffer:
            buffer += data
            chunk = bytes(buffer)
            buffer.clear()
        frames: list[RawFrame] = []
        at, end = 0, len(chunk)
        while end - at >= HEAD_BYTES:
            high, low, kind, flags, stream_id = _HEAD.unpack_from(chunk, at)
            size = high << 16 | low
            if size > FRAME_BYTES_MAX:
                text = f"a frame of {size} bytes, at most {FRAME_BYTES_MAX} are allowed"
                raise Http2Error(Http2Code.FRAME_SIZE_ERROR, text)
            start = at + HEAD_BYTES
            if end - start < size:
                break
            at = start + size
            frames.append((kind, flags, stream_id & _ID_MASK, chunk[start:at]))
        if at < end:
            buffer += chunk[at:]
        return frames


# --- reading payloads ---


def unpadded(payload: bytes, flags: int) -> bytes:
    """What DATA and HEADERS carry, without padding. Raises Http2Error."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(Http2Code.PROTOCOL_ERROR, "a frame has more padding than bytes")
    return payload[1 : len(payload) - payload[0]]


def header_fragment(payload: bytes, flags: int, stream_id: int) -> bytes:
    """The part of a header block that HEADERS carries. Raises Http2Error."""
    payload = unpadded(payload, flags)
    if not flags & HAS_PRIORITY:
        return payload
    if len(payload) < 5:
        raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "HEADERS has a priority that is cut")
    check_priority(payload[:5], stream_id)
    return payload[5:]


def check_priority(payload: bytes, stream_id: int) -> None:
    """Priorities are read and ignored. Raises Http2StreamError, Http2Error."""
    if len(payload) != 5:
        raise Http2StreamError(Http2Code.FRAME_SIZE_ERROR, "PRIORITY has five bytes")
    if _WORD.unpack_from(payload)[0] & _ID_MASK == stream_id:
        raise Http2StreamError(Http2Code.PROTOCOL_ERROR, "a stream depends on itself")


def read_word(payload: bytes, name: str) -> int:
    """Read the only field of RST_STREAM and WINDOW_UPDATE. Raises Http2Error."""
    if len(payload) != 4:
        raise Http2Error(Http2Code.FRAME_SIZE_ERROR, f"{name} has four bytes")
    word: int = _WORD.unpack(payload)[0]
    return word


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Pairs of setting and value, checked; those that nobody knows are among them. Raises Http2Error."""
    if len(payload) % _ENTRY_BYTES:
        raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "SETTINGS is cut")
    pairs = list(_PAIR.iter_unpack(payload))
    for name, value in pairs:
        if name == Http2Setting.ENABLE_PUSH and value > 1:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, f"ENABLE_PUSH is 0 or 1, not {value}")
        if name == Http2Setting.INITIAL_WINDOW_SIZE and value > WINDOW_MAX:
            raise Http2Error(Http2Code.FLOW_CONTROL_ERROR, f"an initial window of {value} bytes is too large")
        if name == Http2Setting.MAX_FRAME_SIZE and not FRAME_BYTES_MAX <= value < 1 << 24:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, f"frames of {value} bytes at most: not between 2^14 and 2^24")
    return pairs


# --- writing ---


def frame_head(kind: int, flags: int, stream_id: int, size: int) -> bytes:
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream_id)


def encode_frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    return frame_head(kind, flags, stream_id, len(payload)) + payload


def encode_settings(values: Iterable[tuple[int, int]]) -> bytes:
    return encode_frame(SETTINGS, 0, 0, b"".join(_PAIR.pack(name, value) for name, value in values))


SETTINGS_ACK: Final = encode_frame(SETTINGS, ACK, 0, b"")


def encode_window_update(stream_id: int, size: int) -> bytes:
    return encode_frame(WINDOW_UPDATE, 0, stream_id, _WORD.pack(size))


def encode_reset(stream_id: int, code: Http2Code) -> bytes:
    return encode_frame(RST_STREAM, 0, stream_id, _WORD.pack(code))


def encode_goaway(last_stream_id: int, code: Http2Code, text: str = "") -> bytes:
    return encode_frame(GOAWAY, 0, 0, _TWO_WORDS.pack(last_stream_id, code) + text.encode()[:512])
