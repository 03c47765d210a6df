"""The tail of a queue: its entries that are not in its files yet. The line: the queues that have such entries.

    stage ─▶ staged: the record is not in the log yet ─▶ commit: owed to the file ─▶ written, and settled
                                                    └──▶ drop: the log did not take the record

A ``QueueTail`` knows what is staged and owed of one queue, a ``QueueLine`` which queues have something staged, and
which are owed something, in the order in which they began to wait. Neither touches a file.

Both exist twice: here, and in the compiled core (``core/src/queue_tail.rs``), whose send lane puts entries into the
tails of thousands of queues without an object for each. Where the core is, its own are used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyromq.compiled_core import core
from pyromq.store.derived.queue_entry import ENTRY, ENTRY_BYTES


class PureTail:
    """Base class of ``ConsumeQueue``. Anybody reads ``next_offset`` and ``owed_bytes``; they move with its methods."""

    def __init__(self, topic: str, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.next_offset = 0  # what the next message gets
        self.owed_bytes = 0  # size of the entries that are owed, the first ones; the others are only staged
        self._entries = bytearray()  # that are not in files, oldest first

    @property
    def owed_entries(self) -> int:
        return self.owed_bytes // ENTRY_BYTES

    def stage(self, position: int, size: int, tag_hash: int) -> None:
        self._entries += ENTRY.pack(position, size, tag_hash)
        self.next_offset += 1

    def stage_encoded(self, entries: bytes) -> None:
        """Some, as they lie in the file."""
        if len(entries) % ENTRY_BYTES:
            raise ValueError("entries have 20 bytes each")
        self._entries += entries
        self.next_offset += len(entries) // ENTRY_BYTES

    def drop_staged(self) -> None:
        """Forget what the log did not take."""
        self.next_offset -= (len(self._entries) - self.owed_bytes) // ENTRY_BYTES
        del self._entries[self.owed_bytes :]

    def commit_staged(self) -> int:
        """The log has the records, so their entries are owed from now on; returns how many."""
        before, self.owed_bytes = self.owed_bytes, len(self._entries)
        return (self.owed_bytes - before) // ENTRY_BYTES

    def owed(self, bytes_max: int) -> bytes:
        """The first entries that are owed."""
        return bytes(self._entries[: min(self.owed_bytes, bytes_max)])

    def settle(self, size: int) -> None:
        """So much of what is owed, its beginning, is in files."""
        if size > self.owed_bytes or size % ENTRY_BYTES:
            raise ValueError("no more can be written than is owed")
        self.owed_bytes -= size
        del self._entries[:size]

    def restart_tail(self, offset: int) -> None:
        """Nothing is staged or owed, and ``offset`` is what the next message gets."""
        self._entries = bytearray()
        self.owed_bytes, self.next_offset = 0, offset


class PureLine:
    """Line of queues whose entries are to be written. A queue stands in it once; it may be written without
    asking here.
    """

    def __init__(self) -> None:
        self._staged: dict[PureTail, None] = {}
        self._line: dict[PureTail, None] = {}
        self._news: set[str] = set()
        self.add = self._staged.setdefault  # a queue that has staged entries; not a method, for speed

    def __len__(self) -> int:
        """Queues that may be owed entries."""
        return len(self._line)

    @property
    def has_staged(self) -> bool:
        return bool(self._staged)

    def commit(self) -> int:
        """What is staged is owed, and the queues stand in line; returns how many entries these are."""
        staged = self._staged
        count = sum([queue.commit_staged() for queue in staged])
        self._line.update(staged)
        self._news.update([queue.topic for queue in staged])
        staged.clear()
        return count

    def drop_staged(self) -> None:
        for queue in self._staged:
            queue.drop_staged()
        self._staged.clear()

    def count_owed(self) -> int:
        """Entries that the queues in line are owed."""
        return sum([queue.owed_entries for queue in self._line])

    def first(self) -> PureTail:
        """The queue that has waited longest. Raises IndexError without one."""
        try:
            return next(iter(self._line))
        except StopIteration:
            raise IndexError("no queue is in line") from None

    def leave(self) -> None:
        """The first one is owed nothing any more."""
        if self._line:
            del self._line[next(iter(self._line))]

    def take_news(self) -> Iterable[str]:
        """Topics with committed messages since the last call."""
        news, self._news = self._news, set()
        return news


if TYPE_CHECKING:
    QueueTail = PureTail
    QueueLine = PureLine
else:
    QueueTail, QueueLine = (PureTail, PureLine) if core is None else (core.QueueTail, core.QueueLine)
