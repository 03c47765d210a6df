from __future__ import annotations

from pyromq.broker.state.locks import QueueLocks
from pyromq.model.queue import QueueId
from pyromq.testing import ManualClock

Q0, Q1 = QueueId("orders", "broker-a", 0), QueueId("orders", "broker-a", 1)


def test_a_queue_is_granted_to_one_client_at_a_time_and_renewed_for_it() -> None:
    locks = QueueLocks(ManualClock())
    assert locks.lock("g", "c1", [Q0]) == [Q0]
    assert locks.lock("g", "c2", [Q0, Q1]) == [Q1]
    assert locks.lock("g", "c1", [Q0]) == [Q0]
    assert locks.lock("other group", "c2", [Q0]) == [Q0]


def test_a_lock_that_nobody_renews_ends_by_itself() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock, expiry_ms=60_000)
    locks.lock("g", "c1", [Q0])
    clock.advance_ms(60_000)
    assert locks.lock("g", "c2", [Q0]) == [] and locks.is_held("g")
    clock.advance_ms(1)
    assert not locks.is_held("g")
    assert locks.lock("g", "c2", [Q0]) == [Q0]


def test_only_the_holder_gives_a_lock_back() -> None:
    locks = QueueLocks(ManualClock())
    locks.lock("g", "c1", [Q0])
    locks.unlock("g", "c2", [Q0])
    assert locks.is_held("g")
    locks.unlock("g", "c1", [Q0, Q1])
    assert not locks.is_held("g")
    locks.unlock("unknown", "c1", [Q0])
