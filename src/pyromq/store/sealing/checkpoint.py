"""RocketMQ's checkpoint: until which store time its files are durable.

    byte   0             8              16            24                32
           log time      queues' time   index time    master flushed    confirmed      big-endian; 4096 bytes, rest 0
                                                      position          position

PyroMQ recovers by its seal and keeps this file so that Apache RocketMQ can open the store. Between two seals it notes
here, every second, up to which position the log was flushed: damage before that is the disk's fault, not what a crash
left. The note is believed only with the mark of ``marked_page``; so what RocketMQ writes here is not taken for a note
of ours.
"""

from __future__ import annotations

import logging
import struct
from pathlib import Path
from typing import NamedTuple

from pyromq.store.files.disk import Disk, DiskFile
from pyromq.store.files.marked_page import PAGE_BYTES, has_mark, marked_page, replace_page

logger = logging.getLogger(__name__)

CHECKPOINT_BYTES = PAGE_BYTES
_FIELDS = struct.Struct(">qqqqq")
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
    if not has_mark(data, _FIELDS.size):
        return 0
    return Checkpoint(*_FIELDS.unpack(data[: _FIELDS.size])).confirmed


def save_checkpoint(disk: Disk, path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file, whole. Raises OSError."""
    replace_page(disk, path, _FIELDS.pack(*checkpoint))


class FlushedNote:
    """The note between two seals: the flushed position. Nothing depends on it, so a refused write is only a warning."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._file: DiskFile | None = None  # None until the first note after a seal
        self._noted = 0  # no later position is in the file

    def write(self, flushed: int, sealed_ms: int) -> None:
        """The log is durable up to ``flushed``, and everything else up to the store time of the last seal."""
        if flushed <= self._noted:
            return
        # RocketMQ trusts queues and index up to the times in there: only a seal moves those.
        checkpoint = Checkpoint(sealed_ms, sealed_ms, sealed_ms, flushed, flushed)
        try:
            if self._file is None:
                self._file = self._disk.open(self._path)
            self._file.write_at(0, marked_page(_FIELDS.pack(*checkpoint)))  # not synced: a torn note has no mark
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
