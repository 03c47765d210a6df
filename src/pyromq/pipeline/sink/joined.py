"""Batch requests joined by Arrow: rows that may go to any queue of one topic, without an object for any row.

heads, bodies, sizes of properties, properties: four columns ──▶ one, whose bytes are the body of a request
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyromq.pipeline.arrow.buffers import fixed_width
from pyromq.pipeline.sink.keys import KeyRange, RowKeys
from pyromq.pipeline.sink.options import SinkOptions
from pyromq.pipeline.sink.requests import SinkRequest, bodies_of, check_item, encoder_of, rows_checked
from pyromq.pipeline.sink.texts import property_texts
from pyromq.wire.batch import ITEM_OVERHEAD_BYTES

_ROWS_AT_ONCE: Final = 8192  # so that their properties stay below 2 GiB, however long they are
_EACH_ITS_OWN: Final = frozenset(("queue_id", "sharding_key", "flag", "delay_level", "deliver_time", "unique_key"))


def can_join(columns: Collection[str], options: SinkOptions) -> bool:
    """Whether nothing but body and properties differs from row to row."""
    return bool(options.topic) and _EACH_ITS_OWN.isdisjoint(columns)


class JoinedPacker:
    """The usual case: all rows go to one topic, to whatever queue, in requests that Arrow joins.

    ``row`` counts the rows of the task's partition; ``system`` is added to all properties. Raises
    MessageRefusedError and its kind.
    """

    skipped = 0

    def __init__(self, options: SinkOptions, keys: RowKeys, *, system: str = "", first: int = 0) -> None:
        self._topic = options.topic
        self._encoder = encoder_of(options)
        self._bytes_max = options.batch_bytes
        self._keys = keys
        self._system = system
        self._parts: list[pa.Buffer] = []  # of the request that is not full yet
        self._size = 0  # its bytes
        self._since = first  # its first row
        self.row = first  # the next row

    def pack(self, batch: pa.RecordBatch) -> Iterator[SinkRequest]:
        """Requests that are full now."""
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            yield from self._pack(batch.slice(start, _ROWS_AT_ONCE))

    def rest(self) -> Iterator[SinkRequest]:
        """The request that did not get full."""
        if self._parts:
            yield self._close(self.row)

    def _pack(self, batch: pa.RecordBatch) -> Iterator[SinkRequest]:
        first, count = rows_checked(self.row, batch), batch.num_rows
        bodies = bodies_of(batch, first, self._encoder)
        items = _Items(bodies, property_texts(batch, self._keys.column(first, count), self._system, first), first)
        at, self.row = 0, first + count
        while at < count:
            stop = items.fitting(at, self._bytes_max - self._size)
            if stop == at and self._parts:
                yield self._close(first + at)
                continue
            stop = max(stop, at + 1)  # a row that is larger than requests shall be travels alone
            part = items.joined(at, stop)
            self._parts.append(part)
            self._size += part.size
            at = stop
            if at < count:
                yield self._close(first + at)

    def _close(self, row: int) -> SinkRequest:
        """``row`` is the first that it does not have."""
        request = SinkRequest(
            self._topic, None, b"".join(self._parts), KeyRange(self._keys, self._since, row - self._since)
        )
        self._parts, self._size, self._since = [], 0, row
        return request


class _Items:
    """Rows as they stand in a batch request. Raises MessageTooLargeError."""

    def __init__(self, bodies: pa.Array, texts: pa.Array, first: int) -> None:
        self._bodies = bodies
        self._texts = texts  # of properties
        self._body_sizes = pc.binary_length(bodies).to_numpy()
        self._text_sizes = pc.binary_length(texts).to_numpy()
        self._sizes = self._body_sizes.astype(np.int64) + self._text_sizes + ITEM_OVERHEAD_BYTES
        self._ends = np.cumsum(self._sizes)  # where each would end if all were in one request
        for row in (int(self._sizes.argmax()), int(self._text_sizes.argmax())):
            check_item(int(self._sizes[row]), int(self._text_sizes[row]), first + row)

    def fitting(self, start: int, room: int) -> int:
        """The row behind those from ``start`` on that fit into ``room`` bytes."""
        before = self._ends[start] - self._sizes[start]
        return int(np.searchsorted(self._ends, before + room, side="right"))

    def joined(self, start: int, stop: int) -> pa.Buffer:
        rows = slice(start, stop)
        heads = np.zeros((stop - start, 5), ">i4")
        heads[:, 0], heads[:, 4] = self._sizes[rows], self._body_sizes[rows]
        text_sizes = self._text_sizes[rows].astype(">i2")
        whole = pc.binary_join_element_wise(
            fixed_width(heads.view(np.uint8)),
            self._bodies[rows],
            fixed_width(text_sizes.view(np.uint8).reshape(-1, 2)),
            self._texts[rows],
            b"",
        )
        return whole.buffers()[2]
