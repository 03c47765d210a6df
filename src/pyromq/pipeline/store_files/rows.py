"""Stretches of commit log files to Arrow: which records a stretch has, and which of them become rows.

A stretch that does not begin a file finds its first record by looking for one that is whole and knows its own address;
the stretch before it ends with the same one. So every record is in exactly one stretch.
"""

from __future__ import annotations

import logging
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyromq.checksum import CRC_MASK, crc32
from pyromq.errors import CorruptRecordError
from pyromq.model.property_names import TAGS
from pyromq.model.queue import QueueId
from pyromq.pipeline.arrow.decode import WantedRows, decode_records
from pyromq.pipeline.arrow.layout import Ints, Records
from pyromq.pipeline.arrow.properties import Properties, spans
from pyromq.pipeline.store_files.log import LogStretch
from pyromq.wire.record import NothingWritten, RecordFound, SegmentEnd, find_record_after, scan_record
from pyromq.wire.record_layout import MAGIC_V1, MAGIC_V2, PREFIX, RECORD_OVERHEAD_BYTES

logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 8 << 20  # fewer steps a row than with less; more falls out of the caches
_size_and_magic: Final = PREFIX.unpack_from
_ALL: Final = WantedRows(-(1 << 62), 1 << 62)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which records become rows: of these topics, with one of these tags (none: all), stored in [begin_ms, end_ms)."""

    topics: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    begin_ms: int | None = None
    end_ms: int | None = None


def decode_stretch(
    stretch: LogStretch, schema: pa.Schema, chosen: Chosen | None = None, *, verify: bool = True
) -> Iterator[pa.RecordBatch]:
    """The records that begin in the stretch, those that were chosen.

    ``verify``: bodies must have their checksum. Lengths and addresses are always checked.
    """
    for records in whole_records(stretch, verify=verify):
        batch = _decoded(records, schema, stretch.broker, chosen or Chosen())
        if batch is not None:
            yield batch


def _decoded(records: Records, schema: pa.Schema, broker: str, chosen: Chosen) -> pa.RecordBatch | None:
    """All columns are found as in a pull response; but here each record tells its own topic."""
    one = _one_topic(records)
    if one is not None and chosen.topics and one not in chosen.topics:
        return None
    topics = _topics(records) if one is None and (chosen.topics or "topic" in schema.names) else None
    rows = _rows(records, topics, chosen)
    if not rows.any():
        return None
    batch = decode_records(records, QueueId(one or "-", broker, 0), schema, _ALL)
    if topics is not None and "topic" in schema.names:
        batch = batch.set_column(schema.get_field_index("topic"), schema.field("topic"), topics)
    return batch if rows.all() else batch.filter(pa.array(rows))  # a copy of all bodies, where it need not be


def _rows(records: Records, topics: pa.Array | None, chosen: Chosen) -> npt.NDArray[np.bool_]:
    """One truth for each record. Without ``topics`` all are of one that was chosen."""
    rows = np.ones(len(records), bool)
    if topics is not None and chosen.topics:
        rows &= _is_among(topics, chosen.topics)
    if chosen.tags:
        properties = Properties(records.data, records.property_starts, records.ends)
        rows &= _is_among(properties.values(TAGS.encode()), chosen.tags)
    if chosen.begin_ms is not None:
        rows &= records.stored_ms >= chosen.begin_ms
    if chosen.end_ms is not None:
        rows &= records.stored_ms < chosen.end_ms
    return rows


def _is_among(values: pa.Array, wanted: frozenset[str]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.is_in(values, value_set=pa.array(sorted(wanted), pa.string())).to_numpy(
        zero_copy_only=False
    )
    return found


def _one_topic(records: Records) -> str | None:
    """The topic that all have, as in most stretches of most logs; None where they differ."""
    starts, ends = _topic_places(records)
    width = int(ends[0] - starts[0])
    if not width or not (ends - starts == width).all():
        return None
    names = records.words(starts, f"V{width}").view(np.uint8).reshape(-1, width)
    return names[0].tobytes().decode("utf-8", "replace") if (names == names[0]).all() else None


def _topics(records: Records) -> pa.Array:
    return spans(records.data, *_topic_places(records), pa.string())


def _topic_places(records: Records) -> tuple[Ints, Ints]:
    is_long = records.words(records.starts + 4, "u4") == MAGIC_V2
    return records.body_ends + 1 + is_long, records.property_starts - 2


def whole_records(stretch: LogStretch, *, verify: bool = True) -> Iterator[Records]:
    """Runs of whole records, some MiB at a time; damage between them is passed over and logged."""
    if stretch.begin >= stretch.end:
        return
    with stretch.path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    yield from _runs(memoryview(mapped), stretch, verify)  # unmapped when no batch uses a part of it any more


def _runs(data: memoryview, stretch: LogStretch, verify: bool) -> Iterator[Records]:
    at: int | None = stretch.begin
    if stretch.begin:
        at = find_record_after(data, stretch.begin, stretch.base + stretch.begin)
    while at is not None and at < stretch.end:
        starts, end = run_of(data, at, min(at + _CHUNK_BYTES, stretch.end))
        if starts:
            yield from _checked(data, starts, end, stretch.base, verify)
            at = end
            continue
        if not any(data[at : at + 8]) or not _is_damage(data, at, stretch.base):
            return  # nothing more was written, or the file ends here
        after = find_record_after(data, at + 1, stretch.base + at + 1)
        lost = (len(data) if after is None else after) - at
        logger.warning("damage passed over: file=%s position=%d bytes=%d", stretch.path, stretch.base + at, lost)
        at = after


def run_of(data: memoryview, at: int, limit: int) -> tuple[list[int], int]:
    """Where records begin that follow each other from ``at`` and begin before ``limit``, and where the last ends."""
    size_all = len(data)
    found: list[int] = []
    while at < limit and at + RECORD_OVERHEAD_BYTES <= size_all:
        size, magic = _size_and_magic(data, at)
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or not RECORD_OVERHEAD_BYTES <= size <= size_all - at:
            break
        found.append(at)
        at += size
    return found, at


def _is_damage(data: memoryview, at: int, base: int) -> bool:
    return not isinstance(scan_record(data, at, base + at), NothingWritten | SegmentEnd)


def _checked(data: memoryview, starts: list[int], end: int, base: int, verify: bool) -> Iterator[Records]:
    """The run as it is, if its parts add up and every record knows its address; else record by record."""
    begin = starts[0]
    try:
        records = Records(data[begin:end], [start - begin for start in starts])
        is_at_home = (records.positions == records.starts + (base + begin)).all()
        if is_at_home and (not verify or _bodies_match(records)):
            yield records
            return
    except CorruptRecordError:
        pass
    at = begin
    while at < end:
        found = scan_record(data, at, base + at)
        if isinstance(found, RecordFound):
            yield Records(bytes(data[at : at + found.size]))
            at += found.size
            continue
        after = find_record_after(data[:end], at + 1, base + at + 1)
        lost = (end if after is None else after) - at
        logger.warning("damaged record passed over: position=%d bytes=%d", base + at, lost)
        at += lost


def _bodies_match(records: Records) -> bool:
    """Whether bodies have the checksums that records say."""
    expected = records.body_crcs & CRC_MASK
    bodies = map(
        memoryview(records.data).__getitem__, map(slice, records.body_starts.tolist(), records.body_ends.tolist())
    )
    found = np.fromiter(map(crc32, bodies), np.uint32, len(records)) & CRC_MASK
    return bool(((found == expected) | (expected == 0)).all())
