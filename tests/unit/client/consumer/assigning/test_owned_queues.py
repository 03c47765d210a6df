"""Queues that change hands while locks are being renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, cast

from pyromq.client.consumer.assigning.owned_queues import OwnedQueues, QueueCallbacks
from pyromq.client.consumer.base.consume_stats import ConsumeStats
from pyromq.client.consumer.base.rebalance_listener import RebalanceListener
from pyromq.client.consumer.rules.offset_store import MemberOffsets
from pyromq.client.consumer.rules.pull_state import PullSettings
from pyromq.client.consumer.rules.start_offset import AskByTime, AskEnd, StartAt, StartPlan, Stored
from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import RequestTimeoutError
from pyromq.model.queue import Offset, QueueId
from pyromq.testing import ManualClock

QUEUE = QueueId("T", "broker-a", 0)


class Broker:
    """Grants every lock, but only when it is told to; notes what is unlocked."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[None]] = []
        self.unlocked: list[QueueId] = []
        self.given_up: list[QueueId] = []  # their offsets are committed a last time
        self.is_start_known = True
        self.table = MemberOffsets()

    async def lock(self, queues: Iterable[QueueId]) -> tuple[set[QueueId], set[QueueId]]:
        wanted = set(queues)
        self.asked.append(asyncio.get_running_loop().create_future())
        await self.asked[-1]
        return wanted, set()

    def unlock(self, queues: Iterable[QueueId]) -> None:
        self.unlocked += queues

    async def carry_out(self, plan: StartPlan, queue: QueueId) -> Offset:
        assert isinstance(plan, StartAt)
        if not self.is_start_known:
            raise RequestTimeoutError("silent", timeout_ms=1)
        return plan.offset

    async def stored(self, queue: QueueId) -> int:
        return 7

    def give_up(self, queue: QueueId) -> None:
        self.given_up.append(queue)
        self.table.forget(queue)


async def nothing(*_: object) -> None: ...


def share_of(
    broker: Broker,
    *,
    plan: Callable[[str, int | Stored], StartPlan] = lambda _topic, stored: StartAt(Offset(cast(int, stored))),
    keep_start: Callable[[QueueId, Offset], Coroutine[Any, Any, None]] = nothing,
    uses_locks: bool = True,
) -> OwnedQueues:
    clock, unused = ManualClock(), cast(Any, lambda *_: None)
    share = OwnedQueues(
        *(cast(Any, broker), cast(Any, broker), clock, PullSettings(), ConsumeStats(clock)),
        QueueCallbacks(
            plan=plan,
            keep_start=keep_start,
            pull=nothing,
            quiesce=nothing,
            note=unused,
            kept=unused,
            lost=unused,
            listener=RebalanceListener("g", None, None, 1),
        ),
        uses_locks=uses_locks,
    )
    share.tasks = TaskOwner("test")
    return share


async def begun(broker: Broker, count: int) -> None:
    while len(broker.asked) < count:  # noqa: ASYNC110 - a few loop iterations
        await asyncio.sleep(0)


async def test_a_renewal_that_comes_back_while_its_queue_is_taken_anew_does_not_unlock_it() -> None:
    broker = Broker()
    share = share_of(broker)
    share.begin(QUEUE, Offset(3))
    renewing = asyncio.ensure_future(share.renew_locks())
    await begun(broker, 1)
    assert await share.release([QUEUE]) == [QUEUE]
    taking = asyncio.ensure_future(share.take([QUEUE]))
    await begun(broker, 2)
    broker.unlocked.clear()
    broker.asked[0].set_result(None)
    await renewing
    broker.asked[1].set_result(None)
    assert await taking == [QUEUE]
    assert broker.unlocked == [], "it is ours, and another member must not get it"


async def test_a_renewal_of_what_was_released_for_good_is_undone() -> None:
    broker = Broker()
    share = share_of(broker)
    share.begin(QUEUE, Offset(3))
    renewing = asyncio.ensure_future(share.renew_locks())
    await begun(broker, 1)
    await share.release([QUEUE])
    broker.unlocked.clear()
    broker.asked[0].set_result(None)
    await renewing
    assert broker.unlocked == [QUEUE]


async def test_queues_whose_locks_are_lost_are_left_in_their_order() -> None:
    """Sets of queues have another order in every process: a simulation would not be the same again."""
    broker = Broker()
    share = share_of(broker)
    queues = [QueueId("T", "broker-a", number) for number in range(40)]
    for queue in queues:
        share.begin(queue, Offset(3))

    async def refused(wanted: Iterable[QueueId]) -> tuple[set[QueueId], set[QueueId]]:
        return set(), set(wanted)

    cast(Any, broker).lock = refused
    await share.renew_locks()
    while share.owned:  # noqa: ASYNC110 - a few loop iterations
        await asyncio.sleep(0)
    assert broker.unlocked == queues


