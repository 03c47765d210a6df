from __future__ import annotations

from collections.abc import Collection, Iterable

from pyromq.client.consumer.assigning.rebalancer import Rebalancer
from pyromq.client.consumer.rules.assign import assign_evenly
from pyromq.client.consumer.rules.assignment import LOCK_FAILED_MS, Assignment
from pyromq.model.queue import QueueId
from pyromq.wire.json.heartbeat import MessageModel

QUEUES = [QueueId("orders", "broker-a", number) for number in range(4)]


class Group:
    """A group that says what a test put into it."""

    def __init__(self) -> None:
        self.subscribed: list[str] = ["orders"]
        self.queues: list[QueueId] | None = QUEUES
        self.members: list[str] | None = ["me"]
        self.changes = 0

    def topics(self) -> Collection[str]:
        return self.subscribed

    async def prepare(self) -> None: ...

    def queues_of(self, topic: str) -> Collection[QueueId] | None:
        return self.queues

    async def members_of(self, topic: str) -> Collection[str] | None:
        return self.members

    def shared(self, assignment: Assignment) -> None:
        self.changes += 1

    def round_over(self) -> None: ...


class Share:
    """Remembers what it was asked to do; ``refused`` cannot be taken, ``busy`` cannot be released."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.refused: set[QueueId] = set()
        self.busy: set[QueueId] = set()
        self.dead: list[QueueId] = []

    def stale(self) -> Collection[QueueId]:
        return self.dead

    def keep(self, queues: Collection[QueueId]) -> None: ...

    async def release(self, queues: Iterable[QueueId]) -> Collection[QueueId]:
        self.log += [f"release {queue.number}" for queue in queues]
        return [queue for queue in queues if queue not in self.busy]

    async def take(self, queues: Iterable[QueueId]) -> Collection[QueueId]:
        self.log += [f"take {queue.number}" for queue in queues]
        return [queue for queue in queues if queue not in self.refused]


def made(model: MessageModel = MessageModel.CLUSTERING) -> tuple[Group, Share, Rebalancer]:
    group, share = Group(), Share()
    return group, share, Rebalancer(group, share, "me", assign_evenly, model, period_ms=20_000)  # type: ignore[arg-type]


async def test_a_round_takes_the_own_share_and_the_next_has_nothing_to_do() -> None:
    group, share, rebalancer = made()
    assert await rebalancer.round() == 20_000
    assert await rebalancer.round() == 20_000
    assert share.log == ["take 0", "take 1", "take 2", "take 3"] and group.changes == 1


async def test_what_others_get_is_released_before_anything_is_taken() -> None:
    group, share, rebalancer = made()
    group.members = ["me", "zoe"]
    await rebalancer.round()
    share.log.clear()
    group.members = ["amy", "me"]
    await rebalancer.round()
    assert share.log == ["release 0", "release 1", "take 2", "take 3"]


async def test_what_is_not_known_changes_nothing_and_is_asked_again_later_and_later() -> None:
    group, share, rebalancer = made()
    await rebalancer.round()
    group.members = None
    share.log.clear()
    assert [await rebalancer.round() for _ in range(6)] == [1_000, 2_000, 4_000, 8_000, 16_000, 20_000]
    assert share.log == [] and len(rebalancer.assignment.queues) == 4
    group.members = ["me"]
    assert await rebalancer.round() == 20_000


async def test_a_member_the_others_do_not_see_gives_everything_up_and_looks_again_soon() -> None:
    group, _, rebalancer = made()
    await rebalancer.round()
    group.members = ["zoe"]
    assert await rebalancer.round() == 1_000
    assert not rebalancer.assignment.queues


async def test_a_refused_lock_and_a_busy_listener_are_tried_again_soon() -> None:
    group, share, rebalancer = made()
    share.refused = {QUEUES[3]}
    assert await rebalancer.round() == LOCK_FAILED_MS
    assert QUEUES[3] not in rebalancer.assignment.queues
    share.refused, share.busy = set(), {QUEUES[0]}
    group.members = ["amy", "me"]
    assert await rebalancer.round() == LOCK_FAILED_MS
    assert QUEUES[0] in rebalancer.assignment.queues
    share.busy = set()
    assert await rebalancer.round() == 20_000
    assert rebalancer.assignment.queues == frozenset(QUEUES[2:])


async def test_lost_and_stale_queues_are_taken_again() -> None:
    _, share, rebalancer = made()
    await rebalancer.round()
    share.log.clear()
    rebalancer.lost(QUEUES[1])
    share.dead = [QUEUES[2]]
    await rebalancer.round()
    assert share.log == ["release 2", "take 1", "take 2"]


async def test_unsubscribed_topics_are_released_and_broadcasting_asks_for_no_members() -> None:
    group, share, rebalancer = made(MessageModel.BROADCASTING)
    group.members = None
    await rebalancer.round()
    assert len(rebalancer.assignment.queues) == 4
    group.subscribed = []
    await rebalancer.round()
    assert not rebalancer.assignment.queues and share.log[-4:] == [f"release {number}" for number in range(4)]
