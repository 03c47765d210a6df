"""Histories of single queues, to be checked as one append-only log: by ``is_one_log`` here, and by Porcupine.

An operation is an append, from the first moment of a send to its response, or a read at the moment of a delivery. An
append whose response never came ends nowhere (-1), and has its place where somebody read it; so has the second copy of
a send that was tried twice, or of a letter that was sent again.
"""

from __future__ import annotations

import msgspec

from tests.sim.history import History

NEVER = -1


class Operation(msgspec.Struct, frozen=True):
    client: int
    kind: str  # append, read
    key: str
    offset: int
    begin: int  # microseconds since the first moment
    end: int


def by_queue(history: History) -> dict[str, list[Operation]]:
    """Of topics that producers send to; what retries and delays store elsewhere is not theirs."""
    found: dict[str, list[Operation]] = {}
    placed: set[tuple[object, ...]] = set()
    for sent in history.sent.values():
        if sent.status == "ok" and sent.queue is not None:  # what is stored and not promised may be replaced
            placed.add((*sent.queue, sent.offset, sent.key))
            append = Operation(0, "append", sent.key, sent.offset, _us(sent.at_s), _us(sent.done_s))
            found.setdefault(_name(sent.queue), []).append(append)
    for read in history.deliveries:
        origin = history.sent.get(read.key)
        if origin is None or read.queue[0] != origin.topic:
            continue
        queue = found.setdefault(_name(read.queue), [])
        place = (*read.queue, read.offset, read.key)
        if place not in placed:
            placed.add(place)
            queue.append(Operation(0, "append", read.key, read.offset, _us(origin.at_s), NEVER))
        queue.append(Operation(1, "read", read.key, read.offset, _us(read.at_s), _us(read.at_s)))
    return found


def is_one_log(operations: list[Operation]) -> bool:
    """Each offset has one message, read after its append began, and later appends have larger offsets."""
    begun: dict[int, Operation] = {}
    for each in operations:
        if each.kind == "append" and begun.setdefault(each.offset, each).key != each.key:
            return False
    for each in operations:
        held = begun.get(each.offset)
        if each.kind == "read" and (held is None or held.key != each.key or each.end < held.begin):
            return False
    return _is_in_order(list(begun.values()))


def _is_in_order(appends: list[Operation]) -> bool:
    """No append has an offset before one that had ended when it began."""
    earliest_end: int | None = None  # of appends with larger offsets
    for each in sorted(appends, key=lambda append: -append.offset):
        if earliest_end is not None and each.begin > earliest_end:
            return False
        if each.end != NEVER:
            earliest_end = each.end if earliest_end is None else min(earliest_end, each.end)
    return True


def _name(queue: tuple[str, str, int]) -> str:
    return "-".join(map(str, queue))


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
