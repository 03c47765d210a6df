"""Bit sets that travel in headers and rest in records."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class SysFlag(IntFlag):
    """What a stored message is; bits 8–10 name the compression and count only together with COMPRESSED."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    PREPARED = 0x4
    COMMIT = 0x8
    ROLLBACK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    LZ4 = 0x100
    ZSTD = 0x200
    ZLIB = 0x300


TRANSACTION_MASK = 0xC
COMPRESSION_MASK = 0x700


class PullFlag(IntFlag):
    """sysFlag of a pull request."""

    COMMIT_OFFSET = 1
    SUSPEND = 2
    SUBSCRIPTION = 4
    CLASS_FILTER = 8
    LITE_PULL = 16


class TopicSysFlag(IntFlag):
    UNIT = 1
    UNIT_SUBSCRIPTION = 2


class ForbiddenType(IntEnum):
    """What forbade a pull, beside response code NO_PERMISSION."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCASTING = 4
    SUBSCRIPTION = 5
