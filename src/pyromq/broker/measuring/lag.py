"""Lag of all groups, kept from one collection to the next.

    group in a topic ── nothing new in the topic, nothing committed, nothing left ──▶ as it was: no queue is looked at
                     └─ else ──▶ its queues: ends, committed and pulled offsets, and when the first messages were stored

When a message was stored is read once for every offset that a group stands at. Ends are those of committed messages: no
entry has to be written, and no file is touched, to know them.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final, NamedTuple

from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.state.progress import Progress
from pyromq.clock import Clock
from pyromq.errors import StoreError
from pyromq.store.message_store import MessageStore

PIECE: Final = 64  # groups between two yields
QUEUES_AT_ONCE: Final = 256
WORST_MAX: Final = 100


class QueueLag(NamedTuple):
    group: str
    topic: str
    queue_id: int
    messages: int


@dataclass(slots=True)
class _Head:
    """The message that a group stands at in one queue, or that it will fetch next."""

    offset: int
    stored_ms: int
    since_ms: int  # when it was first seen there


@dataclass(slots=True)
class GroupLag:
    """One group in one topic."""

    offsets: tuple[int, ...] = ()  # committed, as they were looked at
    messages: int = 0
    in_flight: int = 0  # of these, fetched
    oldest_ms: int = 0  # when the oldest was stored; 0: there is none
    oldest_ready_ms: int = 0  # likewise, of those that were not fetched
    blocked_since_ms: int | None = None  # by the monotonic clock; None: nothing blocks
    finished: int = 0  # by how much its offsets have grown since the first collection
    heads: dict[int, _Head] = field(default_factory=dict)  # by queue that is behind
    behind: dict[int, int] = field(default_factory=dict)  # likewise: messages
    committed: dict[int, int] = field(default_factory=dict)  # as they were looked at, by queue


class LagTable:
    """``refresh`` brings it up to date, in steps; it alone takes the store's news."""

    def __init__(self, store: MessageStore, progress: Progress, clock: Clock) -> None:
        self._store = store
        self._progress = progress
        self._clock = clock
        self.groups: dict[tuple[str, str], GroupLag] = {}  # by topic and group
        self.looked_at = 0  # groups whose queues the last refresh has walked

    def refresh(self) -> Generator[None, None, None]:
        topics = set(self._store.take_news())
        self.looked_at = 0
        keys = list(dict(self._progress.items()))
        for number, key in enumerate(keys, 1):
            yield from self._refresh(key, has_news=key[0] in topics)
            if number % PIECE == 0:
                yield
        if len(self.groups) > len(keys):
            for gone in self.groups.keys() - set(keys):
                del self.groups[gone]

    def _refresh(self, key: tuple[str, str], *, has_news: bool) -> Generator[None, None, None]:
        queues = self._progress.queues_of(*key)
        if queues is None:  # deleted since the keys were taken
            self.groups.pop(key, None)
            return
        known = self.groups.get(key)
        if known is None:
            known = GroupLag()
        elif not has_news and not known.messages and known.offsets == tuple(queues.values()):
            return
        self.looked_at += 1
        self.groups[key] = yield from self._walked(key, known, dict(queues))

    def _walked(
        self, key: tuple[str, str], before: GroupLag, queues: dict[int, int]
    ) -> Generator[None, None, GroupLag]:
        topic, group = key
        now_ms, lag = self._clock.monotonic_ms(), GroupLag(tuple(queues.values()), finished=before.finished)
        for number, (queue_id, committed) in enumerate(queues.items(), 1):
            if number % QUEUES_AT_ONCE == 0:
                yield
            lag.finished += max(0, committed - before.committed.get(queue_id, committed))
            queue = self._store.queues.get((topic, queue_id))
            if queue is None:
                continue
            offset, end = max(committed, queue.first, 0), queue.committed_end
            if offset >= end:
                continue
            pulled = min(max(self._progress.pulled(group, topic, queue_id), offset), end)
            lag.messages += end - offset
            lag.in_flight += pulled - offset
            lag.behind[queue_id] = end - offset
            head = lag.heads[queue_id] = self._head((topic, queue_id), offset, before.heads.get(queue_id), now_ms)
            lag.oldest_ms = min(lag.oldest_ms or head.stored_ms, head.stored_ms)
            if pulled > offset:
                known_ms = lag.blocked_since_ms
                lag.blocked_since_ms = head.since_ms if known_ms is None else min(known_ms, head.since_ms)
            if pulled < end:
                ready_ms = head.stored_ms if pulled == offset else self._stored_ms((topic, queue_id), pulled)
                lag.oldest_ready_ms = min(lag.oldest_ready_ms or ready_ms, ready_ms)
        lag.committed = queues
        return lag

    def _head(self, queue: QueueKey, offset: int, before: _Head | None, now_ms: int) -> _Head:
        if before is not None and before.offset == offset:
            return before
        return _Head(offset, self._stored_ms(queue, offset), now_ms)

    def _stored_ms(self, key: QueueKey, offset: int) -> int:
        """Store time of a message; now for one whose entry is not in its file yet, because it has just come."""
        queue = self._store.queues.get(key)
        try:
            entry = next(queue.raw_entries(offset, 1), None) if queue is not None else None
            return self._store.records.stored_ms(entry[0]) if entry else self._clock.now_ms()
        except (StoreError, OSError):  # a file is gone or damaged: somebody else says that
            return self._clock.now_ms()

    def worst(self) -> Generator[None, None, list[QueueLag]]:
        """The queues that are most behind."""
        found: list[QueueLag] = []
        for (topic, group), lag in list(self.groups.items()):
            if not lag.behind:
                continue
            found += [QueueLag(group, topic, queue_id, messages) for queue_id, messages in lag.behind.items()]
            if len(found) > WORST_MAX + QUEUES_AT_ONCE:
                found = _worst_of(found)
                yield
        return _worst_of(found)


def _worst_of(queues: list[QueueLag]) -> list[QueueLag]:
    return nlargest(WORST_MAX, queues, key=lambda each: each.messages)
