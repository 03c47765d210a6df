"""The commit log of a store folder: where its files are, and how they are shared out to tasks.

    file  [record][record]…[record][blank or zeros]            stretch [begin, end): records that begin in it

A task reads one stretch or several.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Final

from pyromq.errors import StoreNotFoundError
from pyromq.store.files.disk import RealDisk
from pyromq.store.files.layout import Layout

_STRETCH_BYTES_MIN: Final = 16 << 20
_STRETCH_BYTES_MAX: Final = 512 << 20
_is_log_name = re.compile(r"\d{20}").fullmatch


@dataclass(frozen=True, slots=True)
class LogFile:
    """``base`` is the log address of its first byte, and its name; behind ``size`` nothing is written."""

    path: Path
    base: int
    size: int


@dataclass(frozen=True, slots=True)
class LogStretch:
    """Bytes [begin, end) of one file of a broker's log."""

    path: Path
    base: int
    begin: int
    end: int
    broker: str = ""


def log_files(folder: Path) -> list[LogFile]:
    """List the log files in order. Raises StoreNotFoundError."""
    log = Layout(folder).commit_log
    if not log.is_dir():
        raise StoreNotFoundError(f"{folder} is not a store folder: it contains no commitlog")
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
    """Size of the stretches that tasks read: several for each core, so that all end at about the same time, and not too
    many.
    """
    total = sum(file.size for file in files)
    for_each_core = max(1, ceil(total / (cores * _STRETCH_BYTES_MAX)))
    return max(_STRETCH_BYTES_MIN, ceil(total / (cores * for_each_core)))


def plan_stretches(files: Sequence[LogFile], stretch_bytes: int, broker: str = "") -> list[LogStretch]:
    """Each byte of each file in one stretch."""
    return [
        LogStretch(file.path, file.base, begin, min(begin + stretch_bytes, file.size), broker)
        for file in files
        for begin in range(0, file.size, stretch_bytes)
    ]


def plan_parts(
    files: Sequence[tuple[str, LogFile]], cores: int, *, count_min: int | None = None, count_max: int | None = None
) -> list[tuple[LogStretch, ...]]:
    """What each task reads of files, each with its broker: smaller stretches to reach ``count_min``, several of them
    together to stay within ``count_max``."""
    size = stretch_size([file for _, file in files], cores)
    if count_min is not None:
        size = max(1, min(size, sum(file.size for _, file in files) // count_min))
    found = [stretch for broker, file in files for stretch in plan_stretches([file], size, broker)]
    count = min(len(found), count_max or len(found))
    cuts = [len(found) * number // count for number in range(count + 1)] if count else []
    return [tuple(found[low:high]) for low, high in pairwise(cuts)]
