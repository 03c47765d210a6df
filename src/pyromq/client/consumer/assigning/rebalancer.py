"""Rebalance: which queues are ours, kept up to date in rounds of deciding first, then releasing, then taking.

A round comes every 20 s, and at once when the group, a route or a subscription changed or a queue was lost. What could
not be decided or done now (no route yet, no broker that knows the members, a lock that another member still has, a
listener that is still busy) is tried again after a second at first, later and later when it goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Protocol

from pyromq.client.consumer.assigning.owned_queues import OwnedQueues
from pyromq.client.consumer.rules.assign import Assign
from pyromq.client.consumer.rules.assignment import LOCK_FAILED_MS, REBALANCE_MIN_MS, Assignment, Moves, wanted_queues
from pyromq.errors import MQError
from pyromq.model.queue import QueueId
from pyromq.waiting import set_within
from pyromq.wire.json.heartbeat import MessageModel

logger = logging.getLogger(__name__)


class Group(Protocol):
    """What there is to share."""

    def topics(self) -> Collection[str]:
        """Topics that the group subscribes to."""

    async def prepare(self) -> None:
        """Before a round: routes are asked for, and brokers informed what the group subscribes."""

    def queues_of(self, topic: str) -> Collection[QueueId] | None:
        """All queues of a topic; None when its route is not known."""

    async def members_of(self, topic: str) -> Collection[str] | None: ...

    def shared(self, assignment: Assignment) -> None:
        """A round changed the assignment."""

    def round_over(self) -> None:
        """A round has ended, however it went."""


class Rebalancer:
    """``run`` is the task; ``wake`` asks for a round now."""

    def __init__(
        self, group: Group, owned_queues: OwnedQueues, me: str, assign: Assign, model: MessageModel, *, period_ms: int
    ) -> None:
        self._group = group
        self._owned_queues = owned_queues
        self._me = me
        self._assign = assign
        self._model = model
        self._period_ms = period_ms
        self._wanted = asyncio.Event()
        self._troubles = 0  # rounds in a row that left something open
        self.assignment = Assignment()
        self.first_round = asyncio.Event()  # is over, however it went

    def wake(self) -> None:
        self._wanted.set()

    def lost(self, queue: QueueId) -> None:
        """A queue is not ours any more, though no round decided so: take it again if it should be."""
        self.assignment = self.assignment.after([queue], ())
        self.wake()

    async def run(self) -> None:
        while True:
            self._wanted.clear()
            try:
                wait_ms = await self.round()
            except MQError as error:
                logger.warning("rebalance failed, trying again: error=%s", error)
                wait_ms = self._soon_ms()
            except Exception:  # assign is the application's; a consumer without rounds would never recover
                logger.exception("rebalance failed, trying again")
                wait_ms = self._soon_ms()
            self._group.round_over()
            self.first_round.set()
            await set_within(self._wanted, wait_ms / 1000)

    async def round(self) -> int:
        """One round; returns how long until the next when nothing else asks for one."""
        group, owned_queues = self._group, self._owned_queues
        await group.prepare()
        before, is_complete, is_refused = self.assignment, True, False
        topics = sorted(group.topics())
        await self._carry_out(self.assignment.moves_without(topics))
        for topic in topics:
            queues = group.queues_of(topic)
            members = None if self._model is MessageModel.BROADCASTING else await group.members_of(topic)
            wanted = wanted_queues(queues, members, self._me, self._assign, model=self._model)
            if wanted is None:
                is_complete = False
                continue
            owned_queues.keep(wanted)
            await self._carry_out(self.assignment.moves_to(topic, wanted, owned_queues.stale()))
            if members is not None and self._me not in members:
                is_complete = False
            if not self.assignment.is_balanced(topic, wanted):
                is_complete, is_refused = False, True
        if self.assignment != before:
            logger.info("rebalanced: generation=%d queues=%d", self.assignment.generation, len(self.assignment.queues))
            group.shared(self.assignment)
        if is_complete:
            self._troubles = 0
            return self._period_ms
        return LOCK_FAILED_MS if is_refused else self._soon_ms()

    async def _carry_out(self, moves: Moves) -> None:
        if not moves:
            return
        released = await self._owned_queues.release(moves.revoked) if moves.revoked else ()
        self.assignment = self.assignment.after(released, ())
        free = [queue for queue in moves.granted if queue not in self.assignment.queues]
        taken = await self._owned_queues.take(free) if free else ()
        self.assignment = self.assignment.after((), taken)

    def _soon_ms(self) -> int:
        self._troubles += 1
        return min(self._period_ms, REBALANCE_MIN_MS << min(self._troubles - 1, 10))
