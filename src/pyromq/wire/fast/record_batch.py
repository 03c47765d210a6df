"""Records of one batch, each step done for all of them at once.

    byte  0 … 36                                             SHARED_AT        body size
          size, magic, CRC, queue, flag, offset, position    shared           own
          of each record                                     by all

What their fixed parts share is packed once. The plain form is ``record.encode_record``, for each message by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count, repeat
from struct import Struct
from typing import Final, NamedTuple

from pyromq.checksum import CRC_MASK, crc32
from pyromq.wire.batch import Batch
from pyromq.wire.record import Draft, checksum_properties
from pyromq.wire.record_layout import CHECKSUM_BYTES, FIXED, SYS_FLAG_AT

SHARED_AT: Final = SYS_FLAG_AT
_BODY_SIZE_BYTES: Final = 4

BATCH_HEADS: Final = tuple(Struct(f">IIIiiqq{fixed.size - SHARED_AT - _BODY_SIZE_BYTES}si").pack for fixed in FIXED)
"""By ``sys_flag >> 4 & 3``: packs size, magic, body CRC, queue id, flag, offset, position, shared, body size."""


class SharedFields(NamedTuple):
    """What the records of a batch have in common."""

    kind: int  # which of ``FIXED``
    magic: int
    queue_id: int
    middle: bytes  # as ``pack_shared`` gives it
    topic_field: bytes
    checksums: bool


class Places(NamedTuple):
    """Where the records of a batch lie, in their order."""

    positions: list[int]
    sizes: list[int]
    offset: int  # of the first of them; the others follow


def pack_shared(shared: Draft, sys_flag: int, stored_ms: int, store_host: bytes) -> bytes:
    """What the fixed parts have in common, from the system flag on. Raises struct.error for what does not fit."""
    whole = FIXED[sys_flag >> 4 & 3].pack(
        *(0, 0, 0, shared.queue_id, 0, 0, 0, sys_flag, shared.born_ms, shared.born_host),
        *(stored_ms, store_host, shared.delivery_attempt, shared.prepared_position, 0),
    )
    return whole[SHARED_AT:-_BODY_SIZE_BYTES]


def encode_records(batch: Batch, shared: SharedFields, places: Places) -> Iterator[bytes]:
    """The records in pieces, the bodies as they are.

    ``batch`` has properties as they are stored, without checksum. Raises struct.error for flags that do not fit.
    """
    bodies, texts, flags = batch
    heads = list(
        map(
            BATCH_HEADS[shared.kind],
            places.sizes,
            repeat(shared.magic),
            [crc32(body) & CRC_MASK for body in bodies],
            repeat(shared.queue_id),
            flags,
            count(places.offset),
            places.positions,
            repeat(shared.middle),
            map(len, bodies),
        )
    )
    tails = _tails(texts, shared)
    if not shared.checksums:
        return chain.from_iterable(zip(heads, bodies, tails, strict=True))
    checksums = checksum_properties(map(crc32, tails, map(crc32, bodies, map(crc32, heads))))
    return chain.from_iterable(zip(heads, bodies, tails, checksums, strict=True))


def _tails(texts: list[bytes], shared: SharedFields) -> list[bytes]:
    """What follows the bodies."""
    more, field = CHECKSUM_BYTES if shared.checksums else 0, shared.topic_field
    if not any(texts):
        return [field + more.to_bytes(2, "big")] * len(texts)
    before = {size: field + (size + more).to_bytes(2, "big") for size in set(map(len, texts))}
    return [before[len(text)] + text for text in texts]
