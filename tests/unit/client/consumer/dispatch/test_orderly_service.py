"""An orderly consumer between two deliveries of a failing message: its queue rests, whatever arrives meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from pyromq.client.consumer.base.consume_stats import ConsumeStats
from pyromq.client.consumer.base.failure_recorder import FailureRecorder
from pyromq.client.consumer.base.hook_runner import HookRunner
from pyromq.client.consumer.base.listeners import Listener
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.base.settings import PushConsumerSettings
from pyromq.client.consumer.dispatch.orderly_service import OrderlyService
from pyromq.client.consumer.dispatch.runners import ServiceParts
from pyromq.client.consumer.rules.orderly_outcome import OrderlyStatus
from pyromq.client.consumer.rules.pull_state import PullSettings
from pyromq.client.consumer.rules.queue_state import RunState
from pyromq.client.core.tasks import TaskOwner
from pyromq.model.queue import QueueId
from pyromq.testing import ManualClock
from tests.unit.client.messages import messages


class Rig:
    """One locked queue, and a listener that says of each message what it is told to."""

    def __init__(self, says: OrderlyStatus, **changes: Any) -> None:
        clock = ManualClock()
        counts = ConsumeStats(clock).of("T")
        self.owned = OwnedQueue(QueueId("T", "b", 0), 0, clock, PullSettings(), counts)
        self.owned.lock.granted()
        self.says, self.seen = says, list[int]()
        self.lost: list[OwnedQueue] = []
        self.dead: list[int] = []
        self.is_letter_taken = True
        self.after = self.after_dead_letter = lambda: None
        self.recorder = FailureRecorder(clock, is_on=False)
        settings = PushConsumerSettings(rest_ms=30_000, **changes)
        listener, hook_runner = (
            Listener(cast(Any, self._listen), None, threads=1, name="test"),
            HookRunner((), lambda: 0),
        )
        parts = ServiceParts(listener, settings, TaskOwner("test"), cast(Any, self), hook_runner, clock)
        self.service = OrderlyService(parts, self._lose)

    async def _listen(self, message: Any) -> OrderlyStatus:
        self.seen.append(message.offset)
        self.after()
        return self.says

    async def send_dead_letter(self, message: Any) -> bool:
        """What ``SendBacks`` does with a message that has failed too often."""
        self.dead.append(message.offset)
        self.after_dead_letter()
        return self.is_letter_taken

    def _lose(self, owned: OwnedQueue) -> None:
        self.lost.append(owned)

    async def arrive(self, *offsets: int) -> None:
        self.owned.buffer.add(cast(Any, messages(*offsets)))
        self.service.arrived(self.owned)
        while self.owned.run is not None:
            await asyncio.wait([self.owned.run])


async def test_messages_that_arrive_do_not_end_the_rest_of_a_queue() -> None:
    rig = Rig(OrderlyStatus.SUSPEND)
    await rig.arrive(0)
    await rig.arrive(1, 2)
    assert rig.seen == [0] and rig.owned.run_state is RunState.RESTING
    assert rig.owned.buffer.commit_offset() == 0


async def test_a_verdict_after_the_lock_was_lost_counts_for_nothing() -> None:
    rig = Rig(OrderlyStatus.SUCCESS)
    rig.after = rig.owned.lock.lost
    await rig.arrive(0, 1)
    assert rig.seen == [0] and rig.lost == [rig.owned]
    assert rig.owned.buffer.commit_offset() == 0


async def test_what_failed_too_often_is_a_dead_letter_and_the_next_message_follows() -> None:
    rig = Rig(OrderlyStatus.SUSPEND, attempts_max=0)
    await rig.arrive(0, 1)
    assert rig.dead == [0, 1]
    assert rig.owned.buffer.commit_offset() == 2


async def test_a_dead_letter_that_no_broker_takes_holds_its_queue() -> None:
    rig = Rig(OrderlyStatus.SUSPEND, attempts_max=0)
    rig.is_letter_taken = False
    await rig.arrive(0, 1)
    assert (rig.seen, rig.dead) == ([0], [0]) and rig.owned.run_state is RunState.RESTING
    assert rig.owned.buffer.commit_offset() == 0 and rig.owned.buffer.waiting_count == 2


async def test_without_the_lock_no_dead_letter_is_sent() -> None:
    rig = Rig(OrderlyStatus.SUSPEND, attempts_max=0)
    rig.after = rig.owned.lock.lost
    await rig.arrive(0, 1)
    assert (rig.seen, rig.dead, rig.lost) == ([0], [], [rig.owned])


async def test_a_lock_that_is_lost_while_a_dead_letter_is_sent_stops_the_queue() -> None:
    rig = Rig(OrderlyStatus.SUSPEND, attempts_max=0)
    rig.after_dead_letter = rig.owned.lock.lost
    await rig.arrive(0, 1)
    assert (rig.seen, rig.dead, rig.lost) == ([0], [0], [rig.owned])
    assert rig.owned.buffer.commit_offset() == 0
