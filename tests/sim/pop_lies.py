"""Planted mistakes of pops: each breaks the promise that the ledger of popped messages is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyromq.broker.popping.journal import PopJournal
from pyromq.broker.popping.taking import Taker
from pyromq.store.in_flight import journal, snapshot
from pyromq.store.in_flight.journal import Acked
from pyromq.store.in_flight.snapshot import Snapshot
from pyromq.store.in_flight.table import InFlightTable
from tests.sim.lie import Lie, wrapped


def _before_it_is_stored(plain: Callable[..., None]) -> Callable[..., None]:
    def ack(self: PopJournal, queue: Any, offsets: Any, then: Any = None) -> None:
        if then is not None:
            then(None)
        plain(self, queue, offsets)

    return ack


def _without_acks(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Live acknowledgements are applied as ever; what a journal says of them is not."""

    def decode(body: bytes) -> list[journal.Change]:
        return [change for change in plain(body) if not isinstance(change, Acked)]

    return decode


def _settled_by_the_snapshot(plain: Callable[..., Any]) -> Callable[..., InFlightTable]:
    def load(self: Snapshot) -> InFlightTable:
        table: InFlightTable = plain(self)
        for queue in table.queues.values():
            queue.settle(list(queue.rows))
        return table

    return load


def _one_too_many(plain: Callable[..., Any]) -> Callable[..., Any]:
    def hand_out(self: Taker, pop: Any, queue: Any, offsets: Any, attempts: int, next_offset: int) -> None:
        plain(self, pop, queue, offsets, attempts, next_offset + (attempts == 1 and next_offset % 7 == 0))

    return hand_out


POP_LIES: Final = (
    Lie(
        "acknowledged before it is stored",
        "an acknowledgement is confirmed while its record is on its way to the disk",
        wrapped(PopJournal, "ack", _before_it_is_stored),
        1,
    ),
    Lie(
        "acknowledgements are not replayed",
        "a broker that starts, or takes over, reads hand-outs from the journal and no acknowledgements",
        wrapped(snapshot, "decode_changes", _without_acks),
        1,
    ),
    Lie(
        "a snapshot settles",
        "what was in flight when the table was saved counts as acknowledged after a start",
        wrapped(Snapshot, "load", _settled_by_the_snapshot),
        1,
    ),
    Lie(
        "a message is passed over",
        "now and then a pop goes on behind a message that nobody got",
        wrapped(Taker, "_hand_out", _one_too_many),
        1,
    ),
)
