"""Offsets that an operator moves."""

from __future__ import annotations

from pyromq.model.queue import QueueId
from pyromq.operate.offsets import OffsetMove

QUEUE = QueueId("orders", "broker-a", 3)


def test_a_move_tells_what_comes_again_or_is_passed_over() -> None:
    assert OffsetMove(QUEUE, 10, 4).difference == -6
    assert OffsetMove(QUEUE, None, 4).difference == 4
