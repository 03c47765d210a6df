"""Pops that wait: for new messages, for rows that become ready, for acknowledgements that free a message group."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.queue_key import QueueKey
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.popping.calls import PopResult
from pyromq.broker.popping.plans import POLL_MS_MAX, Bucket, PopPlan
from pyromq.broker.popping.taking import Taker
from pyromq.broker.pulling.pull_waiters import Waiters
from pyromq.errors import MQError
from pyromq.wire.codes import ResponseCode

logger = logging.getLogger(__name__)

ANYBODY: Final = object()
"""Owner of pops that no connection has."""

Respond = Callable[[PopResult | None], None]
"""Hears what a waiting pop got; None when its time is over."""


@dataclass(slots=True, eq=False)
class HeldPop:
    """A pop that waits; ``queue`` is the bucket of its plan."""

    connection: Any  # its owner
    queue: Bucket
    deadline_ms: int
    plan: PopPlan
    respond: Respond
    only_look: bool = False  # it wants to know that there is something, no more
    is_admitted: Callable[[], bool] | None = None  # False: its owner may not wait any longer, and was told
    answered: bool = False


class WaitingPops:
    """Holds pops that found nothing, and asks for them again when there may be something."""

    def __init__(
        self,
        environment: Environment,
        taker: Taker,
        take: Callable[[PopPlan], PopResult | None],
        has_some: Callable[[PopPlan], bool],
    ) -> None:
        self._clock = environment.clock
        self._authority = environment.authority
        self._taker = taker
        self._take = take
        self._has_some = has_some
        self._waiters: Waiters[HeldPop] = Waiters(environment.clock, environment.settings.held_pulls_max)
        self._buckets: dict[str, dict[Bucket, None]] = {}  # that pops may wait in, by topic
        self._rescan: dict[Bucket, None] = {}  # there is more to look at, but not in this loop iteration

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def is_full(self) -> bool:
        return self._waiters.full

    def hold(
        self, plan: PopPlan, deadline_ms: int, respond: Respond, owner: object = ANYBODY, *, only_look: bool = False
    ) -> HeldPop:
        """Wait for something, until then by the monotonic clock. Raises RefusedError when too many wait."""
        if self._waiters.full:
            text = f"{len(self._waiters)} pops wait already; try again in a second"
            raise RefusedError(ResponseCode.POLLING_FULL, text)
        self._authority.check_accept()
        wait_ms = min(POLL_MS_MAX, self._authority.wait_left_ms())
        deadline_ms = min(deadline_ms, self._clock.monotonic_ms() + wait_ms)
        held = HeldPop(owner, plan.bucket, deadline_ms, plan, respond, only_look)
        self._waiters.hold(held)
        self._buckets.setdefault(plan.bucket.topic, {})[plan.bucket] = None
        if self._taker.is_unfinished:
            self._rescan[plan.bucket] = None
        return held

    def drop_owner(self, owner: object) -> None:
        """It is gone: its pops get nothing."""
        self._waiters.drop_connection(owner)

    def held_by(self, group: str, topic: str, queue_id: int) -> int:
        """How many pops of a group wait for a queue."""
        buckets = self._buckets.get(topic, ())
        return sum(
            len(self._waiters.of_queue(bucket))
            for bucket in buckets
            if bucket.group == group and bucket.queue_id in (queue_id, -1)
        )

    def wake(self, queues: Iterable[QueueKey]) -> None:
        """There are new messages in these."""
        if len(self._waiters):
            for topic in dict.fromkeys(topic for topic, _ in queues):
                self._wake_buckets(topic, list(self._buckets.get(topic, ())))

    def wake_group(self, group: str, topic: str) -> None:
        for name, buckets in (
            list(self._buckets.items()) if topic not in self._buckets else [(topic, self._buckets[topic])]
        ):
            self._wake_buckets(name, [bucket for bucket in buckets if bucket.group == group])

    def _wake_buckets(self, topic: str, buckets: list[Bucket]) -> None:
        if not self._authority.wait_left_ms():
            return
        for bucket in buckets:
            waiting = self._waiters.of_queue(bucket)
            for held in waiting:
                if not self._answer(held):
                    break
            if not waiting:
                self._buckets[topic].pop(bucket, None)
        if topic in self._buckets and not self._buckets[topic]:
            del self._buckets[topic]

    def _answer(self, held: HeldPop) -> bool:
        """False when there is nothing for it, and so nothing for others like it."""
        if held.is_admitted is not None and not held.is_admitted():
            self._waiters.release(held)
            return True
        try:
            if held.only_look:
                if not self._has_some(held.plan):
                    return False
                result: PopResult | None = PopResult(
                    request=held.plan.request, broker="", number=0, popped_ms=0, invisible_ms=0, portions=()
                )
            else:
                result = self._take(held.plan)
                if self._taker.is_unfinished:
                    self._rescan[held.queue] = None
                if result is None:
                    return False
        except MQError as error:
            logger.warning("waiting pop ends: group=%s reason=%s", held.plan.request.group, error)
            result = None
        self._waiters.release(held)
        held.respond(result)
        return True

    def is_due(self, now_ms: int) -> bool:
        """Whether the time of a pop is over, or there is more to look at for one; by the monotonic clock."""
        return bool(self._rescan) or self._waiters.is_due(now_ms)

    def respond_due(self) -> None:
        """Pops whose time is over."""
        for held in self._waiters.due():
            held.respond(None)
        if self._rescan:
            again, self._rescan = self._rescan, {}
            for bucket in again:
                self._wake_buckets(bucket.topic, [bucket])

    def release(self, held: HeldPop) -> None:
        """Nobody waits for it any more."""
        self._waiters.release(held)
