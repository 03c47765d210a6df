"""Taking: which messages of one queue a pop gets, and the hand-out that says so.

without order   ready rows first (their time was over, or they were given back), then what was never handed out
in order        of each message group the first that are not settled, unless one of them is with a consumer;
                what lies behind those becomes a row that waits, and other message groups are handed out past it
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from pyromq.broker.popping.calls import Bytes, Portion
from pyromq.broker.popping.journal import PopJournal
from pyromq.broker.popping.plans import PopPlan, Source
from pyromq.broker.popping.receipts import Receipt, TopicKind
from pyromq.broker.popping.records import split, under_topic
from pyromq.compiled_core import PopLane
from pyromq.store.in_flight.journal import HandedOut, runs_of
from pyromq.store.in_flight.queue import InFlightQueue
from pyromq.store.message_store import MessageStore
from pyromq.store.queue_scan import tags_of
from pyromq.store.read_result import ReadResult, ReadStatus
from pyromq.wire.fast.record_parts import message_group
from pyromq.wire.record import with_attempts

ROWS_MAX: Final = 100_000
"""Of one group in one queue: while so many are not settled, it gets no others of it."""

ORDERED_ROWS_MAX: Final = 1_024
"""The same in order mode, with those that wait for others of their message group."""

AGAIN_MS: Final = 1_000
"""After which a row is looked at again whose message could not be read, or not be stored as a dead letter."""

_READS_MAX: Final = 4  # of one queue for one pop: a filter may pass over thousands
_MOVED: Final = (ReadStatus.OFFSET_TOO_SMALL, ReadStatus.NO_MATCHED_MESSAGE, ReadStatus.MESSAGE_WAS_REMOVING)


def has_room(queue: InFlightQueue, *, order: bool) -> bool:
    """Whether the group may get messages that it never got before."""
    return len(queue.rows) < (ORDERED_ROWS_MAX if order else ROWS_MAX)


def has_free(queue: InFlightQueue, now_ms: int) -> bool:
    """Whether a ready message has none of its message group ahead of it that is not ready; for order mode."""
    ready = queue.all_ready(now_ms)
    busy = queue.busy_keys(ready) if ready else set()
    return any(queue.keys.get(offset, 0) not in busy for offset in ready)


class Pop(NamedTuple):
    """Pop that is under way."""

    plan: PopPlan
    number: int
    now_ms: int
    until_ms: int


class _Fresh(NamedTuple):
    """What was never handed out: offsets and records, and where the next read goes on."""

    offsets: Collection[int]
    runs: Sequence[Bytes]
    size_bytes: int
    next: int
    end: int


class Taker:
    """Reads queues and hands out."""

    def __init__(self, store: MessageStore, journal: PopJournal, broker: str, lane: PopLane | None = None) -> None:
        self._reader = store.reader
        self._lane = lane
        self._journal = journal
        self._broker = broker
        self.is_unfinished = False  # a filter passed over so much that the rest is for another time

    def take(self, pop: Pop, source: Source, queue: InFlightQueue, count: int) -> Portion | None:
        """Take up to ``count`` messages."""
        if pop.plan.request.order:
            return self._take_ordered(pop, source, queue, count)
        taken: dict[int, tuple[memoryview, int]] = {}  # record and attempts, by offset
        if queue.has_ready(pop.now_ms):
            taken = self._take_ready(pop, source, queue, queue.take_ready(count, pop.now_ms))
        left = count - len(taken)
        fresh = self._fresh(pop.plan, source, queue, left) if left and len(queue.rows) < ROWS_MAX else None
        if fresh is not None and fresh.offsets:
            self._hand_out(pop, queue, fresh.offsets, 1, fresh.next)
            if not taken and source.kind == TopicKind.NORMAL:
                return Portion(
                    topic=source.topic,
                    kind=source.kind,
                    queue_id=source.queue_id,
                    offsets=fresh.offsets,
                    attempts=(),
                    runs=fresh.runs,
                    size_bytes=fresh.size_bytes,
                    rest=max(0, fresh.end - fresh.next),
                )
            taken |= {offset: (record, 1) for offset, record in split(fresh.runs)}
        return self._portion(pop, source, queue, taken)

    # --- what comes again ---

    def _take_ready(
        self, pop: Pop, source: Source, queue: InFlightQueue, offsets: list[int]
    ) -> dict[int, tuple[memoryview, int]]:
        """Records and attempts of rows that are ready; those that retention took are settled."""
        found, gone = self.records(queue, offsets, pop.now_ms)
        if gone:
            self._journal.ack(queue, gone)
        by_attempts: dict[int, list[int]] = {}
        for offset in found:
            by_attempts.setdefault(queue.rows[offset].attempts + 1, []).append(offset)
        for attempts, same in by_attempts.items():
            self._hand_out(pop, queue, same, attempts, queue.next)
        return {offset: (found[offset], attempts) for attempts, same in by_attempts.items() for offset in same}

    def records(
        self, queue: InFlightQueue, offsets: Sequence[int], now_ms: int
    ) -> tuple[dict[int, memoryview], list[int]]:
        """The records of these rows, and the offsets of those that the log has no longer.

        What is damaged here, and another member may deliver, is neither: it is looked at again a moment later, and so
        is what lies behind it.
        """
        found: dict[int, memoryview] = {}
        runs = runs_of(offsets)
        for first, count in zip(runs[::2], runs[1::2], strict=True):
            offset, end = first, first + count
            while offset < end:
                result = self._reader.read(queue.name.topic, queue.name.queue_id, offset, count_max=end - offset)
                found |= {at: record for at, record in split(result.runs) if at < end}
                if result.next_offset <= offset < result.end:
                    self._journal.postpone(queue, [each for each in offsets if each >= offset], now_ms + AGAIN_MS)
                    return found, [each for each in offsets if each < offset and each not in found]
                if result.next_offset <= offset:
                    break
                offset = result.next_offset
        return found, [offset for offset in offsets if offset not in found]

    # --- what is new ---

    def _fresh(self, plan: PopPlan, source: Source, queue: InFlightQueue, count: int) -> _Fresh | None:
        if self._lane is not None and (found := self._read_plain(self._lane, plan, source, queue, count)) is not None:
            return found
        for _ in range(_READS_MAX):
            result = self._read(plan, source, queue, count)
            if result.status is ReadStatus.FOUND:
                first, after = queue.next, result.next_offset
                offsets: Collection[int] = range(first, after)
                if result.count != after - first:
                    offsets = [offset for offset, _ in split(result.runs)]
                return _Fresh(offsets, result.runs, result.size_bytes, after, result.end)
            if not self._moved(queue, result):
                return None
        self.is_unfinished = True
        return None

    def _read_plain(
        self, lane: PopLane, plan: PopPlan, source: Source, queue: InFlightQueue, count: int
    ) -> _Fresh | None:
        """What ``_read`` would find, by the compiled core; None when it would find nothing, or that is not plain."""
        wanted = plan.wanted
        tags = tags_of(None if source.kind != TopicKind.NORMAL else wanted.accept_tag)
        if tags is None or wanted.accept_record is not None:
            return None
        first = queue.next
        found = self._reader.read_plain(lane, source.topic, source.queue_id, first, count, tags)
        if found is None:
            return None
        runs, found_count, size_bytes, after, end = found
        offsets: Collection[int] = range(first, after)
        if found_count != after - first:
            offsets = [offset for offset, _ in split(runs)]
        return _Fresh(offsets, runs, size_bytes, after, end)

    def _read(self, plan: PopPlan, source: Source, queue: InFlightQueue, count: int) -> ReadResult:
        is_retry = source.kind != TopicKind.NORMAL  # what is there was wanted once
        return self._reader.read(
            source.topic,
            source.queue_id,
            queue.next,
            count_max=count,
            accept_tag=None if is_retry else plan.wanted.accept_tag,
            accept_record=None if is_retry else plan.wanted.accept_record,
        )

    @staticmethod
    def _moved(queue: InFlightQueue, result: ReadResult) -> bool:
        """Whether to read again, behind what the group does not want or cannot have."""
        if result.status is ReadStatus.OFFSET_OVERFLOW_BADLY:  # the topic was deleted and made again
            queue.bring_back(result.end)
            return False
        if result.status not in _MOVED:
            return False
        queue.skip_to(result.next_offset)
        return result.next_offset < result.end

    # --- in order ---

    def _take_ordered(self, pop: Pop, source: Source, queue: InFlightQueue, count: int) -> Portion | None:
        free = queue.all_ready(pop.now_ms)
        busy = queue.busy_keys(free)
        ready = [offset for offset in free if queue.keys.get(offset, 0) not in busy]
        taken = self._take_ready(pop, source, queue, ready[:count]) if ready else {}
        busy |= {queue.keys.get(offset, 0) for offset in ready[:count] if offset not in taken}
        while len(ready) <= count:
            left = min(count - len(taken), ORDERED_ROWS_MAX - len(queue.rows))
            fresh = self._fresh(pop.plan, source, queue, left) if left > 0 else None
            if fresh is None or not fresh.offsets:
                break
            self._take_free(pop, queue, fresh, busy, taken)
        return self._portion(pop, source, queue, taken)

    def _take_free(
        self,
        pop: Pop,
        queue: InFlightQueue,
        fresh: _Fresh,
        busy: set[int],
        taken: dict[int, tuple[memoryview, int]],
    ) -> None:
        """Hand out what nothing is ahead of; the rest waits."""
        keys: dict[int, int] = {}
        blocked: dict[int, int] = {}
        for offset, record in split(fresh.runs):
            key = message_group(record)
            if key in busy:
                blocked[offset] = key
            else:
                keys[offset] = key
                taken[offset] = record, 1
        self._journal.hand_out(
            HandedOut(
                *queue.name,
                queue.low,
                fresh.next,
                pop.number,
                pop.now_ms,
                pop.until_ms,
                1,
                runs_of(list(keys)),
                list(keys.values()),
                list(blocked),
                list(blocked.values()),
            ),
            list(keys),
        )

    def take_again(
        self, pop: Pop, source: Source, queue: InFlightQueue, offsets: Iterable[int], number: int
    ) -> Portion | None:
        """What an earlier response had that got lost: the same messages, and no delivery more."""
        same = [offset for offset in offsets if (out := queue.rows.get(offset)) is not None and out.number == number]
        same = [offset for offset in same if offset not in queue.settling]
        found = self.records(queue, same, pop.now_ms)[0] if same else {}
        taken: dict[int, tuple[memoryview, int]] = {}
        for offset, record in found.items():
            attempts = queue.rows[offset].attempts
            self._hand_out(pop, queue, (offset,), attempts, queue.next)
            taken[offset] = record, attempts
        return self._portion(pop, source, queue, taken)

    # --- both ---

    def _hand_out(
        self, pop: Pop, queue: InFlightQueue, offsets: Collection[int], attempts: int, next_offset: int
    ) -> None:
        runs, until_ms = runs_of(offsets), pop.until_ms
        change = HandedOut(*queue.name, queue.low, next_offset, pop.number, pop.now_ms, until_ms, attempts, runs)
        self._journal.hand_out(change, offsets)

    def _portion(
        self, pop: Pop, source: Source, queue: InFlightQueue, taken: dict[int, tuple[memoryview, int]]
    ) -> Portion | None:
        if not taken:
            return None
        offsets = sorted(taken)
        attempts = [taken[offset][1] for offset in offsets]
        runs: list[Bytes] = []
        for offset in offsets:
            record, count = taken[offset]
            if source.kind != TopicKind.NORMAL:
                receipt = self._receipt(pop, source, offsets, offset)
                runs.append(under_topic(record, pop.plan.request.topic, receipt, count))
            else:
                runs.append(record if count == 1 else with_attempts(record, count))
        known = self._reader.range_of(source.topic, source.queue_id)
        return Portion(
            topic=source.topic,
            kind=source.kind,
            queue_id=source.queue_id,
            offsets=offsets,
            attempts=attempts,
            runs=runs,
            size_bytes=sum(map(len, runs)),
            rest=max(0, (known.end if known else 0) - queue.next),
        )

    def _receipt(self, pop: Pop, source: Source, offsets: Sequence[int], offset: int) -> str:
        invisible_ms = pop.plan.request.invisible_ms
        receipt = Receipt(
            offsets[0], pop.now_ms, invisible_ms, pop.number, source.kind, self._broker, source.queue_id, offset
        )
        return receipt.text()
