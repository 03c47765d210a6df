"""Queue entries that are owed to their files: the queues in line for a write, and the note that waits behind them.

    staged ─▶ commit: owed, and the queue stands in line ─▶ write, from the front of the line ─▶ in its file

Readers and seals write what a queue is owed without asking here, and a queue that is deleted is owed nothing. It keeps
its place in line, which then costs nothing, and its entries stay in the count, which is therefore taken again before it
matters.
"""

from __future__ import annotations

from collections.abc import Callable

from pyromq.store.derived.consume_queue import ConsumeQueue
from pyromq.store.derived.queue_tail import QueueLine


class EntryBacklog:
    """Which queues have staged entries, and which are owed some; owned by the store, on its thread."""

    def __init__(self, entries_max: int, note: Callable[[int], None]) -> None:
        """``note`` gets the position of ``note_when_written`` as soon as the entries before it are written."""
        self._entries_max = entries_max
        self._note = note
        self.line = QueueLine()
        self.add = self.line.add  # a queue that has staged entries
        self._entries = 0  # owed to the queues in line, at most
        self._to_note: int | None = None  # the position that waits to be noted
        self._ahead_of_note = 0  # queues in line to be written before that

    def commit(self) -> bool:
        """The log has the records: what is staged is owed. True when so much is owed that some should be written."""
        self._entries += self.line.commit()
        return self._entries >= self._entries_max and self._is_too_large()

    def _is_too_large(self) -> bool:
        self._entries = self.line.count_owed()
        return self._entries >= self._entries_max // 2  # else it takes long enough until they are counted again

    def drop_staged(self) -> None:
        """Forget what the log did not take."""
        self.line.drop_staged()

    def clear(self) -> None:
        """Forget all queues, when the store is closed."""
        while len(self.line):
            self.line.leave()

    def write(self, queues_max: int | None = None) -> None:
        """Write what queues are owed, of all or of those that waited longest. On OSError the others stay in line."""
        line, waiting = self.line, len(self.line)
        for _ in range(waiting if queues_max is None else min(queues_max, waiting)):
            queue = line.first()
            assert isinstance(queue, ConsumeQueue)
            self._entries -= queue.write_owed()
            line.leave()
            self._ahead_of_note -= 1
        if not len(line):
            self._entries = 0
        self._note_if_due()

    def note_when_written(self, position: int) -> None:
        """Note a position as soon as all queues in line now are written; nothing while an earlier one still waits."""
        if self._to_note is None:
            self._to_note, self._ahead_of_note = position, len(self.line)
            self._note_if_due()

    def _note_if_due(self) -> None:
        if self._to_note is not None and self._ahead_of_note <= 0:
            self._note(self._to_note)
            self._to_note = None
