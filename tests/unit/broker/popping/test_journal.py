"""The journal of pops: how much becomes one record."""

import asyncio
from collections.abc import Callable
from typing import cast

from pyromq.broker.base.authority import outcome_unknown
from pyromq.broker.popping.journal import PopJournal, Then
from pyromq.errors import DiskFullError, MQError
from pyromq.store.in_flight.journal import Acked, HandedOut, decode_changes
from pyromq.store.in_flight.table import InFlightTable
from pyromq.store.message_store import Placed
from pyromq.testing import ManualClock
from pyromq.wire.record import Draft


class Puts:
    """Takes records and keeps who waits for them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.waiting: list[Then] = []
        self.others: list[Callable[[], None]] = []  # run before the next commit

    def soon(self, work: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(work)

    def with_others(self, work: Callable[[], None]) -> None:
        self.others.append(work)

    def put(self, draft: Draft, on_stored: Then) -> Placed:
        self.bodies.append(draft.body)
        self.waiting.append(on_stored)
        return cast(Placed, type("At", (), {"offset": len(self.bodies) - 1}))


def scattered(count: int) -> range:
    """Offsets of which no two stand side by side: each is a run of its own."""
    return range(0, 2 * count, 2)


def handed_out(count: int) -> HandedOut:
    offsets = scattered(count)
    return HandedOut(
        "billing", "orders", 0, 0, offsets[-1] + 1, 1, 1, 60_000, 0, [each for at in offsets for each in (at, 1)]
    )


async def test_acknowledgements_of_many_messages_in_one_call_count_as_many_changes() -> None:
    puts, heard = Puts(), list[MQError | None]()
    journal = PopJournal(InFlightTable(), puts, ManualClock())
    offsets = scattered(3_000)
    queue = journal.hand_out(handed_out(len(offsets)), offsets)
    for begin in range(0, len(offsets), 1_000):
        journal.ack(queue, offsets[begin : begin + 1_000], heard.append)
    assert len(puts.bodies) == 3, "a record is written when it has a thousand changes, not at a thousand calls"
    assert not heard, "none of them is safe yet"
    for then in puts.waiting:
        then(None)
    assert heard == [None] * 3 and not queue.rows


async def test_hand_outs_wait_for_a_commit_of_others() -> None:
    puts = Puts()
    journal = PopJournal(InFlightTable(), puts, ManualClock())
    journal.hand_out(given(0, 1), [0])
    journal.hand_out(given(1, 2), [1])
    await asyncio.sleep(0)
    assert not puts.bodies, "nobody waits for them"
    for work in puts.others:
        work()
    assert [each.number for each in in_record(puts.bodies[0])] == [1, 2]
    journal.tick()
    await asyncio.sleep(0)
    assert len(puts.bodies) == 1, "they are written once"


async def test_hand_outs_that_no_commit_takes_along_are_written_by_a_tick() -> None:
    puts = Puts()
    journal = PopJournal(InFlightTable(), puts, ManualClock())
    journal.hand_out(given(0, 1), [0])
    journal.tick()
    journal.tick()
    await asyncio.sleep(0)
    assert [each.number for each in in_record(puts.bodies[0])] == [1] and len(puts.bodies) == 1


async def test_an_acknowledgement_takes_the_hand_out_along() -> None:
    puts = Puts()
    journal = PopJournal(InFlightTable(), puts, ManualClock())
    queue = journal.hand_out(given(0, 1), [0])
    journal.ack(queue, [0])
    await asyncio.sleep(0)
    (body,) = puts.bodies
    assert [type(each) for each in decode_changes(body)] == [HandedOut, Acked], "in this order"
    for work in puts.others:
        work()
    assert len(puts.bodies) == 1


async def test_an_acknowledgement_of_nothing_is_answered() -> None:
    puts, heard = Puts(), list[MQError | None]()
    journal = PopJournal(InFlightTable(), puts, ManualClock())
    queue = journal.hand_out(handed_out(1), scattered(1))
    journal.write()
    journal.ack(queue, (), heard.append)
    await asyncio.sleep(0)
    for then in puts.waiting:
        then(None)
    assert heard == [None]


async def test_hand_outs_that_could_not_be_written_are_in_the_next_record() -> None:
    """Found by ``make sim SEED=30018``: a disk was full, and after a restart the group never got them again."""
    puts = Puts()
    journal = PopJournal(InFlightTable(), puts, ManualClock())
    journal.hand_out(HandedOut("billing", "orders", 0, 0, 3, 1, 1, 60_000, 0, [0, 3]), range(3))
    journal.write()
    puts.waiting.pop()(DiskFullError("no space"))
    lost = puts.bodies.pop()
    journal.hand_out(HandedOut("billing", "orders", 0, 0, 4, 2, 1, 60_000, 0, [3, 1]), range(3, 4))
    journal.write()
    replayed = InFlightTable()
    replayed.apply(decode_changes(puts.bodies[0]))
    (queue,) = replayed.queues.values()
    assert sorted(queue.rows) == [0, 1, 2, 3] and queue.low == 0
    assert decode_changes(lost) == decode_changes(puts.bodies[0])[:1]


def given(first: int, number: int) -> HandedOut:
    """A hand-out of one message."""
    return HandedOut("billing", "orders", 0, 0, first + 1, number, 1, 60_000, 0, [first, 1])


def in_record(body: bytes) -> list[HandedOut]:
    return [each for each in decode_changes(body) if isinstance(each, HandedOut)]


async def test_hand_outs_of_several_turns_that_could_not_be_written_stay_in_order() -> None:
    puts = Puts()
    journal = PopJournal(InFlightTable(), puts, ManualClock())
    changes = [given(0, 1), given(1, 2), given(0, 3)]  # the first one again, after its time
    for change in changes[:2]:
        journal.hand_out(change, change.runs[:1])
        journal.write()
    for then in puts.waiting:
        then(DiskFullError("no space"))
    journal.hand_out(changes[2], [0])
    journal.write()
    assert [(each.number, each.runs) for each in in_record(puts.bodies[-1])] == [(1, [0, 1]), (2, [1, 1]), (3, [0, 1])]


async def test_a_record_that_may_be_in_the_log_is_not_written_again() -> None:
    """An acknowledgement that stands behind it would be followed by the hand-out of what it acknowledges."""
    puts = Puts()
    journal = PopJournal(InFlightTable(), puts, ManualClock())
    journal.hand_out(given(0, 1), [0])
    journal.write()
    puts.waiting.pop()(outcome_unknown())
    journal.hand_out(given(1, 2), [1])
    journal.write()
    assert [each.number for each in in_record(puts.bodies[-1])] == [2]


async def test_nothing_more_is_handed_out_while_a_thousand_could_not_be_written() -> None:
    puts = Puts()
    journal = PopJournal(InFlightTable(), puts, ManualClock())
    for number in range(1_000):
        assert journal.takes_hand_outs
        journal.hand_out(given(number, number), [number])
    puts.waiting.pop()(DiskFullError("no space"))
    assert not journal.takes_hand_outs
    await asyncio.sleep(0)
    assert len(puts.waiting) == 1, "it was tried again"
    puts.waiting.pop()(None)
    assert journal.takes_hand_outs
    assert len(decode_changes(puts.bodies[-1])) == 1_000
