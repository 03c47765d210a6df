"""Queue entries: where one message of a queue lies in the commit log.

    byte   0          8      12         20
           position   size   tag_hash        big-endian

An offset whose record is lost has a *filler entry*: size 0x7FFFFFFF, tag hash 0, and the position of the record behind
it (0 where a queue begins in the middle of a file), so that positions never go down.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

ENTRY = struct.Struct(">qiq")
ENTRY_BYTES = ENTRY.size
POSITION_AND_SIZE = struct.Struct(">qi")  # an entry begins with them
FILLER_SIZE = 0x7FFFFFFF
_KEPT_MAX = 128  # entries; a struct takes a hundred bytes for each, and clients choose how many they ask for


class QueueEntry(NamedTuple):
    position: int
    size: int
    tag_hash: int


FILLER_AT_START = QueueEntry(0, FILLER_SIZE, 0)


def position_of(entry: bytes) -> int:
    return int.from_bytes(entry[:8], "big", signed=True)


def positions_and_sizes(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Unpack positions and sizes of all entries in ``data``."""
    numbers = _numbers("qi8x", data)
    return numbers[0::2], numbers[1::2]


def tag_hashes(data: bytes) -> tuple[int, ...]:
    """Unpack tag hashes of all entries in ``data``."""
    return _numbers("12xq", data)


def _numbers(entry: str, data: bytes) -> tuple[int, ...]:
    count = len(data) // ENTRY_BYTES
    if count <= _KEPT_MAX:
        return _struct_of(entry, count).unpack(data)
    return tuple(chain.from_iterable(_struct_of(entry, 1).iter_unpack(data)))


@lru_cache(maxsize=2 * (_KEPT_MAX + 1))
def _struct_of(entry: str, count: int) -> struct.Struct:
    return struct.Struct(">" + entry * count)
