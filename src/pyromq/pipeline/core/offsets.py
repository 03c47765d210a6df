"""Offsets of a query: the next offset to read in each queue, and their form in checkpoints and options.

    {"orders": {"broker-a": {"0": 123, "1": 98}}}          topic, broker, queue: names as brokers know them

Spark compares offsets as text, so the same offsets must always give the same text: keys are sorted, queues by number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyromq.model.queue import QueueId

Offsets: TypeAlias = dict[QueueId, int]
OffsetTree: TypeAlias = dict[str, dict[str, dict[str, int]]]


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets [start, end) of one queue."""

    queue: QueueId
    start: int
    end: int

    def __len__(self) -> int:
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class HeldRange:
    """What a queue holds: offsets [first, end)."""

    first: int
    end: int


class OffsetFormatError(ValueError):
    """Something that is not {"topic": {"broker": {"0": 123}}}."""


def to_tree(offsets: Mapping[QueueId, int]) -> OffsetTree:
    tree: OffsetTree = {}
    for queue in sorted(offsets):
        tree.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.number)] = offsets[queue]
    return tree


def from_tree(tree: Any) -> Offsets:
    """Read offsets from decoded JSON. Raises OffsetFormatError with what is wrong."""
    found: Offsets = {}
    for topic, brokers in _entries(tree, "topics"):
        for broker, queues in _entries(brokers, f"brokers of topic {topic}"):
            for number, offset in _entries(queues, f"queues of topic {topic} on broker {broker}"):
                if not (number.isascii() and number.isdigit()):
                    raise OffsetFormatError(f"{number!r} is not the number of a queue of topic {topic}")
                if isinstance(offset, bool) or not isinstance(offset, int):
                    raise OffsetFormatError(f"{offset!r} is not an offset (topic {topic}, queue {number})")
                found[QueueId(topic, broker, int(number))] = offset
    return found


def from_json(offset: Any) -> Any:
    """What Spark reports as an offset: a text of JSON, or parsed already. None for other texts."""
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None


def queue_text(queue: QueueId) -> str:
    """For people."""
    return f"queue {queue.number} of topic {queue.topic} on broker {queue.broker}"


def total(ranges: Iterable[OffsetRange]) -> int:
    return sum(map(len, ranges))


def _entries(value: Any, what: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise OffsetFormatError(f"expected an object of {what}, not {str(value)[:60]!r}")
    return value.items()
