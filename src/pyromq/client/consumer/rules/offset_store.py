"""Offset table: how far a group is, moved forward in memory by consuming, and what of it must be written when.

    update    after every finished batch, forward only
    freeze    the broker said that an offset is illegal: the corrected one stays, whatever late listeners report
    reset     an operator's wish, also backwards

    every 5 s                      all owned queues with a known offset, changed or not: one-way commits may get lost
    a queue is given up            its offset once more, then it is forgotten
    shutdown                       all owned queues

Clustering commits to the broker. Broadcasting writes ``snapshot()`` to a file (``offsets_file``) and forgets nothing,
as it is remembered nowhere else. The loop owns the table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from pyromq.model.queue import Offset, QueueId

logger = logging.getLogger(__name__)

PERSIST_MS: Final = 5_000


class MemberOffsets:
    """Offsets of one group at this member."""

    def __init__(self, offsets: Mapping[QueueId, int] | None = None) -> None:
        self._offsets: dict[QueueId, Offset] = {queue: Offset(offset) for queue, offset in (offsets or {}).items()}
        self._frozen: set[QueueId] = set()
        self._revision = 0

    @property
    def revision(self) -> int:
        """Counts changes: a file that was written at the same revision is up to date."""
        return self._revision

    def read(self, queue: QueueId) -> Offset | None:
        """The offset in memory; None means that broker or file must be asked."""
        return self._offsets.get(queue)

    def update(self, queue: QueueId, offset: int) -> None:
        """Consuming came this far; a smaller offset than known is old news."""
        if offset > self._offsets.get(queue, -1) and not (self._frozen and queue in self._frozen):
            self._offsets[queue] = Offset(offset)
            self._revision += 1

    def reset(self, queue: QueueId, offset: int) -> None:
        """Go on here, even if it is further back: the application's own wish."""
        self._set(queue, offset, logging.INFO)

    def freeze(self, queue: QueueId, offset: int) -> None:
        """Go on here, and let consuming change nothing until the queue was forgotten or thawed."""
        self._set(queue, offset)
        self._frozen.add(queue)

    def thaw(self, queue: QueueId) -> None:
        """A frozen queue was granted again."""
        self._frozen.discard(queue)

    def forget(self, queue: QueueId) -> Offset | None:
        """The queue was given up; returns what must be persisted first, None when nothing was consumed."""
        self._frozen.discard(queue)
        offset = self._offsets.pop(queue, None)
        self._revision += offset is not None
        return offset

    def of(self, queues: Iterable[QueueId]) -> dict[QueueId, Offset]:
        """What to persist for the owned queues; those without an offset stand for nothing and are left out."""
        return {queue: self._offsets[queue] for queue in sorted(queues) if queue in self._offsets}

    def of_topic(self, topic: str) -> dict[QueueId, Offset]:
        """What a broker gets when it asks where the consumer is (221)."""
        return {queue: offset for queue, offset in self._offsets.items() if queue.topic == topic}

    def snapshot(self) -> dict[QueueId, Offset]:
        return dict(self._offsets)

    def _set(self, queue: QueueId, offset: int, level: int = logging.WARNING) -> None:
        assert offset >= 0, "offsets are ordinals"
        known = self._offsets.get(queue)
        if known is not None and offset < known:
            logger.log(level, "offset goes back, messages come again: queue=%s from=%d to=%d", queue, known, offset)
        self._offsets[queue] = Offset(offset)
        self._revision += 1
