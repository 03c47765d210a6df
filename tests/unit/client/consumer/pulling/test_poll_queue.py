"""What was handed out and is not done must not count as done because the rest of its queue is filtered out."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.client.consumer.base.consume_stats import ConsumeStats
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.pulling.poll_queue import PollQueue
from pyromq.client.consumer.rules.pull_state import PullSettings
from pyromq.model.queue import Offset, QueueId
from pyromq.testing import ManualClock
from tests.unit.client.messages import messages

QUEUE = QueueId("orders", "b", 0)


class Polled:
    """A queue of which 5, 6 and 7 were handed out; whatever lies behind them is for others."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.owned = OwnedQueue(QUEUE, 5, clock, PullSettings(), ConsumeStats(clock).of("orders"))
        self.hand_out = PollQueue(1_000)
        self.pulled(5, 6, 7)
        assert len(self.hand_out.next(32)) == 3

    def pulled(self, *offsets: int) -> None:
        found: Any = messages(*offsets)
        self.owned.buffer.add(found)
        self.owned.pull.seek(Offset(offsets[-1] + 1))
        self.hand_out.listed(self.owned)


@pytest.fixture
def polled() -> Polled:
    return Polled()


def test_what_was_handed_out_is_dealt_with_together_with_what_is_filtered_out_behind_it(polled: Polled) -> None:
    assert not polled.hand_out.reached(polled.owned, Offset(20))
    assert polled.hand_out.settle() == {QUEUE: 20}
    assert polled.hand_out.reached(polled.owned, Offset(30)) and polled.owned.done == 30


def test_a_part_that_is_to_be_repeated_stays_undone(polled: Polled) -> None:
    polled.hand_out.repeat(polled.owned, 6)
    assert not polled.hand_out.reached(polled.owned, Offset(20))
    assert polled.hand_out.settle() == {QUEUE: 6}
    assert not polled.hand_out.reached(polled.owned, Offset(30))
    assert (polled.owned.done, polled.owned.position) == (6, 6)


def test_everything_that_is_to_be_repeated_stays_undone(polled: Polled) -> None:
    polled.hand_out.repeat_all()
    assert not polled.hand_out.reached(polled.owned, Offset(20))
    assert polled.hand_out.settle() == {} and polled.owned.done == 5


def test_a_poll_or_a_seek_ends_the_repeat(polled: Polled) -> None:
    polled.hand_out.repeat_all()
    polled.pulled(20)
    assert len(polled.hand_out.next(32)) == 1
    assert polled.hand_out.settle() == {QUEUE: 21}
    polled.hand_out.repeat(polled.owned, 20)
    polled.hand_out.forget(polled.owned)
    assert polled.hand_out.reached(polled.owned, Offset(40))
