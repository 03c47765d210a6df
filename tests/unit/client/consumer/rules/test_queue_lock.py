"""The lock on a queue, as its consumer sees it."""

from __future__ import annotations

import pytest

from pyromq.client.consumer.rules.queue_lock import QueueLock
from pyromq.testing import ManualClock


def test_a_lock_is_trusted_for_thirty_seconds() -> None:
    clock = ManualClock()
    lock = QueueLock(clock)
    assert not lock.held
    lock.granted()
    clock.advance_ms(30_000)
    assert lock.held
    clock.advance_ms(1)
    assert lock.locked and lock.expired and not lock.held
    lock.granted()
    assert lock.held
    lock.lost()
    assert not lock.held


def test_a_lock_that_was_lost_is_not_had_back_as_if_nothing_had_happened() -> None:
    lock = QueueLock(ManualClock())
    lock.granted()
    lock.lost()
    lock.lost()
    with pytest.raises(AssertionError, match="GRANTED in state LOST"):
        lock.granted()
