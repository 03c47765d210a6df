"""Transaction log: op records say what became of prepared messages, and how far both topics are done with.

    half topic   ─┬─ p ─ p ─ p ─ p ─▶      a transaction ends with an op record that names its prepared message. It is
    op topic     ─┴──── op ─── op ──▶      staged behind the final message, in the same commit: of a log that a crash
                                           cuts anywhere, what is left has the final message wherever it has the op.

All transactions that end in one group commit share an op record. Progress (``TRANSACTION_GROUP``) is committed up to
the oldest prepared message that waits, once the op records that allow it are on disk; a broker that starts reads the
rest.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from pyromq.broker.commit.write_path import WritePath
from pyromq.broker.state.progress import Progress
from pyromq.broker.transactions.prepared_table import PreparedTable
from pyromq.clock import Clock
from pyromq.errors import MQError
from pyromq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from pyromq.model.property_names import TAGS
from pyromq.model.system_names import TRANSACTION_GROUP
from pyromq.wire.flags import SysFlag
from pyromq.wire.prepared import ENDED_TAG, op_bodies, op_offsets
from pyromq.wire.properties import find_property
from pyromq.wire.property_text import join_items
from pyromq.wire.record import Draft, Record, split_records

logger = logging.getLogger(__name__)

COPIES_MAX: Final = 100_000
_TAGS: Final = TAGS.encode()
_OP_PROPERTIES: Final = join_items([(TAGS, ENDED_TAG)]).encode()
_READ_COUNT: Final = 256


class Ending(IntEnum):
    """Why a prepared message needs no decision any more."""

    COMMIT = int(SysFlag.COMMIT)
    ROLLBACK = int(SysFlag.ROLLBACK)
    MOVED = 1  # a copy of it waits instead, or it was put away


class _Mark(NamedTuple):
    """Progress that counts once the log is on disk up to ``log_end``."""

    log_end: int
    prepared: int
    op: int


class TransactionLog:
    """Owns the table of prepared messages and writes op records."""

    def __init__(self, write_path: WritePath, progress: Progress, clock: Clock) -> None:
        self._store = write_path.store
        self._writes = write_path.internal_writes
        self._group_commit = write_path.group_commit
        self._progress = progress
        self._clock = clock
        self.ending: dict[int, Ending] = {}  # on their way to the disk
        self.copies: dict[str, int] = {}  # unique keys of prepared messages that were written again, and where
        self.is_surveyed = False  # everything that waited at the start was looked at
        self._copies_fit = True  # ``copies`` has all of them
        self._unwritten: list[int] = []  # ended, and without an op record yet
        self._ops: deque[tuple[int, int]] = deque()  # op records still needed: offset, newest prepared message in it
        self.table = PreparedTable(self._start_of(HALF_TOPIC))
        self._op_first = self._start_of(OP_HALF_TOPIC)  # op records below are not needed any more
        self._op_end = self._op_first  # offset of the next op record
        self._committed = _Mark(0, self.table.first, self._op_first)  # as it may be saved
        self._mark = self._committed  # the next one, which waits for the log
        self._load()

    # --- looking ---

    @property
    def prepared_end(self) -> int:
        """Where the half topic ends for readers."""
        known = self._store.reader.range_of(HALF_TOPIC, 0)
        return known.end if known else 0

    def is_waiting(self, offset: int) -> bool:
        return self.table.is_waiting(offset) and offset not in self.ending

    @property
    def knows_all_copies(self) -> bool:
        return self.is_surveyed and self._copies_fit

    def live_copy(self, unique_key: str) -> int | None:
        """Where a prepared message waits that is not where it was written first."""
        offset = self.copies.get(unique_key)
        return offset if offset is not None and self.is_waiting(offset) else None

    # --- changing ---

    def end(self, offset: int, ending: Ending) -> None:
        """Its op record becomes part of this group commit, behind everything that is staged before."""
        self.ending[offset] = ending
        if not self._unwritten:
            self._group_commit.before_commit(self._write)
        self._unwritten.append(offset)

    def write_copy(self, draft: Draft, unique_key: str) -> None:
        """Write a prepared message once more, at the end of the half topic. Raises StoreError."""

        def written(error: MQError | None) -> None:
            if error is not None:
                self.copies.pop(unique_key, None)

        self.note_copy(unique_key, self._writes.put(draft, written).offset)

    def note_copy(self, unique_key: str, offset: int) -> None:
        if len(self.copies) < COPIES_MAX:
            self.copies[unique_key] = offset
        else:
            self._copies_fit = False

    def forget_ended_copies(self) -> None:
        self.copies = {key: offset for key, offset in self.copies.items() if self.table.is_waiting(offset)}

    def _write(self) -> None:
        ended, self._unwritten = self._unwritten, []
        for offsets, body in op_bodies(ended):
            draft = Draft(
                topic=OP_HALF_TOPIC, queue_id=0, body=body, properties=_OP_PROPERTIES, born_ms=self._clock.now_ms()
            )
            try:
                self._writes.put(draft, partial(self._written, offsets))
            except MQError as error:
                logger.error(
                    "op record not written, will be tried again: prepared_messages=%d reason=%s", len(offsets), error
                )
                self._unwritten += offsets

    def _written(self, offsets: Sequence[int], error: MQError | None) -> None:
        for offset in offsets:
            del self.ending[offset]
        if error is None:
            self.table.remove_all(offsets)
            self._note_op(self._op_end, offsets)

    def _note_op(self, op_offset: int, offsets: Sequence[int]) -> None:
        self._op_end = op_offset + 1
        self._ops.append((op_offset, max(offsets, default=-1)))

    # --- progress ---

    def settle(self) -> None:
        """Call it from time to time: moves on what is done, and repeats what the store refused."""
        if self._unwritten:
            self._write()
        self.table.advance()
        while self._ops and self._ops[0][1] < self.table.first:
            self._op_first = self._ops.popleft()[0] + 1
        if self._mark is not self._committed:
            if self._store.flushed_position < self._mark.log_end:
                return
            self._committed = self._mark
            self._commit()
        if (self.table.first, self._op_first) != self._committed[1:]:
            self._mark = _Mark(self._store.end_position, self.table.first, self._op_first)

    def _commit(self) -> None:
        self._progress.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, self._committed.prepared)
        self._progress.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, 0, self._committed.op)

    def _start_of(self, topic: str) -> int:
        """Where to go on; a store that was cut, or cleaned, since then has the last word."""
        known = self._store.reader.range_of(topic, 0)
        committed = self._progress.committed(TRANSACTION_GROUP, topic, 0)
        if known is None:
            return 0
        return known.first if committed is None else min(max(committed, known.first), known.end)

    def _load(self) -> None:
        self.table.grow(self.prepared_end)
        for record in self._records(OP_HALF_TOPIC, self._op_first):
            offsets = [offset for offset in op_offsets(record.body) if offset < self.table.end]
            if find_property(record.properties, _TAGS) != ENDED_TAG.encode():
                offsets = []
            self.table.remove_all(offsets)
            self._note_op(record.offset, offsets)
        self.settle()
        if count := self.table.waiting:
            logger.info("transactions found: waiting=%d oldest_offset=%d", count, self.table.first)

    def _records(self, topic: str, offset: int) -> Iterator[Record]:
        known = self._store.reader.range_of(topic, 0)
        while known is not None and offset < known.end:
            found = self._store.reader.read(topic, 0, offset, count_max=_READ_COUNT)
            yield from split_records(found.to_bytes())
            offset = max(found.next_offset, offset + 1)
