"""Results of reads. The names of the statuses are RocketMQ's: they travel in the remarks of pull responses."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec


class ReadStatus(Enum):
    FOUND = "FOUND"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"  # the queue was never written
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"  # at the end: wait for the next message
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"  # the filter took none of those scanned
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"  # retention took them, or they are damaged


class ReadResult(msgspec.Struct, frozen=True):
    """Records as runs of stored bytes: neighbours in the log are one run; ``end_position`` is where the last ends."""

    status: ReadStatus
    next_offset: int
    first: int
    end: int
    runs: tuple[memoryview, ...] = ()
    count: int = 0
    size_bytes: int = 0
    end_position: int = 0

    def to_bytes(self) -> bytes:
        return b"".join(self.runs)


class QueueRange(NamedTuple):
    """Offsets [first, end) that can be read."""

    first: int
    end: int


class Boundary(Enum):
    """Which neighbour is taken when no message has the time asked for."""

    LOWER = "LOWER"  # the first message stored at that time or later
    UPPER = "UPPER"  # the last message stored at that time or earlier
