"""Assigned queues: taken and released as the rebalancer decides, abandoned when something else happens.

    take      lock, look up where to go on, start pulling
    release   hand out nothing more, tell who listens, commit, unlock; a busy orderly listener keeps its queue for now
    abandon   its offset was illegal or reset, or its lock is lost: gone at once, the next round takes it again

A lock that was lost or has expired cannot be had back as if nothing had happened: another member may have gone on. So
the queue is abandoned, and taken again with a fresh look at its offset.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyromq.client.consumer.base.broker_calls import BrokerCalls
from pyromq.client.consumer.base.consume_stats import ConsumeStats
from pyromq.client.consumer.base.owned_queue import OwnedQueue
from pyromq.client.consumer.base.rebalance_listener import RebalanceListener
from pyromq.client.consumer.offsets.offset_keeper import OffsetKeeper
from pyromq.client.consumer.rules.assignment import is_pull_expired
from pyromq.client.consumer.rules.pull_state import PullSettings
from pyromq.client.consumer.rules.queue_state import Ownership
from pyromq.client.consumer.rules.start_offset import StartAt, StartPlan, Stored
from pyromq.client.core.tasks import TaskOwner
from pyromq.clock import Clock
from pyromq.errors import MQError
from pyromq.model.queue import Offset, QueueId

logger = logging.getLogger(__name__)

_RELEASE_WAIT_MS: Final = 1_000  # per round; a listener that takes longer keeps its queue until the next
_ABANDON_WAIT_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCallbacks:
    """What the consumer does with its queues, and what it wants to hear of them."""

    plan: Callable[[str, int | Stored], StartPlan]
    """Where to start a queue of this topic, given what is stored for the group."""
    keep_start: Callable[[QueueId, Offset], Coroutine[Any, Any, None]]
    """Commits the start of a queue that had no offset. Raises TransportError."""
    pull: Callable[[OwnedQueue], Coroutine[Any, Any, None]]
    """The pull loop of a queue."""
    quiesce: Callable[[Iterable[OwnedQueue], int], Coroutine[Any, Any, None]]
    """Waits for orderly listeners that have messages of these queues, so many milliseconds at most."""
    note: Callable[[OwnedQueue], object]
    """Brings the offset table up to date with a queue."""
    kept: Callable[[OwnedQueue], None]
    """A queue stays though it was to go."""
    lost: Callable[[QueueId], None]
    """A queue is gone without a rebalance."""
    listener: RebalanceListener
    """What the application wants to hear."""


class OwnedQueues:
    """``owned`` belongs to this class; it is also the one that tells each OwnedQueue what happens to it."""

    def __init__(
        self,
        calls: BrokerCalls,
        keeper: OffsetKeeper,
        clock: Clock,
        settings: PullSettings,
        stats: ConsumeStats,
        callbacks: QueueCallbacks,
        *,
        uses_locks: bool,
    ) -> None:
        self._calls = calls
        self._keeper = keeper
        self._clock = clock
        self._settings = settings
        self._stats = stats
        self._uses_locks = uses_locks
        self._plan = callbacks.plan
        self._keep_start = callbacks.keep_start
        self._pull = callbacks.pull
        self._quiesce = callbacks.quiesce
        self._note = callbacks.note
        self._kept = callbacks.kept
        self._lost = callbacks.lost
        self._listener = callbacks.listener
        self.owned: dict[QueueId, OwnedQueue] = {}
        self._moved: dict[QueueId, Offset | None] = {}  # being taken → where an operator wants it to start, if at all
        self.tasks: TaskOwner | None = None  # set while the consumer is open

    # --- rounds of the rebalancer ---

    def stale(self) -> list[QueueId]:
        """Owned queues whose pull loop is dead."""
        now_ms = self._clock.monotonic_ms()
        return [queue for queue, owned in self.owned.items() if is_pull_expired(owned.pull.last_pull_ms, now_ms)]

    def keep(self, queues: Collection[QueueId]) -> None:
        """These should be ours: those that were on their way out stay."""
        for queue in queues:
            owned = self.owned.get(queue)
            if owned is not None and owned.ownership is Ownership.REVOKED:
                owned.keep()
                self._kept(owned)

    async def release(self, queues: Iterable[QueueId]) -> list[QueueId]:
        """Returns those that are free now."""
        wanted = list(queues)
        leaving = [owned for queue in wanted if (owned := self.owned.get(queue))]
        for owned in leaving:
            owned.revoke()
        await self._quiesce(leaving, _RELEASE_WAIT_MS)
        for owned in leaving:
            if owned.run is not None:
                owned.note_busy()
        await self._part_with([owned for owned in leaving if owned.run is None])
        return [queue for queue in wanted if queue not in self.owned]

    async def _part_with(self, leaving: Iterable[OwnedQueue]) -> None:
        """Releases those that are still ours; first the application hears of it."""
        going = [owned for owned in leaving if self.owned.get(owned.queue) is owned]
        await self._notify_revoked(going)
        for owned in going:
            if self.owned.get(owned.queue) is owned:
                self._note(owned)
                self._let_go(owned)

    async def _notify_revoked(self, going: Iterable[OwnedQueue]) -> None:
        assert self.tasks is not None
        await self._listener.revoked((owned.queue for owned in going), self.tasks)

    async def take(self, queues: Iterable[QueueId]) -> list[QueueId]:
        """Returns those that are ours now."""
        wanted = sorted(queues)
        self._moved.update(dict.fromkeys(wanted))
        try:
            granted = sorted((await self._calls.lock(wanted))[0]) if self._uses_locks else wanted
            begun: list[OwnedQueue] = []
            for queue, start in zip(granted, await asyncio.gather(*map(self._start_of, granted)), strict=True):
                moved = self._moved[queue]  # looked at last: what the broker said may be older
                start = start if moved is None else moved
                if start is not None and queue not in self.owned:
                    begun.append(self.begin(queue, start))
            await self._notify_assigned(begun)
            return [queue for queue in granted if queue in self.owned]
        finally:
            for queue in wanted:
                del self._moved[queue]
            if self._uses_locks:  # what could not be used must be free for others; those of others stay theirs
                self._calls.unlock(queue for queue in wanted if queue not in self.owned)

    async def _notify_assigned(self, begun: Sequence[OwnedQueue]) -> None:
        """Pulls begin after the application has heard of it: it may want to seek."""
        if self._listener.hears_of_assigned and begun:
            assert self.tasks is not None
            await self._listener.assigned((owned.queue for owned in begun), self.tasks)
            for owned in begun:
                self.pull_again(owned)

    async def _start_of(self, queue: QueueId) -> Offset | None:
        """Looked up again after it was asked for: another member may have started it, or the consumer be open now."""
        start, asked = None, None
        try:
            while (plan := self._plan(queue.topic, await self._keeper.stored(queue))) != asked:
                start, asked = await self._calls.carry_out(plan, queue), plan
                if start is None or isinstance(plan, StartAt):
                    return start
            assert start is not None
            await self._keep_start(queue, start)
            return start
        except MQError as error:
            logger.warning("start not known, trying again later: queue=%s error=%s", queue, error)
            return None

    def begin(self, queue: QueueId, start: Offset) -> OwnedQueue:
        """From now on it is ours. Where it starts counts as consumed, so that a restart skips nothing."""
        assert self.tasks is not None and queue not in self.owned
        self._keeper.table.update(queue, start)
        owned = self.owned[queue] = OwnedQueue(queue, start, self._clock, self._settings, self._stats.of(queue.topic))
        if self._uses_locks:
            owned.lock.granted()
        if not self._listener.hears_of_assigned:
            self.pull_again(owned)
        logger.info("queue taken: queue=%s offset=%d", queue, start)
        return owned

    def seek(self, owned: OwnedQueue, offset: Offset) -> None:
        """Goes on elsewhere; what was pulled, or is on its way, is forgotten."""
        owned.seek(offset)
        self.pull_again(owned)

    def pull_again(self, owned: OwnedQueue) -> None:
        """After ``stop_pulling``, if it is still ours."""
        queue = owned.queue
        if self.tasks is None or self.owned.get(queue) is not owned:
            return
        name = f"pull {queue.topic} {queue.broker} {queue.number}"
        owned.pulled_by(self.tasks.start(self._pull(owned), name=name))

    # --- between rounds ---

    def follow_routes(self) -> None:
        """Routes have changed: pulls that an old master holds, or would if it did not hang, are made at the new one."""
        for owned in list(self.owned.values()):
            address = self._calls.read_address(owned.queue.broker, owned.pull.broker_id)
            if owned.pulled_at is not None and address != owned.pulled_at:
                owned.stop_pulling()
                self.pull_again(owned)

    def move(self, queue: QueueId, offset: Offset) -> None:
        """An operator, or the broker, says where the group goes on; nothing, for a queue that is not ours."""
        if owned := self.owned.get(queue):
            self.abandon_soon(owned, offset)
        elif queue in self._moved:
            self._moved[queue] = offset

    def abandon_soon(self, owned: OwnedQueue, offset: Offset | None = None) -> None:
        """Gone without a round; ``offset`` is where the group shall go on, if not where it is.

        From now on, whatever listeners still say of the queue's messages, that offset is the one that is committed.
        """
        assert self.tasks is not None
        if offset is not None:
            self._keeper.table.freeze(owned.queue, offset)
        is_first = owned.ownership is not Ownership.ABANDONED
        owned.abandon()
        if is_first:
            self.tasks.start(self._abandon(owned), name="abandon")

    async def _abandon(self, owned: OwnedQueue) -> None:
        while owned.run is not None:  # two members must not have it at once, however long the listener takes
            await self._quiesce([owned], _ABANDON_WAIT_MS)
        if self.owned.get(owned.queue) is owned:
            await self._part_with([owned])
            self._lost(owned.queue)

    def may_commit(self, owned: OwnedQueue) -> bool:
        """Whether no other member can have the queue: without its lock we might set back what the next owner did."""
        return not self._uses_locks or owned.lock.held

    def _let_go(self, owned: OwnedQueue) -> None:
        owned.release()
        del self.owned[owned.queue]
        if self.may_commit(owned):
            self._keeper.give_up(owned.queue)
        else:
            self._keeper.table.forget(owned.queue)
        if self._uses_locks:
            owned.lock.lost()
            self._calls.unlock([owned.queue])
        logger.info("queue released: queue=%s", owned.queue)

    async def renew_locks(self) -> None:
        """Every 20 s. Locks that a broker refuses are lost; where none answers, they run out by themselves."""
        granted, refused = await self._calls.lock(self.owned)
        for queue in sorted(granted):
            if owned := self.owned.get(queue):
                if owned.lock.held:
                    owned.lock.granted()
                else:  # too late: another member may have had it meanwhile
                    owned.lock.lost()
                    self.abandon_soon(owned)
        strays = granted - self.owned.keys() - self._moved.keys()  # released meanwhile, and not being taken again
        self._calls.unlock(sorted(strays))
        for queue in sorted(refused):
            if owned := self.owned.get(queue):
                logger.warning("lock lost: queue=%s", queue)
                owned.lock.lost()
                self.abandon_soon(owned)

    # --- the end ---

    def stop_pulling(self) -> None:
        for owned in self.owned.values():
            owned.stop_pulling()

    async def notify_all_revoked(self) -> None:
        """Call ``on_revoked`` for all queues, before the last commit."""
        await self._notify_revoked(self.owned.values())

    def drop_all(self) -> None:
        """After the last commit. What a listener still works on is not unlocked: the lock runs out a minute later."""
        queues = [queue for queue, owned in self.owned.items() if owned.run is None]
        for owned in self.owned.values():
            owned.release()
        self.owned.clear()
        if self._uses_locks:
            self._calls.unlock(queues)
