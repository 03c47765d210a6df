"""Snapshots of a QueueBuffer, for reports."""

from __future__ import annotations

from enum import Enum
from typing import Generic, NamedTuple

from pyromq.client.consumer.rules.message_protocol import PulledT


class BufferState(NamedTuple):
    """A snapshot; offsets are 0 where there is no message, as RocketMQ reports them."""

    message_count: int
    size_bytes: int
    first_offset: int
    last_offset: int
    taken_count: int
    taken_first_offset: int
    taken_last_offset: int


class Stage(Enum):
    """Where a message is on its way through a buffer."""

    WAITING = "waiting"
    CONSUMING = "consuming"
    LEAVING = "leaving"  # failed or given up on: on its way back to a broker, or resting before it waits again


class Head(NamedTuple, Generic[PulledT]):
    """The message that holds up the commit offset; ``taken_ms`` is 0 unless a listener has it."""

    message: PulledT
    stage: Stage
    taken_ms: int
