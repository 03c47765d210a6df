"""config/timercheck: how far timers have come.

    byte   0           8            16             24             32       40          48        56
           read time   timer log    next offset    the same, of   state    time of     counter
           (ms)        durable to   in the topic   the master     version  change

Big-endian; 4096 bytes, the rest 0.

Everything before the read time was delivered. The file is replaced whole, after timer log and wheel are durable. With
the mark of ``marked_page`` nothing behind the durable position of the timer log is needed; without it RocketMQ wrote
the file, and the position it notes is a little too low.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from pyromq.store.files.disk import Disk
from pyromq.store.files.marked_page import has_mark, replace_page

_FIELDS: Final = struct.Struct(">7q")


class TimerCheck(NamedTuple):
    read_ms: int = 0
    log_end: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    changed_ms: int = 0
    counter: int = 0

    def pack(self) -> bytes:
        """The fields alone, as replicas get them."""
        return _FIELDS.pack(*self)


def load_timer_check(disk: Disk, path: Path) -> tuple[TimerCheck, bool] | None:
    """What the file says and whether it is ours; None when there is no file, or one that says nothing."""
    data = disk.read(path) if disk.exists(path) else b""
    fields = data[: _FIELDS.size]
    if len(fields) < _FIELDS.size or not any(fields):
        return None
    return TimerCheck(*_FIELDS.unpack(fields)), has_mark(data, _FIELDS.size)


def parse_timer_check(data: bytes) -> TimerCheck:
    """The fields alone, as a master gives them to replicas. Raises ValueError."""
    if len(data) < _FIELDS.size:
        raise ValueError(f"a timer checkpoint has {_FIELDS.size} bytes, not {len(data)}")
    return TimerCheck(*_FIELDS.unpack(data[: _FIELDS.size]))


def save_timer_check(disk: Disk, path: Path, check: TimerCheck) -> None:
    """Replace the file, whole; on any thread. Raises OSError."""
    replace_page(disk, path, check.pack())
