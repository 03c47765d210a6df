"""Offsets that an operator moves."""

from __future__ import annotations

from pyromq.model.queue import QueueId
from pyromq.operate.offsets import OffsetMove

QUEUE = QueueId("orders", "broker-a", 3)


def test_a_move_tells_what_comes_again_or_is_passed_over() -> None:
    assert OffsetMove(QUEUE, 10, 4).difference == -6
    assert OffsetMove(QUEUE, None, 4).difference == 4


def test_what_has_expired_is_not_skipped_and_what_a_queue_lost_does_not_come_again() -> None:
    never_stood = OffsetMove(QUEUE, None, 1_000, 1_200, 1_000)
    assert (never_stood.skipped, never_stood.delivered_again, never_stood.left) == (0, 0, 200)
    overtaken = OffsetMove(QUEUE, 100, 1_200, 1_200, 1_000)
    assert (overtaken.skipped, overtaken.delivered_again, overtaken.left) == (200, 0, 0)
    shrunk = OffsetMove(QUEUE, 100, 40, 50, 0)
    assert (shrunk.skipped, shrunk.delivered_again, shrunk.left) == (0, 10, 10)
