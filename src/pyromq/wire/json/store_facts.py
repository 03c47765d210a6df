"""What a broker says about its store (31010), and how often it asked about prepared messages (31011).

    {"end_position":1048576,"segments":[{"base":0,"bytes":1073741824,"name":"00000000000000000000", …}], …}

Both requests are ours: Apache RocketMQ has none like them, and what it tells lies in its run-time information.
"""

from __future__ import annotations

import msgspec


class SegmentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the commit log. It may be deleted from ``expires_ms`` on; 0 is the one that is written."""

    name: str
    base: int
    bytes: int
    first_stored_ms: int
    modified_ms: int
    expires_ms: int


class DamageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of the log that were no record: cut off at the end (``copy`` is the file that has them), or passed over."""

    position: int
    size: int
    reason: str
    copy: str = ""


class RecoveryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What opening the store found and did, when the broker started."""

    at_ms: int
    clean: bool
    sealed: bool
    scanned_from: int
    end: int
    records: int
    cuts: tuple[DamageFacts, ...] = ()
    damaged: tuple[DamageFacts, ...] = ()
    rebuilt: tuple[str, ...] = ()
    unlisted: int = 0  # more of these than are listed


class StoreFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A store as its broker sees it. Of many segments the oldest and the newest are listed.

    Percents are of what is usable, used and free bytes together: a file system may keep some of its total for itself.
    ``disk_used_bytes`` is None where a broker is older than this field.
    """

    folder: str
    flush: str
    writable: bool
    problem: str  # why it is not
    first_position: int
    end_position: int
    flushed_position: int
    sealed_position: int
    segment_bytes: int
    segment_count: int
    segments: tuple[SegmentFacts, ...]
    queues: int
    disk_total_bytes: int
    disk_free_bytes: int
    disk_state: str
    clean_percent: int
    force_clean_percent: int
    full_percent: int
    keep_ms: int
    delete_hours: tuple[int, ...]
    delete_unread: bool
    unread_deleted: int
    now_ms: int
    next_deletion_ms: int  # when expired files are looked for the next time; 0: now
    recovery: RecoveryFacts
    disk_used_bytes: int | None = None


class CheckCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets in the half topic, and how often this broker asked about each since it started; zeros are left out."""

    checks: dict[int, int] = {}
    first: int = 0  # of the oldest prepared message that waits
