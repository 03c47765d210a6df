"""Pull responses to Arrow: stored records of one queue in, one record batch of the columns asked for out.

No Python object per message: the compiled core makes the columns where it is there, but for those that it leaves out;
else fields are gathered with numpy, texts and bodies copied once by Arrow. What no column needs is not touched. A body
that cannot be decompressed becomes null: one bad message must not end a query.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyromq.compiled_core import core
from pyromq.model.property_names import KEYS, TAGS, UNIQUE_KEY
from pyromq.model.queue import QueueId
from pyromq.pipeline.arrow import compiled
from pyromq.pipeline.arrow.buffers import fixed_width, hexadecimal
from pyromq.pipeline.arrow.columns import ARROW_TYPES
from pyromq.pipeline.arrow.layout import Ints, Records
from pyromq.pipeline.arrow.properties import Properties, spans
from pyromq.wire.compression import INFLATED_BYTES_MAX, DecompressionError, decompress
from pyromq.wire.message_id import Host
from pyromq.wire.record_layout import HOST_V4_BYTES, HOST_V6_BYTES

logger = logging.getLogger(__name__)

_TAGS, _KEYS, _UNIQUE_KEY = TAGS.encode(), KEYS.encode(), UNIQUE_KEY.encode()
_BODY: Final = "body"
_COMPRESSED: Final = 1
_RATIO_MAX: Final = 1_100  # of zlib; what compresses better is taken for as much as a body may be
PART_BYTES_MAX: Final = 4 * INFLATED_BYTES_MAX


@dataclass(frozen=True, slots=True)
class WantedRows:
    """What of the records becomes rows: offsets [start, end), and of those the ones with these tags (none: all)."""

    start: int
    end: int
    tags: frozenset[str] = frozenset()


def decode(data: bytes, queue: QueueId, schema: pa.Schema, wanted: WantedRows) -> pa.RecordBatch:
    """``queue`` fills the columns topic, broker and queue_id. Raises CorruptRecordError."""
    if core is not None and type(data) is bytes:
        found = compiled.columns(core, data, schema, range(wanted.start, wanted.end), wanted.tags)
        if found is not None:
            return _completed(*found, data, queue, schema, wanted)
    return decode_records(Records(data), queue, schema, wanted)


def decode_in_parts(data: bytes, queue: QueueId, schema: pa.Schema, wanted: WantedRows) -> Iterator[pa.RecordBatch]:
    """``decode`` in as many batches as it takes for the bodies of each to decompress to ``PART_BYTES_MAX`` at worst."""
    if _BODY in schema.names and core is not None and type(data) is bytes:
        found = compiled.columns(core, data, schema, range(wanted.start, wanted.end), wanted.tags)
        if found is not None and _BODY in found[1]:  # else some are compressed: the core leaves those to Python
            yield _completed(*found, data, queue, schema, wanted)
            return
    for part in _inflatable(data) if _BODY in schema.names else (data,):
        yield decode(part, queue, schema, wanted)


def _inflatable(data: bytes) -> Iterator[bytes]:
    """Runs of whole records that decompress to a bounded size, or one record each; all of it if none is compressed."""
    records = Records(data)
    worst = np.minimum((records.body_ends - records.body_starts) * _RATIO_MAX, INFLATED_BYTES_MAX)
    worst[records.sys_flags & _COMPRESSED == 0] = 0
    first, held = 0, 0
    for row, size in enumerate(worst):
        if held and held + size > PART_BYTES_MAX:
            yield data[records.starts[first] : records.starts[row]]
            first, held = row, 0
        held += int(size)
    yield data[records.starts[first] :]


def decode_records(records: Records, queue: QueueId, schema: pa.Schema, wanted: WantedRows) -> pa.RecordBatch:
    rows = _rows(records, queue, wanted)
    columns = [_fitted(_COLUMNS[field.name](rows), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _completed(
    count: int, made: dict[str, pa.Array], data: bytes, queue: QueueId, schema: pa.Schema, wanted: WantedRows
) -> pa.RecordBatch:
    """With the columns that the core has not made."""
    made |= {name: pa.repeat(pa.scalar(value, pa.string()), count) for name, value in _constants(queue).items()}
    missing = [field for field in schema if field.name not in made]
    if missing:
        rows = _rows(Records(data), queue, wanted)
        made |= {field.name: _fitted(_COLUMNS[field.name](rows), field) for field in missing}
    return pa.RecordBatch.from_arrays([made[field.name] for field in schema], schema=schema)


def _constants(queue: QueueId) -> dict[str, str]:
    return {"topic": queue.topic, "broker": queue.broker}


def _rows(records: Records, queue: QueueId, wanted: WantedRows) -> _Rows:
    rows = _Rows(records, queue)
    rows.keep((rows.records.queue_offsets >= wanted.start) & (rows.records.queue_offsets < wanted.end))
    if wanted.tags:
        rows.keep(rows.tagged(wanted.tags))
    return rows


class _Rows:
    """The records that become rows, and what several columns need of them."""

    def __init__(self, records: Records, queue: QueueId) -> None:
        self.records = records
        self.queue = queue
        self._chosen: Ints | None = None  # None: all of them

    def __len__(self) -> int:
        return len(self.records) if self._chosen is None else len(self._chosen)

    def keep(self, these: npt.NDArray[np.bool_]) -> None:
        """``these`` has one truth for each record."""
        if not these.all():
            self._chosen = np.flatnonzero(these) if self._chosen is None else self._chosen[these[self._chosen]]
            self.__dict__.pop("properties", None)

    def of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values if self._chosen is None else values[self._chosen]

    @cached_property
    def properties(self) -> Properties:
        records = self.records
        return Properties(records.data, self.of(records.property_starts), self.of(records.ends))

    def tagged(self, tags: frozenset[str]) -> npt.NDArray[np.bool_]:
        """Brokers compare hashes of tags, and different tags may have the same one."""
        hit = np.zeros(len(self.records), bool)
        chosen = np.arange(len(self.records)) if self._chosen is None else self._chosen
        hit[chosen] = [tag in tags for tag in self.properties.values(_TAGS).to_pylist()]
        return hit

    # --- columns that take more than a gather ---

    def constant(self, value: Any, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), len(self))

    def times(self, times_ms: Ints) -> pa.Array:
        return pa.array(self.of(times_ms) * 1000, pa.int64()).view(ARROW_TYPES["store_time"])

    def bodies(self) -> pa.Array:
        records = self.records
        starts, ends = self.of(records.body_starts), self.of(records.body_ends)
        packed = np.flatnonzero(self.of(records.sys_flags) & _COMPRESSED)
        if not len(packed):
            return spans(records.data, starts, ends, pa.binary())
        bodies: list[bytes | None] = [bytes(records.data[low:high]) for low, high in zip(starts, ends, strict=True)]
        flags, offsets = self.of(records.sys_flags), self.of(records.queue_offsets)
        for row in packed:
            try:
                bodies[row] = decompress(bodies[row] or b"", int(flags[row]))
            except DecompressionError as error:
                bodies[row] = None
                logger.warning("body is null: queue=%s offset=%d error=%s", self.queue, offsets[row], error)
        return pa.array(bodies, pa.binary())

    def hosts(self, kind: str) -> pa.Array:
        """There are few different ones: each is written once and then repeated."""
        places, is_v6 = self.records.host_places(kind)
        places, is_v6 = self.of(places), self.of(is_v6)
        if is_v6.any():
            data = self.records.data
            raws = _hosts_at(data, places, is_v6)
            names = {raw: str(Host.decode(raw)) for raw in set(raws)}
            return pa.array([names[raw] for raw in raws], pa.string())
        words = self.records.words(places, "u8")
        if len(words) and (words == words[0]).all():
            return self.constant(_host_text(int(words[0])), pa.string())
        distinct, which = np.unique(words, return_inverse=True)
        return pa.array([_host_text(int(word)) for word in distinct], pa.string()).take(pa.array(which))

    def offset_ids(self) -> pa.Array:
        """Host and position of each, in hexadecimal."""
        places, is_v6 = self.records.host_places("store")
        places, is_v6, positions = self.of(places), self.of(is_v6), self.of(self.records.positions)
        data = self.records.data
        if is_v6.any():
            hosts = _hosts_at(data, places, is_v6)
            ids = [
                (host + int(position).to_bytes(8, "big", signed=True)).hex().upper()
                for host, position in zip(hosts, positions, strict=True)
            ]
            return pa.array(ids, pa.string())
        raw = np.empty((len(places), 2), ">u8")
        raw[:, 0], raw[:, 1] = self.records.words(places, "u8"), positions
        return fixed_width(hexadecimal(raw), pa.string())

    def message_ids(self) -> pa.Array:
        """The id of the producer, or else that of the broker."""
        given = self.properties.values(_UNIQUE_KEY)
        return pc.coalesce(given, self.offset_ids()) if given.null_count else given


def _hosts_at(data: Any, places: Ints, is_v6: npt.NDArray[np.bool_]) -> list[bytes]:
    widths = np.where(is_v6, HOST_V6_BYTES, HOST_V4_BYTES)
    return [bytes(data[at : at + width]) for at, width in zip(places, widths, strict=True)]


def _host_text(word: int) -> str:
    return str(Host.decode(word.to_bytes(8, "big")))


_COLUMNS: Final[dict[str, Callable[[_Rows], Any]]] = {
    "topic": lambda rows: rows.constant(rows.queue.topic, pa.string()),
    "broker": lambda rows: rows.constant(rows.queue.broker, pa.string()),
    "queue_id": lambda rows: rows.of(rows.records.queue_ids),
    "queue_offset": lambda rows: rows.of(rows.records.queue_offsets),
    "message_id": _Rows.message_ids,
    "offset_message_id": _Rows.offset_ids,
    "tags": lambda rows: rows.properties.values(_TAGS),
    "keys": lambda rows: rows.properties.values(_KEYS),
    "born_time": lambda rows: rows.times(rows.records.born_ms),
    "store_time": lambda rows: rows.times(rows.records.stored_ms),
    "born_host": lambda rows: rows.hosts("born"),
    "store_host": lambda rows: rows.hosts("store"),
    "flag": lambda rows: rows.of(rows.records.flags),
    "sys_flag": lambda rows: rows.of(rows.records.sys_flags),
    "delivery_attempt": lambda rows: rows.of(rows.records.delivery_attempts),
    "body_crc": lambda rows: rows.of(rows.records.body_crcs),
    "commit_log_offset": lambda rows: rows.of(rows.records.positions),
    "properties": lambda rows: rows.properties,
    "body": _Rows.bodies,
}
"""How each column comes about; ``properties`` are shaped by the type that is asked for."""


def _fitted(value: Any, field: pa.Field) -> pa.Array:
    if isinstance(value, Properties):
        return value.text() if pa.types.is_string(field.type) else value.maps()
    return value if isinstance(value, pa.Array) else pa.array(value, field.type)
