"""config/popInFlight.json: the in-flight table as it was after so many records of its journal.

    {"applied":1203,"queues":[["billing","orders",0,low,next,[[number,poppedMs,untilMs,attempts,runs,keys],…]],…]}

Derived: what is missing is replayed from the journal. It may contain hand-outs of later records, which are applied once
more then; of acknowledgements it contains those of the first ``applied`` records only. A store of Apache RocketMQ has
none, and does not look at it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from pyromq.errors import CorruptFileError
from pyromq.model.names import POP_JOURNAL_TOPIC
from pyromq.store.files.disk import Disk
from pyromq.store.files.whole_file import WholeFile
from pyromq.store.in_flight.journal import decode_changes, offsets_of, runs_of
from pyromq.store.in_flight.queue import HandOut, InFlightQueue, QueueName
from pyromq.store.in_flight.table import InFlightTable
from pyromq.store.message_store import MessageStore
from pyromq.wire.record import split_records

logger = logging.getLogger(__name__)

FILE_NAME: Final = "popInFlight.json"
_READ_COUNT: Final = 64


class _StoredHandOut(msgspec.Struct, frozen=True, array_like=True):
    number: int
    popped_ms: int
    until_ms: int
    attempts: int
    runs: list[int]
    keys: list[int] = []


class _StoredQueue(msgspec.Struct, frozen=True, array_like=True):
    group: str
    topic: str
    queue_id: int
    low: int
    next: int
    hand_outs: list[_StoredHandOut]


class _Stored(msgspec.Struct, frozen=True):
    applied: int
    queues: list[_StoredQueue]


class _Copy(msgspec.Struct, frozen=True):
    """A queue at one moment, to be written down on another thread."""

    name: QueueName
    low: int
    next: int
    rows: dict[int, HandOut]
    keys: dict[int, int]


class Snapshot:
    """The file; one save at a time."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._file = WholeFile(disk, folder / FILE_NAME)

    def load(self) -> InFlightTable:
        """What was saved; an empty table when there is nothing, or nothing that can be read."""
        table = InFlightTable()
        try:
            stored = self._file.load(lambda text: msgspec.json.decode(text, type=_Stored))
        except CorruptFileError as error:
            logger.error("in-flight messages are read from their journal alone: reason=%s", error)
            return table
        if stored is None:
            return table
        table.applied = stored.applied
        for each in stored.queues:
            name = QueueName(each.group, each.topic, each.queue_id)
            queue = table.queues[name] = InFlightQueue(name, each.low)
            queue.next = each.next
            for out in each.hand_outs:
                self._restore(table, queue, out)
            queue.settle(())
        return table

    def _restore(self, table: InFlightTable, queue: InFlightQueue, stored: _StoredHandOut) -> None:
        offsets = offsets_of(stored.runs)
        out = HandOut(stored.number, stored.popped_ms, stored.until_ms, stored.attempts, offsets)
        queue.put(out, queue.next)
        if stored.keys:
            queue.keys.update(zip(offsets, stored.keys, strict=True))
        if stored.attempts or stored.until_ms:
            table.watch(queue, out)
        else:
            queue.make_ready(offsets)  # they wait behind others of their message group

    def copy(self, table: InFlightTable) -> Copied:
        """The table at this moment; ``save`` writes it, on any thread."""
        queues = [
            _Copy(name, queue.low, queue.next, dict(queue.rows), dict(queue.keys))
            for name, queue in table.queues.items()
        ]
        return Copied(table.applied, queues)

    def save(self, copied: Copied) -> None:
        """Write the snapshot whole, beside the old one first. Raises OSError."""
        stored = _Stored(copied.applied, [_stored(each) for each in copied.queues])
        self._file.save(msgspec.json.encode(stored))


class Copied(msgspec.Struct, frozen=True):
    applied: int
    queues: list[_Copy]


def _stored(copy: _Copy) -> _StoredQueue:
    queue = InFlightQueue(copy.name, copy.low)
    queue.rows = copy.rows
    keys = copy.keys
    outs = [
        _StoredHandOut(
            out.number,
            out.popped_ms,
            out.until_ms,
            out.attempts,
            runs_of(out.offsets),
            [keys.get(offset, 0) for offset in out.offsets] if keys else [],
        )
        for out in queue.hand_outs()
    ]
    return _StoredQueue(*copy.name, copy.low, copy.next, outs)


# --- replay --------------------------------------------------------------------------------------------------------


def open_table(store: MessageStore, snapshot: Snapshot) -> InFlightTable:
    """The table as the journal leaves it. Raises OSError when a snapshot that went too far cannot be replaced."""
    table = snapshot.load()
    known = store.reader.range_of(POP_JOURNAL_TOPIC, 0)
    end = known.end if known else 0
    was_ahead = table.applied > end
    if was_ahead:  # a crash, or a cut, took the end of the journal: what was acknowledged stays so
        logger.warning("journal of in-flight messages is shorter than its snapshot: had=%d has=%d", table.applied, end)
        table.applied = end
    follow(store, table)

    def end_of(topic: str, queue_id: int) -> int:
        found = store.reader.range_of(topic, queue_id)
        return found.end if found else 0

    if back := table.bring_back(end_of):
        logger.warning("in-flight messages beyond the end of their queues are forgotten: queues=%d", back)
    if was_ahead:
        snapshot.save(snapshot.copy(table))
    if rows := sum(len(queue.rows) for queue in table.queues.values()):
        logger.info("messages in flight found: messages=%d queues=%d", rows, len(table.queues))
    return table


def follow(store: MessageStore, table: InFlightTable, records_max: int = 1 << 62) -> int:
    """Apply what the journal has and the table has not, up to the visible end; returns how many records those were."""
    known = store.reader.range_of(POP_JOURNAL_TOPIC, 0)
    if known is None:
        return 0
    if table.applied < known.first:
        logger.error(
            "journal of in-flight messages begins too late, messages may be delivered again: missing=%d",
            known.first - table.applied,
        )
        table.applied = known.first
    start = table.applied
    while table.applied < known.end and table.applied - start < records_max:
        found = store.reader.read(POP_JOURNAL_TOPIC, 0, table.applied, count_max=_READ_COUNT)
        records = split_records(found.to_bytes())
        if found.next_offset - table.applied > len(records):
            _begin_anew(table, known.end)
            break
        _apply_all(table, (record.body for record in records))
        if found.next_offset <= table.applied:
            break  # damaged here: what lies behind must not be applied without it, as long as it may be mended
        table.applied = found.next_offset
    return table.applied - start


def _begin_anew(table: InFlightTable, end: int) -> None:
    """A record cannot be read, and later ones say that groups are further: what it handed out would not come again."""
    logger.error("journal of in-flight messages is damaged, groups that pop go on at their committed offsets")
    table.forget(list(table.queues))
    table.applied = end


def _apply_all(table: InFlightTable, bodies: Iterable[bytes]) -> None:
    for body in bodies:
        try:
            changes = decode_changes(body)
        except CorruptFileError as error:
            logger.error("record of the journal of in-flight messages passed over: reason=%s", error)
            continue
        table.apply(changes)
