"""Start and end positions of a read, as users say them: by name, by time, or offset by offset."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyromq.model.namespaces import wrap
from pyromq.model.queue import QueueId
from pyromq.pipeline.core.offsets import Offsets

EARLIEST: Final = -2  # in JSON, as in Kafka's
LATEST: Final = -1


class RelativeOffset(Enum):
    """Where in a queue, when it is not an offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first message that was stored at that time or later."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Queue by queue; EARLIEST and LATEST may stand for an offset."""

    offsets: tuple[tuple[QueueId, int], ...]

    def as_dict(self) -> Offsets:
        return dict(self.offsets)


@dataclass(frozen=True, slots=True)
class AtTimes:
    """Start or end by time, queue by queue."""

    times_ms: tuple[tuple[QueueId, int], ...]

    def as_dict(self) -> dict[QueueId, int]:
        return dict(self.times_ms)


Where = RelativeOffset | AtTime | AtTimes | AtOffsets


class NoMatch(Enum):
    """What to do where a queue has no message of that time or later."""

    LATEST = "latest"
    ERROR = "error"


def within(namespace: str, where: Where) -> Where:
    """Queues with the names that brokers have for topics."""

    def known(queue: QueueId) -> QueueId:
        return QueueId(wrap(namespace, queue.topic), queue.broker, queue.number)

    match where:
        case AtOffsets():
            return AtOffsets(tuple((known(queue), at) for queue, at in where.offsets))
        case AtTimes():
            return AtTimes(tuple((known(queue), time_ms) for queue, time_ms in where.times_ms))
        case _:
            return where


def is_latest(where: Where) -> bool:
    return where is RelativeOffset.LATEST or names(where, LATEST)


def names(where: Where, mark: int) -> bool:
    """Whether EARLIEST or LATEST stands for one of its offsets."""
    return isinstance(where, AtOffsets) and any(offset == mark for _, offset in where.offsets)
