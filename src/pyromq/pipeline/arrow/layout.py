"""Columnar view of stored records back to back: where each begins, and any field of all of them at once, by numpy.

``pyromq.wire.record_layout`` has the layout. IPv6 hosts move what lies behind them by 12 bytes each, and long topics
have a length of two bytes instead of one; both differ from record to record, so places are arrays too.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pyromq.errors import CorruptRecordError
from pyromq.wire.fast.record_parts import read_u32
from pyromq.wire.record_layout import (
    ATTEMPT_AT,
    BODY_AT,
    BODY_CRC_AT,
    BORN_HOST_AT,
    BORN_MS_AT,
    BORN_V6,
    FLAG_AT,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    OFFSET_AT,
    POSITION_AT,
    QUEUE_ID_AT,
    RECORD_OVERHEAD_BYTES,
    STORE_HOST_AT,
    STORE_V6,
    STORED_MS_AT,
    SYS_FLAG_AT,
    V6_MORE_BYTES,
)

Ints: TypeAlias = npt.NDArray[np.int64]


class Records:
    """Records of one response or of several. Raises CorruptRecordError if their lengths do not add up.

    ``starts`` are where they begin, where that is known already.
    """

    def __init__(self, data: bytes | memoryview, starts: list[int] | None = None) -> None:
        self.data = data
        self.starts: Ints = np.array(record_starts(data) if starts is None else starts, dtype=np.int64)
        self.ends: Ints = np.append(self.starts[1:], len(data))
        self.sys_flags = self._at("i4", SYS_FLAG_AT)
        self._check()

    def __len__(self) -> int:
        return len(self.starts)

    # --- fields before the first host: at the same place in every record ---

    @property
    def queue_ids(self) -> npt.NDArray[np.int32]:
        return self._at("i4", QUEUE_ID_AT)

    @cached_property
    def queue_offsets(self) -> Ints:
        return self._at("i8", OFFSET_AT)

    @cached_property
    def positions(self) -> Ints:
        return self._at("i8", POSITION_AT)

    @property
    def body_crcs(self) -> npt.NDArray[np.int32]:
        return self._at("i4", BODY_CRC_AT)

    @property
    def flags(self) -> npt.NDArray[np.int32]:
        return self._at("i4", FLAG_AT)

    @property
    def born_ms(self) -> Ints:
        return self._at("i8", BORN_MS_AT)

    # --- fields behind it ---

    @property
    def stored_ms(self) -> Ints:
        return self._at("i8", STORED_MS_AT + self._born_more)

    @property
    def delivery_attempts(self) -> npt.NDArray[np.int32]:
        return self._at("i4", ATTEMPT_AT + self._host_more)

    def host_places(self, kind: str) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Where ``born`` or ``store`` hosts lie, and which of them are IPv6."""
        if kind == "born":
            return self.starts + BORN_HOST_AT, (self.sys_flags & BORN_V6) != 0
        return self.starts + STORE_HOST_AT + self._born_more, (self.sys_flags & STORE_V6) != 0

    def words(self, places: Ints, kind: str) -> npt.NDArray[Any]:
        """Big-endian values at these places of the data; they must lie within it."""
        dtype = np.dtype(f">{kind}")
        view = np.ndarray((max(0, len(self.data) - dtype.itemsize + 1),), dtype, self.data, strides=(1,))
        return view[places]

    def _at(self, kind: str, place: int | Ints) -> npt.NDArray[Any]:
        return self.words(self.starts + place, kind).astype(f"={kind}")

    # --- places ---

    @cached_property
    def _born_more(self) -> Ints | int:
        return self._more(BORN_V6)

    @cached_property
    def _host_more(self) -> Ints | int:
        return self._born_more + self._more(STORE_V6)

    def _more(self, flag: int) -> Ints | int:
        """How much further things lie behind a host; a plain 0 in the usual case."""
        is_v6 = (self.sys_flags & flag) != 0
        return is_v6.astype(np.int64) * V6_MORE_BYTES if is_v6.any() else 0

    def _check(self) -> None:
        """Whether body, topic and properties fill each record exactly."""
        sizes = self.ends - self.starts
        magics = self.words(self.starts + MAGIC_AT, "u4")
        long_topic = magics == MAGIC_V2
        self._require((magics == MAGIC_V1) | long_topic)
        fixed = BODY_AT + self._host_more
        self._require(fixed + 3 <= sizes)
        self.body_starts: Ints = self.starts + fixed
        bodies = self.words(self.body_starts - 4, "i4").astype(np.int64)
        self.body_ends: Ints = self.body_starts + bodies
        self._require((bodies >= 0) & (self.body_ends + 3 + long_topic <= self.ends))
        data = np.frombuffer(self.data, np.uint8)
        topic_bytes = data[self.body_ends].astype(np.int64)
        if long_topic.any():
            both = (topic_bytes << 8) | data[self.body_ends + 1]
            topic_bytes = np.where(long_topic, both, topic_bytes)
        lengths = self.body_ends + 1 + long_topic + topic_bytes
        self._require(lengths + 2 <= self.ends)
        self.property_starts: Ints = lengths + 2
        self._require(self.property_starts + self.words(lengths, "u2") == self.ends)

    def _require(self, holds: npt.NDArray[np.bool_]) -> None:
        if not holds.all():
            bad = int(np.flatnonzero(~holds)[0])
            position = int(self.positions[bad])
            raise CorruptRecordError(position=position, reason="its magic is unknown, or its parts do not add up")


def record_starts(data: bytes | memoryview) -> list[int]:
    """Where records begin. Raises CorruptRecordError."""
    found: list[int] = []
    add, size_at, least = found.append, read_u32, RECORD_OVERHEAD_BYTES
    at, last = 0, len(data) - least
    while at <= last:
        (size,) = size_at(data, at)
        if size < least:
            raise CorruptRecordError(position=-1, reason=f"size {size} is impossible")
        add(at)
        at += size
    if at != len(data):
        raise CorruptRecordError(position=-1, reason=f"the last of {len(found)} records is cut, or more follows it")
    return found
