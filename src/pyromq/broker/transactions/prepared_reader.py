"""Reading prepared messages by the offset and the position that a producer names."""

from __future__ import annotations

from typing import Final

from pyromq.broker.base.queue_key import QueueKey
from pyromq.model.names import HALF_TOPIC
from pyromq.store.message_store import MessageStore
from pyromq.wire.prepared import StoredPrepared, read_stored

HALF_QUEUE: Final[QueueKey] = (HALF_TOPIC, 0)
_ENTRIES_BEFORE, _ENTRIES = 128, 512


class PreparedReader:
    """Transactions end about in the order they began, so entries of the half topic are read in bulk and kept."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._first = 0  # offset of the first of these
        self._entries: list[tuple[int, int, int]] = []  # position, size and tag hash, as read last

    def read(self, offset: int, position: int) -> StoredPrepared | None:
        """None when the queue does not list it there: bytes that only look like a prepared message are none.

        It may be one that is not flushed yet: what is written from it lies behind it. Raises CorruptRecordError,
        and PositionOutOfRangeError when its file is gone.
        """
        index = offset - self._first
        if not 0 <= index < len(self._entries):
            self._load(offset)
            index = offset - self._first
            if not 0 <= index < len(self._entries):
                return None
        found, size, _ = self._entries[index]
        if found != position:
            return None
        return read_stored(self._store.records.trusted_bytes(position, size))

    def _load(self, offset: int) -> None:
        queue = self._store.queues.get(HALF_QUEUE)
        if queue is None:
            return
        for first in (max(queue.first, offset - _ENTRIES_BEFORE), offset):
            self._first, self._entries = first, list(self._store.reader.entries(*HALF_QUEUE, first, _ENTRIES))
            if offset < first + len(self._entries):  # else they end with a file, and the offset lies in the next one
                return
