"""Remembered: a cache with a bound in bytes, for what follows from names that peers send.

A bound in entries alone is none where a name may have a megabyte. When there is no room for the next entry everything
is forgotten: what is remembered here can be found out again at any time.
"""

from __future__ import annotations

import sys
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

ENTRY_BYTES: Final = 400  # of the table, tuples and small objects of one entry
_SHARE: Final = 256  # one entry has at most this part of all bytes


class Remembered(dict[K, V]):
    """Looked up as the dictionary that it is; only ``remember`` adds to it."""

    __slots__ = ("_bytes_max", "size_bytes")

    def __init__(self, bytes_max: int) -> None:
        super().__init__()
        self._bytes_max = bytes_max
        self.size_bytes = 0

    def remember(self, key: K, value: V, *texts: str) -> V:
        """The value. ``texts``: those in key and value that a peer chose, or that hold some of that."""
        size = ENTRY_BYTES + sum(map(sys.getsizeof, texts))
        if size * _SHARE > self._bytes_max:
            return value
        if self.size_bytes + size > self._bytes_max:
            self.clear()
        if key not in self:
            self.size_bytes += size
        self[key] = value
        return value

    def clear(self) -> None:
        super().clear()
        self.size_bytes = 0
