"""Unread messages: what the deletion of log files would take from groups that have not read it.

The store knows queues, its owner knows groups: it hands in ``StoreReaders``. A store may have many thousands of queues,
so some are looked at in each ``advance``; the deletion waits until all were.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyromq.store.derived.consume_queue import ConsumeQueue

logger = logging.getLogger(__name__)

_SEARCHES_MAX = 128  # queues that are searched in one ``advance``: a few milliseconds
_QUEUES_MAX = 4_096  # and those at which it is seen that there is nothing to search

Readers = Callable[[str, int], Mapping[str, int] | None]
"""Of a queue, by topic and number: its groups with the offset each wants next; None when it is no concern of theirs."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Messages of a topic that a group has not read; without a name, that no group reads."""

    topic: str
    group: str
    messages: int


class StoreReaders(Protocol):
    """What the owner of a store knows about its readers."""

    def readers(self) -> Readers:
        """Readers as they are now; one count uses the same from beginning to end."""

    def deleted(self, unread: list[Unread], *, forced: bool) -> None:
        """These messages are gone, because their file had expired, or by force, because the disk is too full."""

    def kept(self, unread: list[Unread], file: str) -> None:
        """For their sake a file is kept that would be deleted."""


class NoGroups:
    """A store whose owner has none."""

    def readers(self) -> Readers:
        return lambda topic, queue_id: None

    def deleted(self, unread: list[Unread], *, forced: bool) -> None: ...

    def kept(self, unread: list[Unread], file: str) -> None: ...


class UnreadCount:
    """One count of what lies in [first, end) of the log."""

    def __init__(self, queues: Iterable[ConsumeQueue], readers: Readers, first: int, end: int) -> None:
        self.first = first
        self.end = end
        self._readers = readers
        self._left = deque(queues)
        self._counts: Counter[tuple[str, str]] = Counter()

    @property
    def is_done(self) -> bool:
        return not self._left

    def advance(self) -> None:
        """Look at some more queues."""
        searches = 0
        for _ in range(min(_QUEUES_MAX, len(self._left))):
            queue = self._left.popleft()
            groups = self._readers(queue.topic, queue.queue_id)
            if groups is None or queue.end <= queue.first or (groups and min(groups.values()) >= queue.end):
                continue
            try:
                self._count(queue, groups or {"": queue.first})
            except OSError as error:
                logger.warning("unread messages not counted: queue=%s/%d reason=%s", queue.topic, queue.queue_id, error)
            searches += 1
            if searches == _SEARCHES_MAX:
                return

    def _count(self, queue: ConsumeQueue, groups: Mapping[str, int]) -> None:
        first, behind = queue.first_at_or_after(self.first), queue.first_at_or_after(self.end)
        for group, offset in groups.items():
            if (messages := behind - max(offset, first)) > 0:
                self._counts[queue.topic, group] += messages

    def found(self) -> list[Unread]:
        """Unread messages by group, the most first."""
        return [Unread(topic, group, messages) for (topic, group), messages in self._counts.most_common()]
