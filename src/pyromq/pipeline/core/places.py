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


Where = RelativeOffset | AtTime | AtOffsets


def within(namespace: str, where: Where) -> Where:
    """Offsets with the names that brokers have for topics."""
    if not isinstance(where, AtOffsets):
        return where
    named = ((QueueId(wrap(namespace, each.topic), each.broker, each.number), at) for each, at in where.offsets)
    return AtOffsets(tuple(named))


def is_latest(where: Where) -> bool:
    return where is RelativeOffset.LATEST or names(where, LATEST)


def names(where: Where, mark: int) -> bool:
    """Whether EARLIEST or LATEST stands for one of its offsets."""
    return isinstance(where, AtOffsets) and any(offset == mark for _, offset in where.offsets)
