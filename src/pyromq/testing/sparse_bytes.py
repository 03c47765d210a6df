"""Sparse buffers: zeroes that take no memory until something is written there, as in a sparse file."""

from __future__ import annotations

import mmap
from typing import Final

Sparse = bytearray | mmap.mmap

_SPARSE_FROM_BYTES: Final = 1 << 17  # smaller ones are quicker as a bytearray
_CAN_BE_SPARSE: Final = hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS")  # shared memory is never sparse


def zeroes(size: int) -> Sparse:
    """A buffer of zeroes; a large one gets its memory page by page, when it is written."""
    if size < _SPARSE_FROM_BYTES or not _CAN_BE_SPARSE:
        return bytearray(size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def copied(data: Sparse, used: int, size: int | None = None) -> Sparse:
    """A copy, cut or filled with zeroes to ``size``; from ``used`` on the data is zeroes and not looked at."""
    size = len(data) if size is None else size
    kept = zeroes(size)
    end = min(used, size, len(data))
    kept[:end] = data[:end]
    return kept
