"""Locks have a ceiling: clients choose groups and queues, and nothing else forgets them."""

from __future__ import annotations

from pyromq.broker.state.locks import QueueLocks
from pyromq.model.queue import QueueId
from pyromq.testing import ManualClock


def queues(count: int, topic: str = "orders") -> list[QueueId]:
    return [QueueId(topic, "broker-a", number) for number in range(count)]


def test_beyond_the_limit_locks_are_renewed_but_none_are_added() -> None:
    locks = QueueLocks(ManualClock(), locks_max=3)
    assert locks.lock("g", "c1", queues(5)) == queues(3)
    assert locks.lock("other", "c2", queues(1)) == []
    assert locks.lock("g", "c1", queues(5)) == queues(3) and len(locks) == 3
    locks.unlock("g", "c1", queues(1))
    assert locks.lock("other", "c2", queues(2)) == queues(1)


def test_locks_that_nobody_renewed_make_room_when_there_is_none() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock, expiry_ms=60_000, locks_max=3)
    locks.lock("gone", "c1", queues(2))
    clock.advance_ms(30_000)
    locks.lock("here", "c2", queues(1))
    clock.advance_ms(30_001)
    assert locks.lock("new", "c3", queues(5)) == queues(2)
    assert locks.is_held("here") and not locks.is_held("gone") and len(locks) == 3


def test_who_gets_nothing_leaves_no_trace() -> None:
    locks = QueueLocks(ManualClock(), locks_max=1)
    locks.lock("g", "c1", queues(1))
    for number in range(10):
        assert locks.lock(f"g{number}", "c2", queues(1)) == []
    assert list(locks._groups) == ["g"]


def test_a_full_table_is_not_searched_for_each_request() -> None:
    """Searching takes time that grows with the table; spam would make every request pay it."""
    clock = ManualClock()
    locks = QueueLocks(clock, expiry_ms=500, locks_max=1)
    assert locks.lock("a", "c1", queues(1)) == queues(1)
    assert locks.lock("b", "c2", queues(1)) == []
    clock.advance_ms(600)
    assert locks.lock("b", "c2", queues(1)) == [], "the last search was a moment ago"
    clock.advance_ms(400)
    assert locks.lock("b", "c2", queues(1)) == queues(1)
