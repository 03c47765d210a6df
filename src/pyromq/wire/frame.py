"""Frames: how a byte stream falls apart into headers and bodies.

    byte  0              4                  8             8 + header size
          total length   type | header size  header        body

Big-endian. The total length counts what follows it; the high byte of the second word is the serialize type, its other
three bytes are the size of the header. A frame is at most 16 MiB long, its first four bytes included.

The decoder keeps what arrived and nothing more: a claimed size is checked as soon as it is known and reserves no
memory. Every byte is copied a bounded number of times, in however small pieces a frame arrives.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

import msgspec

from pyromq.errors import LocalProtocolError, RemoteProtocolError

FRAME_BYTES_MAX: Final = 16_777_216
HEADER_BYTES_MAX: Final = 0xFF_FFFF  # three bytes hold its size
PREFIX_BYTES: Final = 8

_prefix = Struct(">II")
unpack_prefix: Final = _prefix.unpack_from
pack_prefix: Final = _prefix.pack
"""Total length, and type and size of the header: unchecked, for headers and bodies that are known to be small."""


class SerializeType(IntEnum):
    """How the header of a frame is written."""

    JSON = 0
    ROCKETMQ = 1


_TYPES: Final = (SerializeType.JSON, SerializeType.ROCKETMQ)


class Frame(msgspec.Struct, frozen=True, gc=False):
    """Header and body as they travelled."""

    serialize_type: SerializeType
    header: bytes
    body: bytes = b""


class FrameError(RemoteProtocolError):
    """The stream holds something that is no frame, so nothing behind it can be understood.

    ``whole_frames`` are those of the same chunk that came before the damage.
    """

    def __init__(self, message: str, whole_frames: list[Frame]) -> None:
        super().__init__(message)
        self.whole_frames = whole_frames


class FrameTooLargeError(FrameError):
    """A frame claims more bytes than are allowed."""


class FrameDecoder:
    """Bytes in, frames out. One per connection; dead after its first error."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._bytes_max = min(bytes_max, 0x7FFF_FFFF)  # lengths are signed
        self.half_read = bytearray()  # the beginning of a frame that is not complete; empty between frames
        self._needed = PREFIX_BYTES  # how long that must be before looking at it makes sense
        self._failure: tuple[type[FrameError], str] | None = None  # not the error: its traceback would hold this object

    @property
    def buffered_bytes(self) -> int:
        """How much of an incomplete frame is held; 0 between frames."""
        return len(self.half_read)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames that data completes, in order. Raises FrameError, then and at every later call."""
        if self._failure is not None:
            error_type, text = self._failure
            raise error_type(text, [])
        chunk = self.gather(data) if self.half_read else data
        if chunk is None:
            return []
        return self._split(chunk if type(chunk) is bytes else bytes(chunk))

    def gather(self, data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview | None:
        """All that is not cut into frames yet, in one piece, which the caller takes over; None when that is too little.

        What it does not take of it, from the beginning of a frame on, it feeds.
        """
        if not self.half_read:
            return data
        self.half_read += data
        if len(self.half_read) < self._needed:
            return None
        chunk = bytes(self.half_read)
        self.half_read = bytearray()
        return chunk

    def _split(self, chunk: bytes) -> list[Frame]:
        frames: list[Frame] = []
        size, start, needed, bytes_max = len(chunk), 0, PREFIX_BYTES, self._bytes_max
        while size - start >= PREFIX_BYTES:
            length, word = unpack_prefix(chunk, start)
            header_size = word & HEADER_BYTES_MAX
            if not header_size + 4 <= length <= bytes_max - 4 or word >> 24 > 1:
                raise self._fail(length, word, frames)
            needed = length + 4
            if size - start < needed:
                break
            body_start = start + PREFIX_BYTES + header_size
            end = start + needed
            frames.append(Frame(_TYPES[word >> 24], chunk[start + PREFIX_BYTES : body_start], chunk[body_start:end]))
            start, needed = end, PREFIX_BYTES
        if start < size:
            self.half_read += chunk[start:] if start else chunk
            self._needed = needed
        return frames

    def _fail(self, length: int, word: int, frames: list[Frame]) -> FrameError:
        self._failure = error_type, text = _explain(length, word, self._bytes_max)
        return error_type(text, frames)


def encode_frame(frame: Frame, *, bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """The frame as bytes. Raises LocalProtocolError for one that a peer would refuse."""
    return encode_prefix(frame.serialize_type, frame.header, len(frame.body), bytes_max) + frame.body


def encode_prefix(
    serialize_type: SerializeType, header: bytes, body_size: int, bytes_max: int = FRAME_BYTES_MAX
) -> bytes:
    """Everything before the body, for bodies that are written from where they lie."""
    header_size = len(header)
    length = 4 + header_size + body_size
    if length + 4 > bytes_max:
        raise LocalProtocolError(f"a frame of {length + 4} bytes is larger than the {bytes_max} that peers accept")
    if header_size > HEADER_BYTES_MAX:
        raise LocalProtocolError(f"a header of {header_size} bytes does not fit the frame format")
    return pack_prefix(length, serialize_type << 24 | header_size) + header


def _explain(length: int, word: int, bytes_max: int) -> tuple[type[FrameError], str]:
    if length > 0x7FFF_FFFF:
        return FrameError, f"a frame claims a negative length ({length - (1 << 32)})"
    if length + 4 > bytes_max:
        return FrameTooLargeError, f"a frame claims {length + 4} bytes, at most {bytes_max} are allowed"
    if length < 4:
        return FrameError, f"a frame claims a length of {length}, too short for the header size that it must hold"
    if word >> 24 > 1:
        return FrameError, f"a frame has the unknown serialize type {word >> 24}"
    return FrameError, f"a frame of {length + 4} bytes claims a header of {word & HEADER_BYTES_MAX} bytes"