async def test_a_lock_whose_queue_cannot_be_used_is_given_back() -> None:
    """Another member may know where to start, and would wait for the lock to run out."""
    broker = Broker()
    broker.is_start_known = False
    share = share_of(broker)
    taking = asyncio.ensure_future(share.take([QUEUE]))
    await begun(broker, 1)
    broker.asked[0].set_result(None)
    assert await taking == [] and broker.unlocked == [QUEUE] and not share.owned


async def test_a_lock_that_comes_after_the_consumer_was_closed_is_given_back() -> None:
    broker = Broker()
    share = share_of(broker)
    taking = asyncio.ensure_future(share.take([QUEUE]))
    await begun(broker, 1)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    assert broker.unlocked == [QUEUE]


async def test_a_queue_that_is_released_is_committed_and_unlocked_unless_its_lock_has_run_out() -> None:
    for runs_out in (False, True):
        broker = Broker()
        share = share_of(broker)
        owned = share.begin(QUEUE, Offset(3))
        if runs_out:
            owned.lock.lost()
        assert await share.release([QUEUE]) == [QUEUE]
        assert broker.unlocked == [QUEUE]
        assert broker.given_up == ([] if runs_out else [QUEUE]), "the next owner may be further"
        assert broker.table.read(QUEUE) is None


async def test_a_queue_with_a_busy_listener_is_not_released() -> None:
    broker = Broker()
    share = share_of(broker)
    owned = share.begin(QUEUE, Offset(3))
    done = asyncio.Event()
    run = asyncio.ensure_future(done.wait())
    owned.begin_run(cast(Any, run))
    assert await share.release([QUEUE]) == [] and broker.unlocked == [] and broker.given_up == []
    done.set()
    await run
    owned.end_run()
    assert await share.release([QUEUE]) == [QUEUE] and broker.unlocked == [QUEUE]


async def test_where_a_queue_starts_is_where_the_group_stands() -> None:
    broker = Broker()
    share = share_of(broker)
    share.begin(QUEUE, Offset(3))
    assert broker.table.read(QUEUE) == 3, "a member that dies before its first message must not skip any"


async def test_a_reset_that_arrives_while_a_queue_is_taken_is_heeded() -> None:
    broker = Broker()
    share = share_of(broker)
    taking = asyncio.ensure_future(share.take([QUEUE]))
    await begun(broker, 1)
    share.move(QUEUE, Offset(2))
    broker.asked[0].set_result(None)
    assert await taking == [QUEUE] and share.owned[QUEUE].pull.offset == 2


class NewGroup(Broker):
    """Has no offset of the group, until another member commits one; says where the queue ends."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: int | Stored = Stored.NONE
        self.kept: list[int] = []
        self.plan: StartPlan = AskEnd()
        self.meanwhile: Callable[[], object] = lambda: None  # happens while the end of the queue is asked for

    async def stored(self, queue: QueueId) -> int | Stored:  # type: ignore[override]
        return self.committed

    async def carry_out(self, plan: StartPlan, queue: QueueId) -> Offset:
        match plan:
            case StartAt(offset):
                return offset
            case AskEnd():
                self.meanwhile()
                return Offset(9)
        return Offset(4)  # by time

    async def keep_start(self, queue: QueueId, offset: Offset) -> None:
        self.kept.append(offset)

    def share(self) -> OwnedQueues:
        def plan(_: str, stored: int | Stored) -> StartPlan:
            return self.plan if isinstance(stored, Stored) else StartAt(Offset(stored))

        return share_of(self, plan=plan, keep_start=self.keep_start, uses_locks=False)


async def test_a_queue_that_another_member_starts_meanwhile_goes_on_where_that_one_started() -> None:
    """Else what came between the two starts would be read by nobody."""
    broker = NewGroup()
    share = broker.share()
    broker.meanwhile = lambda: setattr(broker, "committed", 6)
    await share.take([QUEUE])
    assert share.owned[QUEUE].pull.offset == 6 and broker.kept == []


async def test_an_end_that_is_told_after_the_consumer_is_open_is_not_its_start() -> None:
    """What was sent since then is before that end."""
    broker = NewGroup()
    share = broker.share()
    broker.meanwhile = lambda: setattr(broker, "plan", AskByTime(5))
    await share.take([QUEUE])
    assert share.owned[QUEUE].pull.offset == 4 and broker.kept == [4]


async def test_the_end_of_a_queue_that_nobody_starts_meanwhile_is_its_start_and_kept() -> None:
    broker = NewGroup()
    share = broker.share()
    await share.take([QUEUE])
    assert share.owned[QUEUE].pull.offset == 9 and broker.kept == [9]


async def test_at_the_end_what_a_listener_still_works_on_is_not_unlocked() -> None:
    broker = Broker()
    share = share_of(broker)
    busy, idle = share.begin(QUEUE, Offset(3)), share.begin(QueueId("T", "broker-a", 1), Offset(3))
    busy.begin_run(asyncio.ensure_future(nothing()))
    share.drop_all()
    assert broker.unlocked == [idle.queue] and not share.owned
