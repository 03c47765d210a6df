"""Fixed parts of the records of one batch: what they share is packed once.

    byte  0 … 36                                             SHARED_AT        body size
          size, magic, CRC, queue, flag, offset, position    shared           own
          of each record                                     by all

The plain form is ``record_layout.FIXED``, with every field of every record.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pyromq.wire.record import Draft
from pyromq.wire.record_layout import FIXED, SYS_FLAG_AT

SHARED_AT: Final = SYS_FLAG_AT
_BODY_SIZE_BYTES: Final = 4

BATCH_HEADS: Final = tuple(Struct(f">IIIiiqq{fixed.size - SHARED_AT - _BODY_SIZE_BYTES}si").pack for fixed in FIXED)
"""By ``sys_flag >> 4 & 3``: packs size, magic, body CRC, queue id, flag, offset, position, shared, body size."""


def pack_shared(shared: Draft, sys_flag: int, stored_ms: int, store_host: bytes) -> bytes:
    """What the fixed parts have in common, from the system flag on. Raises struct.error for what does not fit."""
    whole = FIXED[sys_flag >> 4 & 3].pack(
        *(0, 0, 0, shared.queue_id, 0, 0, 0, sys_flag, shared.born_ms, shared.born_host),
        *(stored_ms, store_host, shared.delivery_attempt, shared.prepared_position, 0),
    )
    return whole[SHARED_AT:-_BODY_SIZE_BYTES]
