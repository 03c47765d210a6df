"""RocketMQ's checkpoint: until which store time its files are durable.

    byte   0             8              16            24                32
           log time      queues' time   index time    master flushed    confirmed      big-endian; 4096 bytes, rest 0
                                                      position          position

PyroMQ recovers by its seal and keeps this file so that Apache RocketMQ can open the store. Between two seals it notes
here, every second, up to which position the log was flushed: damage before that is a disk's, not a crash's. The note is
believed only with its checksum, ``PYRO`` and a CRC-32 of the five fields in the last 8 bytes, which RocketMQ leaves
alone; so what RocketMQ writes here is not taken for a note of ours.
"""

from __future__ import annotations

import logging
import struct
from pathlib import Path
from typing import NamedTuple

from pyromq.checksum import crc32
from pyromq.store.files.disk import Disk, DiskFile

logger = logging.getLogger(__name__)

CHECKPOINT_BYTES = 4096
_FIELDS = struct.Struct(">qqqqq")
_MARK = struct.Struct(">4sI")
_MARK_AT = CHECKPOINT_BYTES - _MARK.size
_SLACK_MS = 3_000


class Checkpoint(NamedTuple):
    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    master_flushed: int = 0
    confirmed: int = 0

    @property
    def safe_ms(self) -> int:
        """Records stored before this moment need not be looked at again."""
        return max(0, min(self.log_ms, self.queues_ms) - _SLACK_MS)


def load_checkpoint(disk: Disk, path: Path) -> Checkpoint:
    """What the file says; zeros, which make recovery look at everything, when it is missing or short."""
    data = disk.read(path)[: _FIELDS.size] if disk.exists(path) else b""
    return Checkpoint(*_FIELDS.unpack(data)) if len(data) == _FIELDS.size else Checkpoint()


def load_flushed(disk: Disk, path: Path) -> int:
    """The position that PyroMQ noted last as flushed; 0 when there is no note that can be believed."""
    data = disk.read(path) if disk.exists(path) else b""
    if len(data) != CHECKPOINT_BYTES or data[_MARK_AT:] != _mark(data[: _FIELDS.size]):
        return 0
    return Checkpoint(*_FIELDS.unpack(data[: _FIELDS.size])).confirmed


def _packed(checkpoint: Checkpoint) -> bytes:
    fields = _FIELDS.pack(*checkpoint)
    return fields.ljust(_MARK_AT, b"\0") + _mark(fields)


def _mark(fields: bytes) -> bytes:
    return _MARK.pack(b"PYRO", crc32(fields))


def save_checkpoint(disk: Disk, path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file, whole."""
    aside = path.with_name(path.name + ".tmp")
    disk.write(aside, _packed(checkpoint))
    disk.rename(aside, path)
    disk.sync_folder(path.parent)


class FlushedNote:
    """The note between two seals. Nothing depends on it, so a disk that refuses it is only worth a warning."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._file: DiskFile | None = None
        self._noted = 0

    def write(self, flushed: int, sealed_ms: int) -> None:
        """The log is durable up to ``flushed``, and everything else up to the store time of the last seal."""
        if flushed <= self._noted:
            return
        # RocketMQ trusts queues and index up to the times in there: only a seal moves those.
        checkpoint = Checkpoint(sealed_ms, sealed_ms, sealed_ms, flushed, flushed)
        try:
            if self._file is None:
                self._file = self._disk.open(self._path)
            self._file.write_at(0, _packed(checkpoint))  # without a sync: a torn note has a wrong checksum
        except OSError as error:
            logger.warning("flushed position not noted: reason=%s", error)
        self._noted = flushed

    def file_replaced(self, flushed: int) -> None:
        """A seal saved a checkpoint that says ``flushed``; a note that went beyond was in the old file."""
        self.close()
        self._noted = flushed

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
