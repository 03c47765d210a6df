"""Body of a batch send: items back to back, each one message of the same queue.

    byte   0       4       8      12     16            20      20+n                22+n
           total   0       0      flag   body length   body    properties length   properties
           size    magic   crc                                 (i16)                             big-endian

Magic and CRC are written as 0 and ignored by readers: the broker computes the CRC anew.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Self

import msgspec

from pyromq.errors import LocalProtocolError, PropertiesTooLargeError, RemoteProtocolError
from pyromq.wire.properties import PROPERTIES_BYTES_MAX

_HEAD = struct.Struct(">iiiii")
_read_head = struct.Struct(">i8xii").unpack_from
_PROPERTIES_LENGTH = struct.Struct(">h")
_read_properties_length = _PROPERTIES_LENGTH.unpack_from
pack_item_head = _HEAD.pack
"""Total size, magic 0, CRC 0, flag, body size."""
pack_properties_length = _PROPERTIES_LENGTH.pack
_HEAD_BYTES, _LENGTH_BYTES = _HEAD.size, _PROPERTIES_LENGTH.size
ITEM_OVERHEAD_BYTES = _HEAD_BYTES + _LENGTH_BYTES


class BatchItem(msgspec.Struct, frozen=True, gc=False):
    body: bytes
    properties: bytes = b""
    flag: int = 0


class Batch(NamedTuple):
    """The items by columns, all of one length: so a store can do each step for all of them at once."""

    bodies: list[bytes]
    properties: list[bytes]
    flags: list[int]

    @classmethod
    def of(cls, items: Iterable[BatchItem]) -> Self:
        found = list(items)
        return cls([each.body for each in found], [each.properties for each in found], [each.flag for each in found])

    def items(self) -> list[BatchItem]:
        return list(map(BatchItem, *self))


def encode_batch(items: Iterable[BatchItem]) -> bytes:
    parts: list[bytes] = []
    for item in items:
        body_bytes, properties_bytes = len(item.body), len(item.properties)
        if properties_bytes > PROPERTIES_BYTES_MAX:
            raise PropertiesTooLargeError(
                what="properties of a batch item", size_bytes=properties_bytes, bytes_max=PROPERTIES_BYTES_MAX
            )
        total = ITEM_OVERHEAD_BYTES + body_bytes + properties_bytes
        try:
            head = pack_item_head(total, 0, 0, item.flag, body_bytes)
        except struct.error as error:
            raise LocalProtocolError(f"flag {item.flag} or size {total} of a batch item is too large") from error
        parts += (
            head,
            item.body,
            pack_properties_length(properties_bytes),
            item.properties,
        )
    return b"".join(parts)


def decode_batch(data: bytes) -> Batch:
    """All items, or RemoteProtocolError when lengths do not add up; never half of a batch."""
    return _decode_alike(data) or _decode_each(data)


def _decode_alike(data: bytes) -> Batch | None:
    """Items that all have the lengths of the first, in one step; None for others, and for what does not add up."""
    if len(data) < ITEM_OVERHEAD_BYTES:
        return None
    total, _, body_bytes = _read_head(data)
    text_bytes = total - body_bytes - ITEM_OVERHEAD_BYTES
    if body_bytes < 0 or not 0 <= text_bytes <= PROPERTIES_BYTES_MAX or len(data) % total:
        return None
    found = _item(body_bytes, text_bytes).iter_unpack(data)
    totals, flags, body_sizes, bodies, text_sizes, texts = zip(*found, strict=True)
    count = len(totals)
    if totals.count(total) < count or body_sizes.count(body_bytes) < count or text_sizes.count(text_bytes) < count:
        return None
    return Batch(list(bodies), list(texts), list(flags))


@lru_cache(maxsize=256)
def _item(body_bytes: int, text_bytes: int) -> struct.Struct:
    """Total size, flag, body size, body, properties length, properties."""
    return struct.Struct(f">i8xii{body_bytes}sh{text_bytes}s")


def _decode_each(data: bytes) -> Batch:
    bodies: list[bytes] = []
    texts: list[bytes] = []
    flags: list[int] = []
    start, end = 0, len(data)
    while start < end:
        if end - start < ITEM_OVERHEAD_BYTES:
            raise RemoteProtocolError(f"batch item {len(bodies)} is cut: {end - start} bytes left")
        total, flag, body_bytes = _read_head(data, start)
        body_start, item_end = start + _HEAD_BYTES, start + total
        body_end = body_start + body_bytes
        text_start = body_end + _LENGTH_BYTES
        if body_bytes < 0 or item_end > end or text_start > item_end:
            raise RemoteProtocolError(
                f"batch item {len(bodies)} has impossible lengths: {total} total, {body_bytes} body"
            )
        (text_bytes,) = _read_properties_length(data, body_end)
        if text_start + text_bytes != item_end or text_bytes < 0:
            raise RemoteProtocolError(f"batch item {len(bodies)} has impossible properties length {text_bytes}")
        bodies.append(data[body_start:body_end])
        texts.append(data[text_start:item_end])
        flags.append(flag)
        start = item_end
    return Batch(bodies, texts, flags)


def count_items(data: bytes) -> int:
    """How many messages a batch holds, by the sizes that it says; lengths that do not add up end the count."""
    count, start, end = 0, 0, len(data)
    while end - start >= ITEM_OVERHEAD_BYTES:
        count += 1
        start += max(ITEM_OVERHEAD_BYTES, _read_head(data, start)[0])
    return count
