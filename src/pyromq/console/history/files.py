"""Files of samples: an append-only journal for each tier, cut into segments that are deleted whole.

    <tier>-<number>.samples          number: that of its first record's slot, 20 digits
    record   size u32 | crc32 u32 | MessagePack of [slot, {name: value}]      little-endian

A segment ends when it is an eighth of its tier's time, or of its bytes; old ones go by age, and the oldest by bytes.
Nothing is flushed: a crash may leave a torn record at the end of a segment, or lose the last ones. What cannot be read
ends the reading of that segment, and never the console; a writer begins a new segment after each start.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from pyromq.console.history.spans import Tier

logger = logging.getLogger(__name__)

BYTES_MAX: Final = 48 << 20  # of a folder
_HEAD: Final = struct.Struct("<II")
_PARTS: Final = 8  # segments that a tier has, about
_RECORD_BYTES_MAX: Final = 4 << 20

Sample = tuple[int, dict[str, float]]
_decoder = msgspec.msgpack.Decoder(Sample)


class SampleJournal:
    """Journal of one tier in a folder. One writer."""

    def __init__(self, folder: Path, tier: Tier, bytes_max: int) -> None:
        self._folder, self._tier, self._bytes_max = folder, tier, bytes_max
        self._file: BinaryIO | None = None
        self._first = 0
        self._size = 0

    def read(self, oldest: int) -> Iterator[Sample]:
        """Samples from slot ``oldest`` on, as they were written. Unreadable files are skipped, with a warning."""
        for path in self._segments():
            try:
                data = path.read_bytes()
            except OSError as error:
                logger.warning("samples not read: file=%s reason=%s", path.name, error)
                continue
            for slot, values in _records(data, path.name):
                if slot >= oldest:
                    yield slot, values

    def append(self, slot: int, values: Mapping[str, float]) -> None:
        """Write a sample, and delete what is too old or too much. Raises OSError."""
        body = msgspec.msgpack.encode((slot, values))
        if len(body) > _RECORD_BYTES_MAX:
            return
        is_over = not 0 <= slot - self._first < self._tier.slots // _PARTS  # also where the clock was set back
        if self._file is None or is_over or self._is_large(len(body)):
            self._begin(slot)
        assert self._file is not None
        self._file.write(_HEAD.pack(len(body), zlib.crc32(body)) + body)
        self._file.flush()
        self._size += _HEAD.size + len(body)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _is_large(self, more: int) -> bool:
        return self._size + more > self._bytes_max // _PARTS and self._size > 0

    def _begin(self, slot: int) -> None:
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._clean(slot - self._tier.slots)
        taken = {path.name for path in self._segments()}
        number = slot
        while (name := self._name(number)) in taken:
            number += 1
        self._file = (self._folder / name).open("ab")
        self._first, self._size = slot, 0

    def _clean(self, oldest: int) -> None:
        """Leave room for one segment more: those before ``oldest`` go, then the oldest."""
        paths = self._segments()
        ends = [_number(path) for path in paths[1:]]  # a segment ends where the next begins
        gone = [path for path, end in zip(paths, ends, strict=False) if end <= oldest]
        left = [path for path in paths if path not in gone]
        sizes = {path: path.stat().st_size for path in left}
        while left and sum(sizes[path] for path in left) > self._bytes_max * (_PARTS - 1) // _PARTS:
            gone.append(left.pop(0))
        for path in gone:
            path.unlink(missing_ok=True)

    def _name(self, number: int) -> str:
        return f"{self._tier.name}-{number:020d}.samples"

    def _segments(self) -> list[Path]:
        found = self._folder.glob(f"{self._tier.name}-*.samples") if self._folder.is_dir() else ()
        return sorted(path for path in found if path.stem.rpartition("-")[2].isdecimal())


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _records(data: bytes, name: str) -> Iterator[Sample]:
    at = 0
    while at + _HEAD.size <= len(data):
        size, check = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + size]
        if len(body) < size or zlib.crc32(body) != check:
            logger.info("samples end early: file=%s position=%d", name, at)
            return
        try:
            yield _decoder.decode(body)
        except msgspec.MsgspecError:
            logger.warning("samples of another version: file=%s position=%d", name, at)
            return
        at += _HEAD.size + size
