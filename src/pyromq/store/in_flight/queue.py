"""In-flight queue: the messages of one queue that one group was handed out and has not acknowledged.

    offset   0 ····· low ─────────────────── next ─────────▶ end of the queue
             settled     rows, or settled     never handed out

A *hand-out* is what one consumer got at once: it has the number of its receipts, the time until which the messages are
invisible to others, and how often they were delivered. A *row* is an offset below ``next`` that is not settled, with
its newest hand-out. A row whose time is over is *ready*: it is handed out again. Below ``low`` everything is settled
(acknowledged, dead, or not wanted by the group's filter): ``low`` is what the group has committed.

In order mode rows have the hash of their message group. A message behind an unsettled one of the same message group
becomes a row that was delivered 0 times, and waits for it; other message groups are handed out past it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

import msgspec

NO_NUMBER: Final = 0
"""The receipt number of what was never handed out: no receipt has it."""


class QueueName(NamedTuple):
    """Whose messages these are; ``topic`` may be a retry topic."""

    group: str
    topic: str
    queue_id: int


class HandOut(msgspec.Struct, frozen=True, eq=False):
    """Messages of one queue that were given to one consumer together; ``attempts``: how often each was, with this."""

    number: int
    popped_ms: int
    until_ms: int
    attempts: int
    offsets: Collection[int]


class InFlightFacts(NamedTuple):
    """What operators want to know of a queue that a group pops: messages that are with consumers, that are ready to be
    delivered again, and that were settled behind an older one; and of the oldest unsettled one its offset, how often it
    was delivered, and until when it is invisible (0: not any more)."""

    in_flight: int
    ready: int
    settled: int
    offset: int
    attempts: int
    until_ms: int


class InFlightQueue:
    """Owned by the table; changed by it alone."""

    __slots__ = ("_ready", "keys", "low", "name", "next", "rows", "settling", "used_ms")

    def __init__(self, name: QueueName, low: int) -> None:
        self.name = name
        self.low = low
        self.next = low
        self.rows: dict[int, HandOut] = {}
        self.keys: dict[int, int] = {}  # hashes of message groups, in order mode
        self.settling: set[int] = set()  # an acknowledgement, or a change, is on its way to the disk
        self._ready: list[int] = []  # a heap of offsets; some are not ready any more
        self.used_ms = 0  # when it was popped last, by the monotonic clock

    def __repr__(self) -> str:
        return f"InFlightQueue({self.name}, low={self.low}, next={self.next}, rows={len(self.rows)})"

    # --- looking ---

    def is_ready(self, offset: int, now_ms: int) -> bool:
        out = self.rows.get(offset)
        return out is not None and out.until_ms <= now_ms and offset not in self.settling

    def has_ready(self, now_ms: int) -> bool:
        """Drops what is not ready any more from the front."""
        while self._ready and not self.is_ready(self._ready[0], now_ms):
            heappop(self._ready)
        return bool(self._ready)

    def take_ready(self, count: int, now_ms: int) -> list[int]:
        """The first ``count`` ready offsets, in order; the caller hands them out, or puts them back."""
        found: list[int] = []
        while len(found) < count and self.has_ready(now_ms):
            offset = heappop(self._ready)
            if not found or found[-1] != offset:
                found.append(offset)
        return found

    def all_ready(self, now_ms: int) -> list[int]:
        """Every ready offset, in order; for order mode, which has few rows."""
        self._ready = sorted({offset for offset in self._ready if self.is_ready(offset, now_ms)})
        return self._ready

    def busy_keys(self, ready: Collection[int]) -> set[int]:
        """Message groups of which a message is not settled and not ready: with a consumer, about to be settled, or
        about to be a dead letter. ``ready`` is ``all_ready`` of the same moment."""
        keys, free = self.keys, set(ready)
        return {keys.get(offset, 0) for offset in self.rows if offset not in free}

    def good(self, offsets: Collection[int], number: int, popped_ms: int) -> Collection[int]:
        """Those whose newest hand-out is this one, and that nothing settles or changes at the moment."""
        outs, settling = [*map(self.rows.get, offsets)], self.settling
        out = outs[0] if outs else None
        if out is None or out.number != number or out.popped_ms != popped_ms or outs.count(out) < len(outs):
            found = [
                offset
                for offset, out in zip(offsets, outs, strict=True)
                if out is not None and out.number == number and out.popped_ms == popped_ms and offset not in settling
            ]
            return found
        return offsets if settling.isdisjoint(offsets) else [offset for offset in offsets if offset not in settling]

    def in_flight(self, now_ms: int) -> int:
        """Messages that are with a consumer."""
        return sum(out.until_ms > now_ms for out in self.rows.values())

    def facts(self, now_ms: int) -> InFlightFacts:
        in_flight, unsettled = self.in_flight(now_ms), len(self.rows)
        settled = self.next - self.low - unsettled
        oldest = self.rows.get(self.low)
        if oldest is None:
            return InFlightFacts(in_flight, unsettled - in_flight, settled, self.low, 0, 0)
        until_ms = oldest.until_ms if oldest.until_ms > now_ms else 0
        return InFlightFacts(in_flight, unsettled - in_flight, settled, self.low, oldest.attempts, until_ms)

    def hand_outs(self) -> Iterator[HandOut]:
        """Each with the offsets that are still its own."""
        own: dict[HandOut, list[int]] = {}
        for offset, out in sorted(self.rows.items(), key=lambda row: row[0]):
            own.setdefault(out, []).append(offset)
        for out, offsets in own.items():
            yield msgspec.structs.replace(out, offsets=offsets)

    # --- changing ---

    def put(self, out: HandOut, next_offset: int) -> None:
        self.rows.update(dict.fromkeys(out.offsets, out))
        if next_offset > self.next:
            self.next = next_offset

    def make_ready(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            heappush(self._ready, offset)

    def settle(self, offsets: Collection[int]) -> None:
        rows, keys = self.rows, self.keys
        for offset in offsets:
            rows.pop(offset, None)
        if keys:
            for offset in offsets:
                keys.pop(offset, None)
        if not rows:
            self.low = self.next
            self._ready.clear()
            return
        low, end = self.low, self.next
        while low < end and low not in rows:
            low += 1
        self.low = low

    def skip_to(self, offset: int) -> None:
        """The group wants nothing of what lies before; what it has in flight stays."""
        self.next = max(self.next, offset)
        self.settle(())

    def bring_back(self, end: int) -> bool:
        """The queue ends there: what lies behind was lost. True when something did."""
        if self.next <= end:
            return False
        self.next = end
        self.settle([offset for offset in self.rows if offset >= end])
        self.low = min(self.low, end)
        return True
