"""Offsets of a query: the next offset to read in each queue, and their form in checkpoints and options.

    {"orders": {"broker-a": {"0": 123, "1": 98}}}          topic, broker, queue: names as brokers know them
    {"*": "c-jq~…"}                                         the same of more than ``PLAIN_MAX`` queues, packed

Spark compares offsets as text, so the same offsets must always give the same text: keys are sorted, queues by number.
Packed, 10 000 queues take some kilobytes instead of a hundred: Spark writes offsets into its log with every batch, and
hands them over with every look for new messages. Both forms are read everywhere.
"""

from __future__ import annotations

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias

from pyromq.model.queue import QueueId

Offsets: TypeAlias = dict[QueueId, int]
OffsetTree: TypeAlias = dict[str, Any]

PLAIN_MAX: Final = 64
_PACKED: Final = "*"  # no topic has that name
_UNPACKED_BYTES_MAX: Final = 64 << 20


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


def behind(end: Mapping[QueueId, int], latest: Mapping[QueueId, int]) -> Offsets:
    """Return how many messages of each queue a batch that ends at ``end`` has left unread."""
    return {queue: max(0, at - end.get(queue, at)) for queue, at in latest.items()}


def to_tree(offsets: Mapping[QueueId, int]) -> OffsetTree:
    tree: OffsetTree = {}
    for queue in sorted(offsets):
        tree.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.number)] = offsets[queue]
    return tree if len(offsets) <= PLAIN_MAX else {_PACKED: _packed(tree)}


def from_tree(tree: Any) -> Offsets:
    """Read offsets from decoded JSON. Raises OffsetFormatError with what is wrong."""
    if isinstance(tree, dict) and len(tree) == 1 and isinstance(text := tree.get(_PACKED), str):
        tree = _unpacked(text)
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


def _packed(tree: OffsetTree) -> str:
    """Encode queue numbers and offsets of each broker as differences to the one before: long runs of small numbers."""
    steps = {
        topic: {broker: [_steps(map(int, queues)), _steps(queues.values())] for broker, queues in brokers.items()}
        for topic, brokers in tree.items()
    }
    text = json.dumps(steps, separators=(",", ":"), ensure_ascii=False)
    return b85encode(zlib.compress(text.encode(), 9)).decode()


def _unpacked(text: str) -> Any:
    """The tree. Raises OffsetFormatError."""
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(b85decode(text), _UNPACKED_BYTES_MAX)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise OffsetFormatError("packed offsets are cut off, or too long")
        return {
            topic: {
                broker: dict(zip(map(str, accumulate(numbers)), accumulate(offsets), strict=True))
                for broker, (numbers, offsets) in brokers.items()
            }
            for topic, brokers in json.loads(data).items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        raise OffsetFormatError(f"{text[:40]!r}… is not what offsets are packed into: {error}") from error


def _steps(values: Iterable[int]) -> list[int]:
    found = list(values)
    return [value - before for before, value in pairwise((0, *found))]


def from_json(offset: Any) -> Any:
    """What Spark reports as an offset: a text of JSON, or parsed already. None for other texts."""
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None


def queue_text(queue: QueueId) -> str:
    """Format a queue for people."""
    return f"queue {queue.number} of topic {queue.topic} on broker {queue.broker}"


def total(ranges: Iterable[OffsetRange]) -> int:
    return sum(map(len, ranges))


def _entries(value: Any, what: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise OffsetFormatError(f"expected an object of {what}, not {str(value)[:60]!r}")
    return value.items()


class OffsetMemory:
    """The last offsets in both forms. Spark hands back what it got, and asks again and again while nothing happens."""

    def __init__(self) -> None:
        self._known: list[tuple[OffsetTree, Offsets]] = []  # the newest last

    def offsets_of(self, tree: OffsetTree) -> Offsets:
        """Return one object for one tree. Raises OffsetFormatError."""
        for known, offsets in reversed(self._known):
            if known == tree:
                return offsets
        return self._keep(tree, from_tree(tree))[1]

    def tree_of(self, offsets: Offsets) -> OffsetTree:
        for tree, known in reversed(self._known):
            if known is offsets:
                return tree
        return self._keep(to_tree(offsets), offsets)[0]

    def _keep(self, tree: OffsetTree, offsets: Offsets) -> tuple[OffsetTree, Offsets]:
        self._known = [*self._known[-2:], (tree, offsets)]
        return tree, offsets
