"""Retention: which commit log files may be deleted; a pure decision by their age, the hour and how full the disk is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pyromq.store.settings import StoreSettings


class DiskState(Enum):
    """How full the disk is."""

    FINE = "fine"
    CLEAN = "clean"  # expired files go at any hour
    FORCE_CLEAN = "force clean"  # the oldest files go even if they have not expired
    FULL = "full"  # and nothing more is written


@dataclass(frozen=True, slots=True)
class KeptFile:
    path: Path
    modified_ms: int


def disk_state(used_percent: int, settings: StoreSettings) -> DiskState:
    if used_percent > settings.full_percent:
        return DiskState.FULL
    if used_percent > settings.force_clean_percent:
        return DiskState.FORCE_CLEAN
    return DiskState.CLEAN if used_percent > settings.clean_percent else DiskState.FINE


def count_to_delete(
    files: Sequence[KeptFile], *, now_ms: int, local_hour: int, state: DiskState, settings: StoreSettings
) -> int:
    """How many of the oldest files to delete now; the last one, which is written, always stays."""
    if state is DiskState.FINE and local_hour not in settings.delete_hours:
        return 0
    force = state in (DiskState.FORCE_CLEAN, DiskState.FULL)
    count = 0
    for file in files[:-1][: settings.delete_files_max]:
        if not force and now_ms - file.modified_ms < settings.keep_ms:
            break
        count += 1
    return count
