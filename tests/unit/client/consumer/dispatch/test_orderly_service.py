"""An orderly consumer between two deliveries of a failing message: its queue rests, whatever arrives meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from pyromq.client.consumer.base.consume_stats import ConsumeStats
from pyromq.client.consumer.base.hook_runner import HookRunner
from pyromq.client.consumer.base.listeners import Listener
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.base.settings import PushConsumerSettings
from pyromq.client.consumer.dispatch.orderly_service import OrderlyService
from pyromq.client.consumer.rules.orderly_outcome import OrderlyStatus
from pyromq.client.consumer.rules.pull_state import PullSettings
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
        self.owned.buffer.lock.granted()
        self.says, self.seen = says, list[int]()
        self.lost: list[OwnedQueue] = []
        self.buried: list[int] = []
        self.after = self.after_burial = lambda: None
        settings = PushConsumerSettings(rest_ms=30_000, **changes)
        self.service = OrderlyService(
            Listener(cast(Any, self._listen), None, threads=1, name="test"),
            settings,
            TaskOwner("test"),
            cast(Any, self),
            HookRunner((), lambda: 0),
            self._lose,
        )

    async def _listen(self, message: Any) -> OrderlyStatus:
        self.seen.append(message.offset)
        self.after()
        return self.says

    async def bury(self, message: Any) -> bool:
        """What ``Returns`` does with a message that has failed too often."""
        self.buried.append(message.offset)
        self.after_burial()
        return True

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
    assert rig.seen == [0] and rig.owned.is_resting
    assert rig.owned.buffer.commit_offset() == 0


async def test_a_verdict_of_somebody_who_has_lost_the_lock_meanwhile_counts_for_nothing() -> None:
    rig = Rig(OrderlyStatus.SUCCESS)
    rig.after = rig.owned.buffer.lock.lost
    await rig.arrive(0, 1)
    assert rig.seen == [0] and rig.lost == [rig.owned]
    assert rig.owned.buffer.commit_offset() == 0


async def test_what_failed_too_often_is_buried_and_the_next_message_has_its_turn() -> None:
    rig = Rig(OrderlyStatus.SUSPEND, attempts_max=0)
    await rig.arrive(0, 1)
    assert rig.buried == [0, 1]
    assert rig.owned.buffer.commit_offset() == 2


async def test_who_has_lost_the_lock_buries_nothing() -> None:
    rig = Rig(OrderlyStatus.SUSPEND, attempts_max=0)
    rig.after = rig.owned.buffer.lock.lost
    await rig.arrive(0, 1)
    assert (rig.seen, rig.buried, rig.lost) == ([0], [], [rig.owned])


async def test_who_loses_the_lock_while_burying_does_not_move_on() -> None:
    rig = Rig(OrderlyStatus.SUSPEND, attempts_max=0)
    rig.after_burial = rig.owned.buffer.lock.lost
    await rig.arrive(0, 1)
    assert (rig.seen, rig.buried, rig.lost) == ([0], [0], [rig.owned])
    assert rig.owned.buffer.commit_offset() == 0
