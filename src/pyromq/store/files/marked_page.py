"""Marked pages: 4096 bytes with fields of RocketMQ's at the start and a mark of PyroMQ's at the end.

    byte   0 ........ | ........ 4088    4092        4096
           fields       zeros    PYRO    CRC-32 of the fields      big-endian

RocketMQ reads and writes the fields alone and leaves the rest as it is. So the mark says whether PyroMQ wrote the
fields last, and wrote them whole.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from pyromq.checksum import crc32
from pyromq.store.files.disk import Disk

PAGE_BYTES: Final = 4096
_MARK: Final = struct.Struct(">4sI")
_MARK_AT: Final = PAGE_BYTES - _MARK.size


def marked_page(fields: bytes) -> bytes:
    return fields.ljust(_MARK_AT, b"\0") + _mark(fields)


def has_mark(page: bytes, fields_bytes: int) -> bool:
    """True when the page is whole, and PyroMQ wrote its first ``fields_bytes``."""
    return len(page) == PAGE_BYTES and page[_MARK_AT:] == _mark(page[:fields_bytes])


def replace_page(disk: Disk, path: Path, fields: bytes) -> None:
    """Replace the file, whole: written aside, renamed, its folder synced. Raises OSError."""
    aside = path.with_name(path.name + ".tmp")
    disk.write(aside, marked_page(fields))
    disk.rename(aside, path)
    disk.sync_folder(path.parent)


def _mark(fields: bytes) -> bytes:
    return _MARK.pack(b"PYRO", crc32(fields))
