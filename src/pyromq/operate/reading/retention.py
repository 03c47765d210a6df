"""Retention: how long a broker will keep what is stored now, at the rate at which it takes messages.

Brokers delete whole files of the log: expired ones, and when the disk fills up the oldest ones before that. A message
is therefore kept for the configured time, or for as long as the log takes to fill its share of the disk, whichever is
less.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from pyromq.operate.brokers import capacity, first_number, last_number
from pyromq.wire.json.store_facts import StoreFacts

_HOUR_MS: Final = 3_600_000
_APACHE_FORCE_PERCENT: Final = 85  # RocketMQ: diskSpaceCleanForciblyRatio


class RetentionLimit(StrEnum):
    """What ends the life of a message first."""

    TIME = "time"
    DISK = "disk"


class LogRetention(msgspec.Struct, frozen=True, kw_only=True):
    """The log of one broker. ``room_bytes`` is what it may take before old files go early, itself included (None: the
    broker does not tell); ``keep_ms`` is what is configured. ``kept_ms`` is None if neither is known.
    """

    broker: str
    oldest_ms: int
    bytes: int
    bytes_per_s: float
    keep_ms: int | None
    room_bytes: int | None
    kept_ms: int | None
    limit: RetentionLimit = RetentionLimit.TIME


class TopicRetention(msgspec.Struct, frozen=True, kw_only=True):
    """How old the oldest message of a topic is (0: it has none), and how long new ones are kept at this rate.

    ``bytes`` is what the topic takes on disk, from the sizes of some of its messages; None where brokers do not tell.
    ``kept_ms`` is that of the broker that keeps them shortest.
    """

    topic: str
    messages: int
    oldest_ms: int
    newest_ms: int
    bytes: int | None
    kept_ms: int | None
    limit: RetentionLimit = RetentionLimit.TIME
    brokers: tuple[LogRetention, ...] = ()


def log_retention(
    broker: str, told: Mapping[str, str], config: Mapping[str, str], facts: StoreFacts | None = None
) -> LogRetention:
    """From run-time information and configuration; ``facts`` are our brokers' own, with their exact limits."""
    first, end = (int(first_number(told.get(f"commitLog{name}Offset", ""))) for name in ("Min", "Max"))
    usable, free = _usable_and_free(told, facts)
    hours = int(first_number(config.get("fileReservedTime", "")))
    keep_ms = facts.keep_ms if facts else hours * _HOUR_MS or None
    percent = facts.force_clean_percent if facts else _APACHE_FORCE_PERCENT
    log_bytes = max(0, end - first)
    room = max(0, log_bytes + free - usable * (100 - percent) // 100) if usable else None
    rate = last_number(told.get("putTps", "")) * first_number(told.get("putMessageAverageSize", ""))
    kept_ms, limit = kept_for(keep_ms, room, rate)
    return LogRetention(
        broker=broker,
        oldest_ms=max(0, int(first_number(told.get("earliestMessageTimeStamp", "")))),
        bytes=log_bytes,
        bytes_per_s=rate,
        keep_ms=keep_ms,
        room_bytes=room,
        kept_ms=kept_ms,
        limit=limit,
    )


def _usable_and_free(told: Mapping[str, str], facts: StoreFacts | None) -> tuple[int, int]:
    """Return bytes of the disk that brokers count percents of, and those of them that are free; zeros if unknown.

    A file system may keep some of its total for itself, so the usable part is what is used and what is free. Apache's
    brokers say the used share of it in whole percent.
    """
    if facts is not None and facts.disk_used_bytes is not None:
        return facts.disk_used_bytes + facts.disk_free_bytes, facts.disk_free_bytes
    total, free = capacity(told.get("commitLogDirCapacity", ""))
    share = first_number(told.get("commitLogDiskRatio", ""))
    return (min(total, round(free / (1 - share))) if 0 < share < 1 else total), free


def kept_for(keep_ms: int | None, room_bytes: int | None, bytes_per_s: float) -> tuple[int | None, RetentionLimit]:
    """Return how long a message is kept, and why no longer."""
    if room_bytes is None or bytes_per_s <= 0:
        return keep_ms, RetentionLimit.TIME
    full_ms = int(room_bytes * 1000 / bytes_per_s)
    if keep_ms is not None and keep_ms <= full_ms:
        return keep_ms, RetentionLimit.TIME
    return full_ms, RetentionLimit.DISK


def shortest(logs: tuple[LogRetention, ...]) -> tuple[int | None, RetentionLimit]:
    """Return how long the broker keeps messages that keeps them shortest; None if one does not tell."""
    if not logs or any(each.kept_ms is None for each in logs):
        return None, RetentionLimit.TIME
    least = min(logs, key=lambda each: each.kept_ms or 0)
    return least.kept_ms, least.limit
