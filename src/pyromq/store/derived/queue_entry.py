"""Queue entries: where one message of a queue lies in the commit log.

    byte   0          8      12         20
           position   size   tag_hash        big-endian

An offset whose record is lost has a *filler entry*: size 0x7FFFFFFF, tag hash 0, and the position of the record behind
it (0 where a queue begins in the middle of a file), so that positions never go down.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

ENTRY = struct.Struct(">qiq")
ENTRY_BYTES = ENTRY.size
FILLER_SIZE = 0x7FFFFFFF


class QueueEntry(NamedTuple):
    position: int
    size: int
    tag_hash: int


FILLER_AT_START = QueueEntry(0, FILLER_SIZE, 0)


def position_of(entry: bytes) -> int:
    return int.from_bytes(entry[:8], "big", signed=True)


def entry_numbers(data: bytes) -> tuple[int, ...]:
    """Position, size and tag hash of all entries in there, one behind the other."""
    return _struct_of(len(data) // ENTRY_BYTES).unpack(data)


@lru_cache(maxsize=256)
def _struct_of(count: int) -> struct.Struct:
    return struct.Struct(">" + ENTRY.format[1:] * count)
