"""Offsets that an operator moves."""

from __future__ import annotations

from pyromq.client.admin.offsets import OffsetMove
from pyromq.model.queue import QueueId

QUEUE = QueueId("orders", "broker-a", 3)


def test_a_move_tells_what_comes_again_or_is_passed_over() -> None:
    assert OffsetMove(QUEUE, 10, 4).difference == -6
    assert OffsetMove(QUEUE, None, 4).difference == 4
