"""Stored properties of many messages as Arrow arrays: one value of each, or all as maps.

``name 0x01 value 0x02`` repeated; the last 0x02 may be missing. Items without name or value do not count, and of a
repeated name the last does (``pyromq.wire.properties``). The checksum of a record is no property of its message. What
is not that regular is taken apart message by message. Bytes that are not UTF-8 are replaced here: a column of texts
must not end the query that reads it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyromq.model.property_names import CHECKSUM, ITEM_END, NAME_END
from pyromq.pipeline.arrow.columns import PROPERTIES_MAP
from pyromq.pipeline.arrow.layout import Ints
from pyromq.wire.properties import find_property
from pyromq.wire.property_text import split_items
from pyromq.wire.record_layout import CHECKSUM_BYTES

_NAME_END, _ITEM_END = ord(NAME_END), ord(ITEM_END)
_CHECKSUM: Final = CHECKSUM.encode()
_BITS: Final = 48  # 32 767 bytes have at most 10 922 items: sums stay below 2**62
_WORDS: Final = {4: "u4", 8: "u8"}  # names of these lengths are compared as one number


def spans(data: Any, starts: Ints, ends: Ints, kind: pa.DataType) -> pa.Array:
    """The bytes [start, end) of each row, copied once, by Arrow. Starts and ends must not go back.

    The buffer is described as row, gap, row, gap, …, and of that every second element is taken.
    """
    count = len(starts)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    whole = pa.Array.from_buffers(kind, max(0, 2 * count - 1), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return whole.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


class Properties:
    """Properties of some messages: ``starts`` and ``ends`` say where each one's lie in ``data``."""

    def __init__(self, data: Any, starts: Ints, ends: Ints) -> None:
        self.raw = _readable(spans(data, starts, ends, pa.binary()))  # of each message, as UTF-8
        self._count = len(starts)
        _, offsets, values = self.raw.buffers()
        self._bytes = memoryview(values) if values is not None else memoryview(b"")
        places = np.frombuffer(offsets, np.int32)[self.raw.offset : self.raw.offset + self._count + 1]
        self._starts = places[:-1].astype(np.int64)  # of each message in ``_bytes``
        self._ends = places[1:].astype(np.int64)
        self._items = _items(np.frombuffer(self._bytes, np.uint8), self._starts, self._ends)  # None: irregular

    def text(self) -> pa.Array:
        """Properties as they are stored, without the checksum of the record."""
        ends = self._ends_without_checksum()
        return _as_text(self.raw) if ends is None else spans(self._bytes, self._starts, ends, pa.string())

    def values(self, name: bytes) -> pa.Array:
        """The value of one property of each message, null where it has none."""
        if self._items is None:
            found = [find_property(raw, name) for raw in self.raw.to_pylist()]
            return pa.array([None if each is None else each.decode("utf-8", "replace") for each in found], pa.string())
        rows, name_starts, name_ends, value_ends = self._items
        match = self._named(name, name_starts, name_ends)
        starts, ends = self._starts.copy(), self._starts.copy()
        starts[rows[match]], ends[rows[match]] = name_ends[match] + 1, value_ends[match]  # the last one counts
        texts = spans(self._bytes, starts, ends, pa.string())
        missing = starts == ends
        if not missing.any():
            return texts
        return pa.Array.from_buffers(pa.string(), len(texts), [_bits(~missing), *texts.buffers()[1:]])

    def _named(self, name: bytes, starts: Ints, ends: Ints) -> Ints:
        """Which items have that name."""
        found: Ints = np.flatnonzero(ends - starts == len(name))
        kind = _WORDS[len(name)]
        view = np.ndarray((max(0, len(self._bytes) - len(name) + 1),), f">{kind}", self._bytes, strides=(1,))
        named: Ints = found[view[starts[found]] == int.from_bytes(name, "big")]
        return named

    def _ends_without_checksum(self) -> Ints | None:
        """None where no record has one; it is the last property, and always as long."""
        begins = self._ends - CHECKSUM_BYTES
        rows: Ints = np.flatnonzero(begins >= self._starts)
        words = np.ndarray((max(0, len(self._bytes) - 7),), ">u8", self._bytes, strides=(1,))
        rows = rows[words[begins[rows]] == int.from_bytes(_CHECKSUM, "big")]
        octets = np.frombuffer(self._bytes, np.uint8)
        is_whole_name = octets[begins[rows] + len(_CHECKSUM)] == _NAME_END
        is_first = (begins[rows] == self._starts[rows]) | (octets[begins[rows] - 1] == _ITEM_END)
        rows = rows[is_whole_name & is_first]
        if not len(rows):
            return None
        ends: Ints = self._ends.copy()
        ends[rows] = begins[rows]
        return ends

    def maps(self) -> pa.Array:
        if self._items is None:
            return self._maps_one_by_one()
        rows, name_starts, name_ends, value_ends = self._items
        checksums = self._named(_CHECKSUM, name_starts, name_ends)
        if len(checksums):
            rows, name_starts, name_ends, value_ends = (np.delete(each, checksums) for each in self._items)
        names = spans(self._bytes, name_starts, name_ends, pa.string())
        if _repeats(rows, names):
            return self._maps_one_by_one()
        values = spans(self._bytes, name_ends + 1, value_ends, pa.string())
        offsets = np.searchsorted(rows, np.arange(self._count + 1)).astype(np.int32)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), names, values)

    def _maps_one_by_one(self) -> pa.Array:
        return pa.array([list(_pairs(raw).items()) for raw in self.raw.to_pylist()], PROPERTIES_MAP)


