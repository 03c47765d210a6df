"""Bodies of messages, compressed and back, by the bits of their sysFlag.

    bit 0 set, bits 8–10:   0x000 ZLIB (old producers)   0x100 LZ4 frame   0x200 Zstandard frames   0x300 ZLIB

The producer compresses, the consumer decompresses, brokers pass the bytes on. A few bytes may stand for gigabytes, so
the size of the outcome is bounded while it grows. Damaged, truncated or foreign bytes raise DecompressionError.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

import lz4.frame
import zstandard

from pyromq.errors import LocalProtocolError, RemoteProtocolError
from pyromq.wire.flags import COMPRESSION_MASK, SysFlag

INFLATED_BYTES_MAX: Final = 64 * 1024 * 1024
ZLIB_LEVEL: Final = 5
_ZSTD_WINDOW_BYTES_MAX: Final = 32 * 1024 * 1024
_ZSTD_STEP_BYTES: Final = 256  # input; becomes 8 MiB at the very most
_LZ4_STEP_BYTES: Final = 4096  # input; becomes 1 MiB, or the block of at most 4 MiB that it completes

_ZLIB_LEGACY, _LZ4, _ZSTD, _ZLIB = 0, int(SysFlag.LZ4), int(SysFlag.ZSTD), int(SysFlag.ZLIB)


class DecompressionError(RemoteProtocolError):
    """Bytes that are not what a compressor wrote."""


class InflatedTooLargeError(DecompressionError):
    """The decompressed bytes would exceed the bound."""

    def __init__(self, *, bytes_max: int) -> None:
        super().__init__(f"it decompresses to more than {bytes_max} bytes")
        self.bytes_max = bytes_max


class TooMuchInflatedError(DecompressionError):
    """Other messages of this process hold what all of them together may have decompressed; it may be tried again."""

    def __init__(self, *, bytes_max: int) -> None:
        super().__init__(
            f"no room to decompress it: messages that listeners have now may take {bytes_max} bytes together; it is "
            "tried again later. Fewer listeners at once (threads, concurrency) need less"
        )
        self.bytes_max = bytes_max


def compress(body: bytes, algorithm: int = SysFlag.ZLIB, *, level: int = ZLIB_LEVEL) -> bytes:
    """The body compressed by the algorithm that the flag's bits 8–10 name; the level is that of the algorithm."""
    kind = algorithm & COMPRESSION_MASK
    if kind in (_ZLIB_LEGACY, _ZLIB):
        return zlib.compress(body, level)
    if kind == _LZ4:
        return bytes(lz4.frame.compress(body, compression_level=level))
    if kind == _ZSTD:
        return zstandard.ZstdCompressor(level=level).compress(body)
    raise LocalProtocolError(f"no compression has the flag {kind:#x}")


def compressed_flag(sys_flag: int, algorithm: SysFlag = SysFlag.ZLIB) -> int:
    """The flag of the same message once its body is compressed."""
    return (sys_flag & ~COMPRESSION_MASK) | algorithm | SysFlag.COMPRESSED


def decompress(body: bytes, sys_flag: int, *, bytes_max: int = INFLATED_BYTES_MAX) -> bytes:
    """The body as its producer knew it; unchanged when the flag says that it is not compressed.

    Raises DecompressionError.
    """
    if not sys_flag & SysFlag.COMPRESSED:
        return body
    kind = sys_flag & COMPRESSION_MASK
    try:
        inflate = _INFLATERS[kind]
    except KeyError:
        raise DecompressionError(f"no compression has the flag {kind:#x}") from None
    try:
        return inflate(body, bytes_max)
    except (zlib.error, zstandard.ZstdError, RuntimeError) as error:  # lz4 raises bare RuntimeErrors
        raise DecompressionError(f"the compressed bytes are damaged: {error}") from error


def inflate_zlib(data: bytes, bytes_max: int = INFLATED_BYTES_MAX) -> bytes:
    """A zlib stream; bytes behind its end are ignored, as Java does. Raises DecompressionError."""
    stream = zlib.decompressobj()
    try:
        result = stream.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise DecompressionError(f"the compressed bytes are damaged: {error}") from error
    if len(result) > bytes_max:
        raise InflatedTooLargeError(bytes_max=bytes_max)
    if not stream.eof:
        raise DecompressionError("the compressed bytes end too early")
    return result


def _inflate_lz4(data: bytes, bytes_max: int) -> bytes:
    return _inflate_frames(data, bytes_max, lz4.frame.LZ4FrameDecompressor, _LZ4_STEP_BYTES)


def _inflate_zstd(data: bytes, bytes_max: int) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    return _inflate_frames(data, bytes_max, decompressor.decompressobj, _ZSTD_STEP_BYTES)


def _inflate_frames(data: bytes, bytes_max: int, new_frame: Callable[[], Any], step_bytes: int) -> bytes:
    """One or more whole frames; fed in steps, because only so the outcome stays near its bound."""
    result = bytearray()
    position = 0
    while True:
        frame = new_frame()
        while not frame.eof and position < len(data):
            step = data[position : position + step_bytes]
            result += frame.decompress(step)
            position += len(step) - len(frame.unused_data or b"")
            if len(result) > bytes_max:
                raise InflatedTooLargeError(bytes_max=bytes_max)
        if not frame.eof:
            raise DecompressionError("the compressed bytes end too early")
        if position == len(data):
            return bytes(result)


_INFLATERS: Final[dict[int, Callable[[bytes, int], bytes]]] = {
    _ZLIB_LEGACY: inflate_zlib,
    _LZ4: _inflate_lz4,
    _ZSTD: _inflate_zstd,
    _ZLIB: inflate_zlib,
}
