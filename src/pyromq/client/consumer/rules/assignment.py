"""Rebalance decisions: which queues change hands. Decided here, carried out by OwnedQueues.

One round for one topic:

    wanted = wanted_queues(...)                        None: route or members unknown, leave everything as it is
    moves = assignment.moves_to(topic, wanted, stale)  what to give up, what to take
    ...                                                release and take; a lock may be refused, a listener may be busy
    assignment = assignment.after(released, taken)     what really happened; the rest is tried again next round

A queue that was not pulled for 120 s although it is ours is given up and taken again: its pull loop is dead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from pyromq.client.consumer.rules.assign import Assign
from pyromq.model.queue import QueueId
from pyromq.wire.json.heartbeat import MessageModel

REBALANCE_MS: Final = 20_000
REBALANCE_MIN_MS: Final = 1_000
LOCK_FAILED_MS: Final = 500
PULL_EXPIRED_MS: Final = 120_000


@dataclass(frozen=True, slots=True)
class Moves:
    """The difference between what a member has and what it should have, both parts sorted.

    A queue in both parts is stale: it is released first and then taken again.
    """

    revoked: tuple[QueueId, ...] = ()
    granted: tuple[QueueId, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.revoked or self.granted)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The queues that this member works on, of all topics; replaced whole, counted up at every change."""

    generation: int = 0
    queues: frozenset[QueueId] = frozenset()

    def of_topic(self, topic: str) -> frozenset[QueueId]:
        return frozenset(queue for queue in self.queues if queue.topic == topic)

    def moves_to(self, topic: str, wanted: Collection[QueueId], stale: Collection[QueueId] = ()) -> Moves:
        """What one topic asks for; ``stale`` are queues without pulls for too long."""
        current, target = self.of_topic(topic), frozenset(wanted)
        again = current & target & frozenset(stale)
        return Moves(tuple(sorted(current - target | again)), tuple(sorted(target - current | again)))

    def moves_without(self, subscribed: Collection[str]) -> Moves:
        """Queues of topics that are no longer subscribed."""
        return Moves(revoked=tuple(sorted(queue for queue in self.queues if queue.topic not in subscribed)))

    def after(self, released: Iterable[QueueId], taken: Iterable[QueueId]) -> Assignment:
        """What really happened, in this order; the same assignment when nothing did."""
        released, taken = frozenset(released), frozenset(taken)
        if not released and not taken:
            return self
        return Assignment(self.generation + 1, self.queues - released | taken)

    def is_balanced(self, topic: str, wanted: Collection[QueueId]) -> bool:
        return self.of_topic(topic) == frozenset(wanted)


def wanted_queues(
    queues: Collection[QueueId] | None,
    members: Collection[str] | None,
    me: str,
    assign: Assign,
    *,
    model: MessageModel = MessageModel.CLUSTERING,
) -> frozenset[QueueId] | None:
    """The own share; None when it cannot be known now: no route yet, no broker that knew the members.

    In broadcasting every member has every queue. In clustering a member whom the others do not see has nothing: they
    share without it.
    """
    if model is MessageModel.BROADCASTING:
        return None if queues is None else frozenset(queues)
    return frozenset(assign(queues, members, me)) if queues and members else None


def is_pull_expired(last_pull_ms: int, now_ms: int) -> bool:
    """Whether a pull loop must be taken for dead; both times are monotonic."""
    return now_ms - last_pull_ms > PULL_EXPIRED_MS


def next_version(version: int, now_ms: int) -> int:
    """The version of a subscription after its queues changed: the time, but always larger than before.

    Brokers keep the larger version, so a clock that was set back must not make a subscription older.
    """
    return max(now_ms, version + 1)
