"""Starting and ending offsets, queue by queue. Pure: what brokers must be asked is asked before.

    startingOffsets   the group stands there    it does not
      group           where it stands           the beginning of the queue
      latest          where it stands           the end of the queue
      earliest        the beginning             the beginning
      JSON            the offset named; -1 as latest, -2 as earliest; the beginning for queues not named
    startingTimestamp the first message stored then or later, the end of the queue if there is none
    startingOffsetsByTimestamp   likewise, queue by queue; the beginning for queues not named

"latest" looks at the group first because Spark asks for the start of a query a second time when it crashed in its
first batch, and must then hear the same: the start is stored in the group before Spark hears it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.errors import OptionError
from pyromq.pipeline.core.offsets import HeldRange, Offsets
from pyromq.pipeline.core.places import EARLIEST, LATEST, AtOffsets, AtTime, AtTimes, RelativeOffset, Where
from pyromq.pipeline.reading.plan import shown


def starting_offsets(
    where: Where, held: Mapping[QueueId, HeldRange], stored: Mapping[QueueId, int], by_time: Mapping[QueueId, int]
) -> Offsets:
    """``stored``: where the group stands; ``by_time``: what brokers found for timestamps. Raises OptionError."""
    named = where.as_dict() if isinstance(where, AtOffsets) else {}
    _require_known(named, held, "startingOffsets")
    return {queue: _start(where, queue, there, named, stored, by_time) for queue, there in held.items()}


def _start(
    where: Where,
    queue: QueueId,
    there: HeldRange,
    named: Mapping[QueueId, int],
    stored: Mapping[QueueId, int],
    by_time: Mapping[QueueId, int],
) -> int:
    match where:
        case AtTime() | AtTimes():
            return by_time.get(queue, there.first)
        case RelativeOffset.GROUP:
            return stored.get(queue, there.first)
        case RelativeOffset.LATEST:
            return stored.get(queue, there.end)
        case AtOffsets():
            offset = named.get(queue, EARLIEST)
            if offset == LATEST:
                return stored.get(queue, there.end)
            return there.first if offset == EARLIEST else offset
        case _:
            return there.first


def times_of(where: Where, held: Mapping[QueueId, HeldRange], option: str) -> dict[QueueId, int]:
    """The times to look up, queue by queue; ``option`` is what named them. Raises OptionError."""
    match where:
        case AtTime():
            return dict.fromkeys(held, where.time_ms)
        case AtTimes():
            _require_known(where.as_dict(), held, option)
            return where.as_dict()
        case _:
            return {}


def require_matches(
    times_ms: Mapping[QueueId, int], by_time: Mapping[QueueId, int], held: Mapping[QueueId, HeldRange]
) -> None:
    """Every queue has a message of its time or later. Raises OptionError."""
    late = [queue for queue in sorted(times_ms) if by_time[queue] >= held[queue].end]
    if late:
        text = f"{shown(late[0])} has no message that was stored at {times_ms[late[0]]} or later"
        more = f" ({len(late)} queues in all)" if len(late) > 1 else ""
        raise OptionError("startingOffsetsByTimestampStrategy", f"{text}{more}; latest would start at its end")


def ending_offsets(
    where: Where, held: Mapping[QueueId, HeldRange], stored: Mapping[QueueId, int], by_time: Mapping[QueueId, int]
) -> Offsets:
    """Offsets where a batch read ends. Raises OptionError."""
    named = where.as_dict() if isinstance(where, AtOffsets) else {}
    _require_known(named, held, "endingOffsets")
    ends: Offsets = {}
    for queue, there in held.items():
        match where:
            case AtTime() | AtTimes():
                ends[queue] = by_time.get(queue, there.end)
            case RelativeOffset.GROUP:
                ends[queue] = stored.get(queue, there.first)
            case AtOffsets() if named.get(queue, LATEST) != LATEST:
                ends[queue] = named[queue]
            case _:
                ends[queue] = there.end
    return ends


def backward_ranges(
    start: Mapping[QueueId, int], end: Mapping[QueueId, int], held: Mapping[QueueId, HeldRange]
) -> tuple[list[QueueId], list[str]]:
    """Queues whose start lies beyond their end; and those of them, in words, where messages are gone instead: the queue
    begins later than the end that is asked for, or ends before the start."""
    backward, losses = [], []
    for queue, there in sorted(held.items()):
        begin, until = start[queue], end[queue]
        if begin <= until:
            continue
        if begin == there.first:
            losses.append(f"{shown(queue)} begins at {there.first}, after {until}, where the read was to end")
        elif until == there.end:
            losses.append(f"{shown(queue)} ends at {there.end}, before {begin}, where the read was to begin")
        else:
            backward.append(queue)
    return backward, losses


def said(where: Where, which: str, queue: QueueId) -> str:
    """The option that gave the start (``which`` is starting) or the end of a queue, with what it says."""
    match where:
        case AtTime():
            return f"{which}Timestamp {where.time_ms}"
        case AtTimes():
            return f"{which}OffsetsByTimestamp"
        case AtOffsets():
            return f"{which}Offsets" if queue in where.as_dict() else f"{which}Offsets, which does not name it"
        case _:
            return f"{which}Offsets {where.value}"


def needs_group(where: Where) -> bool:
    """Whether it matters where the group stands."""
    if isinstance(where, AtOffsets):
        return any(offset == LATEST for _, offset in where.offsets)
    return where in (RelativeOffset.GROUP, RelativeOffset.LATEST)


def _require_known(named: Mapping[QueueId, int], held: Mapping[QueueId, HeldRange], option: str) -> None:
    for queue in sorted(named):
        if queue not in held:
            raise OptionError(option, f"there is no {shown(queue)} among the topics that are read")