def _items(data: npt.NDArray[np.uint8], starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints, Ints] | None:
    """Row, start and end of the name, end of the value of every item; None if they are not regular."""
    name_ends: Ints = np.flatnonzero(data == _NAME_END)
    value_ends: Ints = np.flatnonzero(data == _ITEM_END)
    gaps = np.ones(len(value_ends), np.int64)  # bytes between the end of an item and the next one
    filled = starts < ends
    unclosed = ends[filled][data[ends[filled] - 1] != _ITEM_END]
    if len(unclosed):
        value_ends = np.concatenate((unclosed, value_ends))
        gaps = np.concatenate((np.zeros(len(unclosed), np.int64), gaps))
        order = np.argsort(value_ends, kind="stable")
        value_ends, gaps = value_ends[order], gaps[order]
    if len(name_ends) != len(value_ends):
        return None
    name_starts: Ints = np.concatenate((starts[:1], (value_ends + gaps)[:-1])) if len(name_ends) else name_ends
    rows: Ints = np.searchsorted(starts, name_ends, side="right") - 1
    if not ((name_starts <= name_ends) & (name_ends < value_ends) & (value_ends <= ends[rows])).all():
        return None
    counted = (name_starts < name_ends) & (name_ends + 1 < value_ends)
    if not counted.all():
        return rows[counted], name_starts[counted], name_ends[counted], value_ends[counted]
    return rows, name_starts, name_ends, value_ends


def _repeats(rows: Ints, names: pa.Array) -> bool:
    """Whether a message has a name twice."""
    if not len(rows):
        return False
    codes = names.dictionary_encode().indices.to_numpy().astype(np.int64)
    if codes.max() < _BITS:  # a bit for each name: their sum has other bits than their union where one is twice
        bits, firsts = 1 << codes, np.flatnonzero(np.diff(rows, prepend=-1))
        return bool((np.add.reduceat(bits, firsts) != np.bitwise_or.reduceat(bits, firsts)).any())
    pairs = np.sort(rows * (int(codes.max()) + 1) + codes)
    return bool((pairs[1:] == pairs[:-1]).any())


def _pairs(raw: bytes) -> dict[str, str]:
    pairs = split_items(raw.decode("utf-8", "replace"))
    pairs.pop(CHECKSUM, None)
    return pairs


def _readable(raw: pa.Array) -> pa.Array:
    try:
        _as_text(raw).validate(full=True)
    except pa.ArrowInvalid:  # producers may put any bytes there
        return pa.array([each.decode("utf-8", "replace").encode() for each in raw.to_pylist()], pa.binary())
    return raw


def _as_text(array: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers(), offset=array.offset)


def _bits(truths: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(truths, bitorder="little"))
