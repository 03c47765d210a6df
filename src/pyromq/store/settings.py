"""Settings of a store. docs/storage-format.md has the keys of RocketMQ that mean the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyromq.errors import ConfigError
from pyromq.model.delay_levels import LEVELS_MS
from pyromq.wire.record_layout import BLANK_BYTES

_TIMER_LOG_BYTES_MIN = 68  # a unit and the mark at the end


class Flush(Enum):
    """When an append counts as stored."""

    SYNC = "sync"  # after fsync; all waiting senders share one
    ASYNC = "async"  # after write; fsync follows within flush_interval_ms, or flush_thorough_ms if there is little


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How a store writes, keeps and limits; the defaults are RocketMQ's, but for ``flush`` and ``checksums``."""

    flush: Flush = Flush.SYNC
    checksums: bool = True  # RocketMQ: enabledAppendPropCRC
    segment_bytes: int = 1 << 30
    queue_file_entries: int = 300_000
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000
    body_bytes_max: int = 4 << 20
    delay_ladder_ms: tuple[int, ...] = LEVELS_MS

    flush_interval_ms: int = 500
    flush_bytes_min: int = 4 * 4096
    flush_thorough_ms: int = 10_000
    seal_interval_ms: int = 60_000
    seal_bytes: int = 512 << 20  # seal early after that much, so that recovery has little to scan
    index_backlog_max: int = 1_024
    entry_backlog_max: int = 262_144  # queue entries in memory (20 bytes each), of messages that the log has

    timer_wheel_slots: int = 2 * 7 * 86_400
    timer_log_bytes: int = 100 << 20
    timer_roll_ms: int = 2 * 86_400_000  # what is due later goes through the log again, before retention takes it

    scrub_bytes_s: int = 4 << 20  # of the log looked at for damage; 0: never

    keep_ms: int = 72 * 3_600_000
    delete_hours: tuple[int, ...] = (4,)
    clean_percent: int = 75
    force_clean_percent: int = 85
    full_percent: int = 90
    delete_files_max: int = 10
    delete_unread: bool = True  # False: what some group has not read stays, and a full disk refuses sends instead

    read_bytes_max: int = 262_144
    read_count_max: int = 32
    cold_read_bytes_max: int = 65_536
    cold_read_count_max: int = 8
    scan_entries_max: int = 800
    hot_bytes: int = 8 << 30  # how far behind the end a record counts as in memory (RocketMQ: 40 % of RAM)

    @property
    def record_bytes_max(self) -> int:
        return self.body_bytes_max + 65_536

    def __post_init__(self) -> None:
        for name in ("segment_bytes", "queue_file_entries", "index_slots", "body_bytes_max"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1")
        if self.index_entries < 2:
            raise ConfigError("index_entries must be at least 2: entry 0 of an index file is never used")
        if self.scrub_bytes_s < 0:
            raise ConfigError("scrub_bytes_s must be at least 0, which is never")
        if self.segment_bytes < 1024 + BLANK_BYTES:
            raise ConfigError("segment_bytes must be at least 1032")
        if self.timer_log_bytes < _TIMER_LOG_BYTES_MIN:
            raise ConfigError(f"timer_log_bytes must be at least {_TIMER_LOG_BYTES_MIN}")
        if not 2_000 <= self.timer_roll_ms <= (self.timer_wheel_slots - 120) * 1_000:
            raise ConfigError("timer_roll_ms must be at least 2000 and at most (timer_wheel_slots - 120) * 1000")
        if not 0 < self.clean_percent <= self.force_clean_percent <= self.full_percent <= 100:
            raise ConfigError("clean_percent ≤ force_clean_percent ≤ full_percent ≤ 100 must hold")
