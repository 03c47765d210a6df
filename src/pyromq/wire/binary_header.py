"""The ROCKETMQ form of a header: shorter than JSON, but without room for codes above 32767.

    byte  0      2          3         5        9      13             17        17 + n        21 + n
          code   language   version   opaque   flag   remark size n  remark    ext size m    m bytes of entries

    entry: key size (2), key, value size (4), value

Big-endian, sizes signed but never negative, text in UTF-8. An empty string stands for "no value"; of two entries with
the same key the later one counts. Bytes behind the entries are ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from pyromq.errors import LocalProtocolError
from pyromq.wire.header_errors import UndecodableHeaderError

CODE_MAX: Final = 32_767

_fixed = struct.Struct(">hBhiii")
_unpack_int = struct.Struct(">i").unpack_from
_unpack_short = struct.Struct(">h").unpack_from
_pack_int = struct.Struct(">i").pack
_pack_short = struct.Struct(">h").pack


class BinaryHeader(NamedTuple):
    """What a binary header says; language is a number that need not be known."""

    code: int
    language: int
    version: int
    correlation_id: int
    flag: int
    remark: str | None
    ext: dict[str, str]


def decode_binary_header(header: bytes) -> BinaryHeader:
    """Decode a header in RocketMQ's binary form. Raises UndecodableHeaderError."""
    try:
        code, language, version, correlation_id, flag, remark_size = _fixed.unpack_from(header)
        remark_end = _end(header, _fixed.size, remark_size, "remark")
        remark = header[_fixed.size : remark_end].decode() or None
        (ext_size,) = _unpack_int(header, remark_end)
        ext_end = _end(header, remark_end + 4, ext_size, "ext block")
        ext = _decode_entries(header, remark_end + 4, ext_end)
    except struct.error:
        raise UndecodableHeaderError(f"a binary header of {len(header)} bytes ends too early") from None
    except UnicodeDecodeError as error:
        raise UndecodableHeaderError(f"a binary header holds text that is not UTF-8: {error}") from error
    return BinaryHeader(code, language, version, correlation_id, flag, remark, ext)


def _decode_entries(header: bytes, at: int, ext_end: int) -> dict[str, str]:
    ext: dict[str, str] = {}
    block = header[:ext_end]  # so that no entry reaches beyond the block
    while at < ext_end:
        (key_size,) = _unpack_short(block, at)
        key_end = at + 2 + key_size
        if key_size < 0:
            raise UndecodableHeaderError(f"a key claims {key_size} bytes")
        (value_size,) = _unpack_int(block, key_end)
        value_start = key_end + 4
        value_end = value_start + value_size
        if value_size < 0 or value_end > ext_end:
            raise UndecodableHeaderError(f"a value claims {value_size} bytes, {ext_end - value_start} are left")
        key = block[at + 2 : key_end].decode()
        value = block[value_start:value_end].decode()
        if key and value:
            ext[key] = value
        else:
            ext.pop(key, None)
        at = value_end
    return ext


def _end(header: bytes, start: int, size: int, what: str) -> int:
    end = start + size
    if size < 0 or end > len(header):
        raise UndecodableHeaderError(f"the {what} claims {size} bytes, {len(header) - start} are left in the header")
    return end


def encode_binary_header(
    code: int,
    language: int,
    version: int,
    correlation_id: int,
    flag: int,
    remark: str | None,
    ext: Mapping[str, str],
) -> bytes:
    """Encode a header in RocketMQ's binary form. Raises LocalProtocolError for what it cannot carry, POP codes above
    all.
    """
    if not -CODE_MAX - 1 <= code <= CODE_MAX:
        raise LocalProtocolError(f"code {code} does not fit a binary header, it needs a JSON one")
    try:
        remark_bytes = (remark or "").encode()
        entries: list[bytes] = []
        for key, value in ext.items():
            key_bytes, value_bytes = key.encode(), value.encode()
            entries += (_pack_short(len(key_bytes)), key_bytes, _pack_int(len(value_bytes)), value_bytes)
        block = b"".join(entries)
        fixed = _fixed.pack(code, language, version, correlation_id, flag, len(remark_bytes))
        return b"".join((fixed, remark_bytes, _pack_int(len(block)), block))
    except (struct.error, UnicodeEncodeError) as error:
        raise LocalProtocolError(f"a binary header cannot hold that: {error}") from error
