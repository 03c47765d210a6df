"""Stretches of commit log files to Arrow: where files are, how they are shared out, which records a stretch has.

    file  [record][record]…[record][blank or zeros]            stretch [begin, end): records that begin in it

A stretch that does not begin a file finds its first record by looking for one that is whole and knows its own address;
the stretch before it ends with the same one. So every record is in exactly one stretch.
"""

from __future__ import annotations

import logging
import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyromq.errors import CorruptRecordError, StoreNotFoundError
from pyromq.model.queue import QueueId
from pyromq.pipeline.decode import Wanted, decode_records
from pyromq.pipeline.layout import Records
from pyromq.pipeline.properties import spans
from pyromq.store.disk import RealDisk
from pyromq.store.layout import Layout
from pyromq.wire.record import (
    MAGIC_V1,
    MAGIC_V2,
    RECORD_OVERHEAD_BYTES,
    NothingWritten,
    RecordFound,
    SegmentEnd,
    find_record_after,
    scan_record,
)

logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 4 << 20
_STRETCH_BYTES_MIN: Final = 16 << 20
_STRETCH_BYTES_MAX: Final = 128 << 20
_PREFIX: Final = Struct(">II").unpack_from
_ALL: Final = Wanted(-(1 << 62), 1 << 62)
_is_log_name = re.compile(r"\d{20}").fullmatch


@dataclass(frozen=True, slots=True)
class LogFile:
    """``base`` is the log address of its first byte, and its name; behind ``size`` nothing is written."""

    path: Path
    base: int
    size: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes [begin, end) of one file."""

    path: Path
    base: int
    begin: int
    end: int


def log_files(folder: Path) -> list[LogFile]:
    """In order. Raises StoreNotFoundError."""
    log = Layout(folder).commit_log
    if not log.is_dir():
        raise StoreNotFoundError(f"{folder} is no store folder: it has no commitlog in it")
    disk = RealDisk()
    return [
        LogFile(path, int(path.name), _data_end(disk, path))
        for path in sorted(path for path in log.iterdir() if _is_log_name(path.name))
    ]


def _data_end(disk: RealDisk, path: Path) -> int:
    """Files are made long and filled later; looking for records in what is empty would cost more than reading them."""
    file = disk.open(path, writable=False)
    try:
        return file.data_end(0)
    finally:
        file.close()


def stretch_size(files: Sequence[LogFile], cores: int) -> int:
    """Some stretches for each core, so that all end at about the same time; tasks cost too, so not too many."""
    share = sum(file.size for file in files) // max(1, 2 * cores)
    return max(_STRETCH_BYTES_MIN, min(_STRETCH_BYTES_MAX, share))


def plan_stretches(files: Sequence[LogFile], stretch_bytes: int) -> list[Stretch]:
    """Each byte of each file in one stretch."""
    return [
        Stretch(file.path, file.base, begin, min(begin + stretch_bytes, file.size))
        for file in files
        for begin in range(0, file.size, stretch_bytes)
    ]


def decode_stretch(
    stretch: Stretch, schema: pa.Schema, topics: frozenset[str], broker: str, *, verify: bool = True
) -> Iterator[pa.RecordBatch]:
    """The records that begin in the stretch, and belong to one of the topics (none: all).

    ``verify``: bodies must have their checksum. Lengths and addresses are always checked.
    """
    wanted = pa.array(sorted(topics), pa.string()) if topics else None
    for records in whole_records(stretch, verify=verify):
        batch = _decoded(records, schema, broker, wanted)
        if batch.num_rows:
            yield batch


def _decoded(records: Records, schema: pa.Schema, broker: str, topics: pa.Array | None) -> pa.RecordBatch:
    """All columns but the topic are found as in a pull answer; here each record tells its own topic."""
    batch = decode_records(records, QueueId("-", broker, 0), schema, _ALL)
    if topics is None and "topic" not in schema.names:
        return batch
    names = _topics(records)
    if "topic" in schema.names:
        batch = batch.set_column(schema.get_field_index("topic"), schema.field("topic"), names)
    if topics is None:
        return batch
    wanted = pc.is_in(names, value_set=topics)
    return batch if pc.all(wanted).as_py() else batch.filter(wanted)  # a copy of all bodies, where it need not be


def _topics(records: Records) -> pa.Array:
    is_long = records.words(records.starts + 4, "u4") == MAGIC_V2
    return spans(records.data, records.body_ends + 1 + is_long, records.property_starts - 2, pa.string())


def whole_records(stretch: Stretch, *, verify: bool = True) -> Iterator[Records]:
    """Runs of whole records, some MiB at a time; damage between them is passed over and told to the log."""
    if stretch.begin >= stretch.end:
        return
    with stretch.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        with memoryview(mapped) as data:
            yield from _runs(data, stretch, verify)


def _runs(data: memoryview, stretch: Stretch, verify: bool) -> Iterator[Records]:
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
        size, magic = _PREFIX(data, at)
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
    raw = bytes(data[begin:end])
    try:
        records = Records(raw, [start - begin for start in starts])
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
    view, expected = memoryview(records.data), records.body_crcs.astype(np.int64) & 0x7FFFFFFF
    spans_of = zip(records.body_starts.tolist(), records.body_ends.tolist(), expected.tolist(), strict=True)
    for low, high, wanted in spans_of:  # as a generator it is a third slower
        if wanted and crc32(view[low:high]) & 0x7FFFFFFF != wanted:
            return False
    return True
