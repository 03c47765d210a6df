"""Arrow buffers from numpy bytes and back, without an object for any value."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
_HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def fixed_width(rows: Bytes, kind: pa.DataType | None = None) -> pa.Array:
    """Each row of a table of bytes becomes a value."""
    count, width = rows.shape
    ends = np.arange(count + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(kind or pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(rows)])


def hexadecimal(values: npt.NDArray[Any]) -> Bytes:
    """The bytes of each value, as they lie, in upper-case digits: one row a value."""
    count = len(values)
    width = values.itemsize * math.prod(values.shape[1:])
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(count, width)
    digits = np.empty((count, width, 2), np.uint8)
    digits[..., 0], digits[..., 1] = _HEX[raw >> 4], _HEX[raw & 15]
    return digits.reshape(count, 2 * width)


def all_bytes(values: pa.Array) -> bytes:
    """Bytes of all texts or binaries of an array, one behind the other; those of nulls may be among them."""
    _, offsets, data = values.buffers()
    if not len(values) or data is None:
        return b""
    kind = np.int64 if pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type) else np.int32
    places = np.frombuffer(offsets, kind)
    return bytes(memoryview(data)[places[values.offset] : places[values.offset + len(values)]])
