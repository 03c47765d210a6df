"""config/timercheck: how far timers have come.

    byte   0           8            16             24             32       40          48        56
           read time   timer log    next offset    the same, of   state    time of     counter
           (ms)        durable to   in the topic   the master     version  change

Big-endian; 4096 bytes, the rest 0.

Everything before the read time was delivered. The file is replaced whole, after timer log and wheel are durable; the
last 8 bytes, ``PYRO`` and a CRC-32 of the fields, tell that it was PyroMQ who wrote it: then nothing behind the durable
position of the timer log is needed, whereas RocketMQ notes a position that is a little too low.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from pyromq.checksum import crc32
from pyromq.store.files.disk import Disk
from pyromq.whole_text import replace_text

TIMER_CHECK_BYTES: Final = 4096
_FIELDS: Final = struct.Struct(">7q")
_MARK: Final = struct.Struct(">4sI")
_MARK_AT: Final = TIMER_CHECK_BYTES - _MARK.size


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
    return TimerCheck(*_FIELDS.unpack(fields)), data[_MARK_AT:] == _mark(fields)


def save_timer_check(disk: Disk, path: Path, check: TimerCheck) -> None:
    """Replace the file, whole; on any thread. Raises OSError."""
    aside, fields = path.with_name(path.name + ".tmp"), check.pack()
    replace_text(path, fields.ljust(_MARK_AT, b"\0") + _mark(fields), aside=aside, disk=disk)


def _mark(fields: bytes) -> bytes:
    return _MARK.pack(b"PYRO", crc32(fields))
