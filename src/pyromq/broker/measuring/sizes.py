"""Sizes of messages, from the queue entries that were written since the last collection.

    entry   position 8   size 4   tag hash 8      the third of five 4-byte words, big-endian

Nothing is counted while messages arrive: entries are counted in bulk, some thousands in a step, whoever wrote them. The
first collection only notes where queues end.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Generator
from typing import Final

from pyromq.metrics.broker_table import MESSAGE_SIZE
from pyromq.metrics.samples import Distribution
from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.queue_entry import ENTRY_BYTES, FILLER_SIZE
from pyromq.store.message_store import MessageStore

ENTRIES_AT_ONCE: Final = 8_192
ENTRIES_MAX: Final = 1_000_000  # in one collection; the others are for the next
QUEUES_AT_ONCE: Final = 256
_BOUNDS: Final = MESSAGE_SIZE.buckets
_WORDS: Final = ENTRY_BYTES // 4


class MessageSizes:
    """By topic; ``refresh`` counts what is new, in steps."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._counted: dict[tuple[str, int], int] | None = None  # by queue: the first offset that is not counted
        self._counts: dict[str, list[int]] = {}
        self._totals: dict[str, int] = {}

    def refresh(self) -> Generator[None, None, None]:
        queues = list(self._store.queues.items())
        if self._counted is None:
            self._counted = {key: queue.end for key, queue in queues}
        counted, left = self._counted, ENTRIES_MAX
        for number, (key, queue) in enumerate(queues, 1):
            at = counted.get(key, 0)
            if at > queue.end:  # the topic was deleted and made anew
                at = 0
            at = max(at, queue.first)
            while at < queue.end and left > 0:
                count = self._count(key[0], queue, at)
                at, left = at + count, left - count
                yield
                if not count:
                    break
            counted[key] = at
            if number % QUEUES_AT_ONCE == 0:
                yield
        if len(counted) > len(self._store.queues):
            for gone in counted.keys() - self._store.queues.keys():
                del counted[gone]

    def _count(self, topic: str, queue: ConsumeQueue, offset: int) -> int:
        try:
            data = queue.entry_bytes(offset, ENTRIES_AT_ONCE)
        except OSError:
            return 0
        counts = self._counts.setdefault(topic, [0] * (len(_BOUNDS) + 1))
        total = 0
        for word, count in Counter(memoryview(data).cast("I")[2::_WORDS].tolist()).items():
            size = int.from_bytes(word.to_bytes(4, sys.byteorder), "big")
            if size != FILLER_SIZE:
                counts[bisect_left(_BOUNDS, size)] += count
                total += size * count
        self._totals[topic] = self._totals.get(topic, 0) + total
        return len(data) // ENTRY_BYTES

    def now(self) -> dict[str, Distribution]:
        return {
            topic: Distribution(tuple(counts), float(self._totals[topic])) for topic, counts in self._counts.items()
        }
