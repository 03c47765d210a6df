"""The journal's writer: what pops change in one loop iteration becomes one record of the commit log.

hand-outs ─────────▶ applied at once, written with the next commit, which the next tick brings about if nothing else
                     does: a crash that loses one only delivers the message again; those that a full disk refused go
                     before the next ones, so that the log has them in order
acks, changes ─────▶ written with the turn, applied and answered when the log is as safe as the store promises
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final, Protocol

from pyromq.clock import Clock
from pyromq.errors import MQError, StoreReadOnlyError
from pyromq.model.names import POP_JOURNAL_TOPIC
from pyromq.store.in_flight.journal import Acked, Change, Changed, Forgotten, HandedOut, encode_changes, runs_of
from pyromq.store.in_flight.queue import InFlightQueue
from pyromq.store.in_flight.table import InFlightTable
from pyromq.store.message_store import Placed
from pyromq.wire.record import Draft

logger = logging.getLogger(__name__)

_CHANGES_MAX: Final = 1_000  # of one record

Then = Callable[[MQError | None], None]
"""Hears what became of a change: None when it is as safe as the store promises, else why it is not."""


class Put(Protocol):
    """Signature of ``InternalWrites.put``."""

    def __call__(self, draft: Draft, on_stored: Then) -> Placed: ...


class Writes(Protocol):
    """``InternalWrites``, as far as the journal needs it."""

    @property
    def put(self) -> Put: ...

    def soon(self, work: Callable[[], None]) -> None: ...

    def with_others(self, work: Callable[[], None]) -> None: ...


def _sorted_runs(offsets: list[int]) -> list[int]:
    found = sorted(offsets)
    if not found or found[-1] - found[0] != len(found) - 1:
        return runs_of(found)
    together = range(found[0], found[-1] + 1)
    return runs_of(together if found == [*together] else found)


class _Turn:
    """The changes of one turn."""

    __slots__ = ("acks", "changed", "handed_out", "is_due", "offset", "settling", "size", "thens")

    def __init__(self) -> None:
        self.handed_out: list[Change] = []
        self.changed: list[tuple[InFlightQueue, Changed]] = []
        self.acks: dict[InFlightQueue, list[int]] = {}
        self.thens: list[Then] = []
        self.settling: list[Change] = []  # what is applied when it is safe, once it is staged
        self.size = 0
        self.is_due = False  # it is written with the commit of this loop iteration
        self.offset = 0  # in the journal, once it is staged

    def close(self) -> list[Change]:
        """Everything that happened, in the order of its application."""
        acks = [Acked(*queue.name, _sorted_runs(offsets)) for queue, offsets in self.acks.items()]
        self.settling = [*(change for _, change in self.changed), *acks]
        return [*self.handed_out, *self.settling]

    def touched(self) -> dict[InFlightQueue, None]:
        """Queues whose rows changed, in an order that does not depend on hashes."""
        return dict.fromkeys([*(queue for queue, _ in self.changed), *self.acks])


class PopJournal:
    """Owner of the way from a change to the disk; ``on_settled`` hears of queues whose rows changed."""

    def __init__(self, table: InFlightTable, writes: Writes, clock: Clock) -> None:
        self._table = table
        self._writes = writes
        self._clock = clock
        self._turn = _Turn()
        self._unwritten: list[Change] = []  # hand-outs of turns that a full disk refused
        self.waiting = 0  # turns that are not safe yet
        self.on_settled: Callable[[Iterable[InFlightQueue]], None] = lambda queues: None

    # --- changes ---

    @property
    def takes_hand_outs(self) -> bool:
        """Whether more may be handed out: not while a thousand hand-outs could not be written, which is tried again."""
        if len(self._unwritten) < _CHANGES_MAX:
            return True
        if not self._turn.is_due:
            self._grown()
        return False

    def hand_out(self, change: HandedOut, offsets: Collection[int]) -> InFlightQueue:
        """Journal hand-outs and apply them at once."""
        queue, turn = self._table.hand_out(change, offsets), self._turn
        turn.handed_out.append(change)
        if not turn.size:
            self._writes.with_others(partial(self._write_turn, turn))
        turn.size += 1
        if turn.size >= _CHANGES_MAX:
            self.write()
        return queue

    def postpone(self, queue: InFlightQueue, offsets: Iterable[int], until_ms: int) -> None:
        """Rows that are not ready before then; not written, so after a restart they are ready when they were before."""
        for offset in offsets:
            self._table.postpone(queue, offset, until_ms)

    @property
    def has_unwritten(self) -> bool:
        """Whether hand-outs wait for a commit that takes them along, or for a tick."""
        return bool(self._turn.size or self._unwritten)

    def tick(self) -> None:
        """Hand-outs that no commit has taken along by now are written."""
        if self._turn.size:
            self._grown(0)

    def forget(self, queue: InFlightQueue) -> None:
        """Applied at once, behind everything that happened before."""
        self.write()
        self._table.forget((queue.name,))
        self._turn.handed_out.append(Forgotten(*queue.name))
        self._grown()

    def ack(self, queue: InFlightQueue, offsets: Collection[int], then: Then | None = None) -> None:
        """Rows that are settled when this is safe; until then nobody else can settle, change or get them."""
        queue.settling.update(offsets)
        acks = self._turn.acks.get(queue)
        if acks is None:
            self._turn.acks[queue] = list(offsets)
        else:
            acks += offsets
        if then is not None:
            self._turn.thens.append(then)
        self._grown(max(1, len(offsets)))

    def change(self, queue: InFlightQueue, change: Changed, then: Then | None = None) -> None:
        """A row that has a new hand-out when this is safe."""
        queue.settling.add(change.offset)
        self._turn.changed.append((queue, change))
        if then is not None:
            self._turn.thens.append(then)
        self._grown()

    def _grown(self, changes: int = 1) -> None:
        turn = self._turn
        if not turn.is_due:
            turn.is_due = True
            self._writes.soon(partial(self._write_turn, turn))
        turn.size += changes
        if turn.size >= _CHANGES_MAX:
            self.write()

    # --- writing ---

    def _write_turn(self, turn: _Turn) -> None:
        if turn is self._turn:
            self.write()

    def write(self) -> None:
        """Stage what there is now; the commit follows at the end of the turn."""
        turn = self._turn
        if not turn.size:
            return
        self._turn = _Turn()
        turn.handed_out[:0], self._unwritten = self._unwritten, []
        body = encode_changes(turn.close())
        draft = Draft(topic=POP_JOURNAL_TOPIC, queue_id=0, body=body, born_ms=self._clock.now_ms())
        self.waiting += 1
        try:
            turn.offset = self._writes.put(draft, partial(self._stored, turn)).offset
        except MQError as error:
            logger.error("pops not written down: changes=%d reason=%s", turn.size, error)
            self._unwritten += turn.handed_out
            self._settle(turn, error)

    def _stored(self, turn: _Turn, error: MQError | None) -> None:
        """Hear of a commit. One that the store refused is not in the log; another that failed may be, and stays there.

        Later records say that a group is further: without the hand-outs of this one a replay would pass over messages.
        """
        if isinstance(error, StoreReadOnlyError):
            self._unwritten += turn.handed_out
        self._settle(turn, error)

    def _settle(self, turn: _Turn, error: MQError | None) -> None:
        self.waiting -= 1
        for queue, change in turn.changed:
            queue.settling.discard(change.offset)
        for queue, offsets in turn.acks.items():
            queue.settling.difference_update(offsets)
        touched = turn.touched()
        if error is None:
            self._table.apply(turn.settling)
            self._table.applied = max(self._table.applied, turn.offset + 1)
        else:
            for queue in touched:  # they may have expired meanwhile
                for out in dict.fromkeys(queue.rows.values()):
                    self._table.watch(queue, out)
        for then in turn.thens:
            try:
                then(error)
            except Exception:  # a defect of one must not keep the others from hearing
                logger.exception("the callback of a pop failed")
        if touched:
            self.on_settled(touched)
