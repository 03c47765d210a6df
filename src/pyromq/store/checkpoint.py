"""RocketMQ's checkpoint: until which store time its files are durable.

    byte   0             8              16            24                32
           log time      queues' time   index time    master flushed    confirmed      big-endian; 4096 bytes, rest 0
                                                      position          position

PyroMQ recovers by its seal and keeps this file so that Apache RocketMQ can open the store.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from pyromq.store.disk import Disk

CHECKPOINT_BYTES = 4096
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


def save_checkpoint(disk: Disk, path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file, whole."""
    aside = path.with_name(path.name + ".tmp")
    disk.write(aside, _FIELDS.pack(*checkpoint).ljust(CHECKPOINT_BYTES, b"\0"))
    disk.rename(aside, path)
    disk.sync_folder(path.parent)
