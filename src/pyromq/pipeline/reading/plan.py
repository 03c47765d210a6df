"""Batch planning: which offsets a batch reads, in which partitions. Pure: no Spark, no network, no clock.

    start ──▶ losses: is everything still there? ──▶ limits: how far does this batch go? ──▶ end
    [start, end) per queue ──▶ split large ones, group small ones ──▶ partitions

Every offset of [start, end) is in exactly one partition, and the same input gives the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import TypeAlias

from pyromq.model.queue import QueueId
from pyromq.pipeline.core.offsets import HeldRange, OffsetRange, Offsets, queue_text, total

Partition: TypeAlias = tuple[OffsetRange, ...]
shown = queue_text

# --- how far a batch goes --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one batch may take; None: as much as there is."""

    rows_max: int | None = None
    rows_min: int | None = None
    bytes_max: int | None = None
    delay_ms_max: int = 0  # how long fewer than ``rows_min`` may wait


def backlog_of(start: Mapping[QueueId, int], end: Mapping[QueueId, int]) -> Offsets:
    """How many offsets lie before each queue's end, where there are any."""
    return {queue: ahead for queue in start if (ahead := end.get(queue, 0) - start[queue]) > 0}


def batch_end(start: Mapping[QueueId, int], latest: Mapping[QueueId, int], rows_max: int | None) -> Offsets:
    """Where a batch of about ``rows_max`` ends: each queue gives in proportion to what it has, at least one.

    Queues of ``start`` that are not in ``latest`` stay where they are.
    """
    ahead = backlog_of(start, latest)
    size = sum(ahead.values())
    if rows_max is None or size <= rows_max:
        return {**start, **{queue: latest[queue] for queue in ahead}}
    return {**start, **{queue: start[queue] + max(1, rows_max * count // size) for queue, count in ahead.items()}}


def rows_for_bytes(bytes_max: int, ahead: Mapping[QueueId, int], sizes: Mapping[str, float]) -> int:
    """How many rows make about so many bytes, by the average size of a message of each topic; at least one."""
    size = sum(ahead.values())
    expected = sum(count * sizes.get(queue.topic, 0.0) for queue, count in ahead.items())
    return size if expected <= bytes_max else max(1, int(size * bytes_max / expected))


def rows_allowed(limits: BatchLimits, ahead: Mapping[QueueId, int], sizes: Mapping[str, float]) -> int | None:
    """The smaller of both maxima; None without any."""
    found = [] if limits.rows_max is None else [limits.rows_max]
    if limits.bytes_max is not None:
        found.append(rows_for_bytes(limits.bytes_max, ahead, sizes))
    return min(found, default=None)


def is_worth_a_batch(limits: BatchLimits, rows: int, waited_ms: int) -> bool:
    """Whether there is enough to do, or it has waited long enough."""
    return rows > 0 and (limits.rows_min is None or rows >= limits.rows_min or waited_ms >= limits.delay_ms_max)


def with_new_queues(start: Mapping[QueueId, int], held: Mapping[QueueId, HeldRange]) -> Offsets:
    """The offsets of a batch that only takes note of queues not seen before, each at its beginning.

    They are read from the next batch on: so their beginning stands in the checkpoint, whatever retention does later.
    """
    return {**start, **{queue: there.first for queue, there in held.items() if queue not in start}}


# --- what is gone ----------------------------------------------------------------------------------------------------


def losses_before(start: Mapping[QueueId, int], held: Mapping[QueueId, HeldRange]) -> tuple[list[str], Offsets]:
    """What is missing of what comes after ``start``, in words, and the nearest offsets that can be read.

    A queue that ends before its start was deleted and made anew: it is read from its beginning.
    """
    losses, mended = [], dict(start)
    for queue, offset in sorted(start.items()):
        there = held.get(queue)
        if there is None:
            losses.append(f"{shown(queue)} no longer exists (offset {offset} was next)")
        elif offset < there.first:
            losses.append(f"{shown(queue)} begins at {there.first}, offsets {offset} to {there.first} are gone")
            mended[queue] = there.first
        elif offset > there.end:
            losses.append(f"{shown(queue)} ends at {there.end}, before {offset}, which was next")
            mended[queue] = there.first
    return losses, mended


def planned_ranges(
    start: Mapping[QueueId, int],
    end: Mapping[QueueId, int],
    held: Mapping[QueueId, HeldRange],
    *,
    is_first: bool = False,
) -> tuple[list[OffsetRange], list[str]]:
    """What can be read of a planned batch, and what is missing of it, in words.

    ``start`` beyond ``end``: in the first batch of a query its start has moved since it was planned, and what lay
    between is out of reach; later on the queue was made anew, and is read from its beginning.
    """
    ranges, losses = [], []
    for queue, until in sorted(end.items()):
        begin, there = start.get(queue, until), held.get(queue)
        if begin == until:
            continue
        if there is None:
            losses.append(f"{shown(queue)} no longer exists (offset {begin} was next)")
            continue
        if begin > until:
            losses.append(f"{shown(queue)}: the batch was to end at {until}, but its start moved to {begin}")
            begin = until if is_first else min(there.first, until)
        first, last = max(begin, there.first), min(until, there.end)
        if first > begin:
            losses.append(f"{shown(queue)} begins at {there.first}, offsets {begin} to {min(until, first)} are gone")
        if last < until:
            losses.append(f"{shown(queue)} ends at {there.end}, offsets {max(begin, last)} to {until} are gone")
        if first < last:
            ranges.append(OffsetRange(queue, first, last))
    return ranges, losses


# --- partitions ------------------------------------------------------------------------------------------------------


def plan_partitions(
    ranges: Sequence[OffsetRange],
    *,
    count_min: int | None = None,
    count_max: int | None = None,
    rows_max: int | None = None,
) -> list[Partition]:
    """One partition per queue that has something; more to reach ``count_min``, fewer to stay within ``count_max``.

    ``rows_max`` beats ``count_max``: it bounds what one task has to do.
    """
    pieces = [piece for each in ranges for piece in _split(each, -(-len(each) // rows_max) if rows_max else 1)]
    if count_min is not None and len(pieces) < count_min:
        size = total(pieces)
        pieces = [part for piece in pieces for part in _split(piece, round(count_min * len(piece) / size))]
    if count_max is None or len(pieces) <= count_max:
        return [(piece,) for piece in pieces]
    return _grouped(pieces, count_max, rows_max)


def _split(piece: OffsetRange, parts: int) -> list[OffsetRange]:
    """Equal parts, none of them empty."""
    size = len(piece)
    parts = max(1, min(parts, size))
    cuts = [piece.start + size * number // parts for number in range(parts + 1)]
    return [OffsetRange(piece.queue, low, high) for low, high in pairwise(cuts) if low < high]


def _grouped(pieces: Sequence[OffsetRange], count: int, rows_max: int | None) -> list[Partition]:
    """The largest first, each to the group that has least; a group beyond the count where nothing else has room."""
    groups: list[list[OffsetRange]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    heapify(heap)
    for piece in sorted(pieces, key=lambda piece: (-len(piece), piece)):
        rows, number = heap[0]
        if rows and rows_max is not None and rows + len(piece) > rows_max:
            number, rows = len(groups), 0
            groups.append([])
        else:
            heappop(heap)
        groups[number].append(piece)
        heappush(heap, (rows + len(piece), number))
    return [tuple(sorted(group)) for group in groups if group]
