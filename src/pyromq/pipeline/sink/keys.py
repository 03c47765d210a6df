"""Unique keys of rows: the same row of the same batch has the same key, however often Spark runs the batch.

    byte   0              8       12          16    20          22     26         28
           query          batch   partition   row   run (high)  0000   run (low)           written as upper-case hex
           digest

The form is that of a client with an IPv6 address, with a time of 0 in the place of the time: tools that guess from a
key when its message was sent guess the beginning of the month, and find it. ``run`` is 0, or the number of the one
attempt of a task that may be committed. A row that brings its own identity has its digest in place of batch,
partition, row and run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa

from pyromq.pipeline.arrow.buffers import fixed_width, hexadecimal

_DIGEST_BYTES: Final = 8
_OWN_BYTES: Final = 14
KEY_CHARACTERS: Final = 56
_ROW_AT, _TAIL_AT = 32, 40
ROWS_MAX: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class KeyParts:
    """Parts of a row's key."""

    digest: str
    batch: int
    partition: int
    row: int
    run: int


def digest_of(identity: str) -> str:
    """Digest of a query's identity, or of whatever stands for it."""
    return blake2b(identity.encode(), digest_size=_DIGEST_BYTES).hexdigest().upper()


class RowKeys:
    """Unique keys of the rows of one partition of one batch: ``head + eight digits of the row + tail``."""

    def __init__(self, identity: str, batch: int, partition: int, run: int = 0) -> None:
        self.digest = digest_of(identity)
        self.head = f"{self.digest}{batch & 0xFFFFFFFF:08X}{partition & 0xFFFFFFFF:08X}"
        self.tail = f"{run >> 16 & 0xFFFF:04X}00000000{run & 0xFFFF:04X}"

    def of_row(self, row: int) -> str:
        return f"{self.head}{row:08X}{self.tail}"

    def column(self, first: int, count: int) -> pa.Array:
        """Those of ``count`` rows from ``first`` on, as bytes."""
        digits = np.empty((count, KEY_CHARACTERS), np.uint8)
        digits[:, :_ROW_AT] = np.frombuffer(self.head.encode(), np.uint8)
        digits[:, _ROW_AT:_TAIL_AT] = hexadecimal(np.arange(first, first + count, dtype=">u4"))
        digits[:, _TAIL_AT:] = np.frombuffer(self.tail.encode(), np.uint8)
        return fixed_width(digits)

    def of_own(self, own: str) -> str:
        return f"{self.digest}{blake2b(own.encode(), digest_size=_OWN_BYTES).hexdigest().upper()}000000000000"


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys of rows that follow each other, each made when it is asked for."""

    keys: RowKeys
    first: int
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        return map(self.keys.of_row, range(self.first, self.first + self.count))


def next_run(key: str) -> str:
    """Key of the row under the next number of its run, for when it is not known whether it arrived under this one."""
    parts = parse_key(key)
    assert parts is not None
    run = parts.run + 1
    return f"{key[:40]}{run >> 16 & 0xFFFF:04X}00000000{run & 0xFFFF:04X}"


def parse_key(key: str) -> KeyParts | None:
    """None for what is not a key of a row."""
    if len(key) != KEY_CHARACTERS or key[44:52] != "00000000":
        return None
    try:
        batch, partition, row = (int(key[start : start + 8], 16) for start in (16, 24, 32))
        run = int(key[40:44], 16) << 16 | int(key[52:56], 16)
    except ValueError:
        return None
    return KeyParts(key[:16], batch, partition, row, run)
