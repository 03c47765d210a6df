"""State machine of a queue that a consumer owns: which states there are, what may happen in each, and what follows.

For strangers. A consumer group shares the queues of its topics: at any moment each queue has at most one *owner*, the
member that pulls its messages and hands them to its listener. A *rebalance* (a round of the Rebalancer) decides which
queues this member should own. Queues are *taken*: an ``OwnedQueue`` is made, in state OWNED, and dies RELEASED; taken
again, the queue is a new object with a new life. In between three questions are asked about it, and the answers do not
depend on each other, so each has a small table of its own:

``Ownership``: is the queue ours, and for how long? A rebalance that finds another owner *revokes* the queue. Its
listener may be in the middle of a message, so the member waits for it; the next rebalance may decide otherwise, and the
queue is *kept*. Some losses are final: the broker gave the lock to another member, or an operator moved the group's
offset. Then the queue is *abandoned*: what its listener says from now on does not count, and not even a rebalance
brings it back. When no listener works on it, it is *released*: the offset is committed (if it may be), the lock given
back, and the next owner begins.

``LockState``: has the broker locked the queue for us? Only consumers that keep order use locks, and a lock is lost
while a listener runs, whatever becomes of the queue then. So this is a question apart: a queue may be ABANDONED with
its lock HELD (an operator moved it; its last offset may be committed) or LOST (it may not: the next owner may have
committed more).

``RunState``: does a listener work on the queue? Asked for consumers that keep order, where one *run* consumes a queue
and a failed message makes the queue *rest*. A run goes on for a moment after its queue was revoked or abandoned, and
that moment is what a release waits for.

Beside these stands one fact that belongs to the application alone: a queue is *paused* and *resumed* as it likes, also
while it is revoked, and a queue that is kept comes back paused if it was. It has two values and every change is
allowed, so it is a flag of ``OwnedQueue`` and has no table.

An event that a table does not list for a state cannot happen unless this package has a mistake: ``after`` raises
AssertionError and names both.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar


class Ownership(Enum):
    """Whether a queue is ours. What it means is written in ``HANDS_OUT`` and ``COUNTS_VERDICTS``."""

    OWNED = "owned"
    REVOKED = "revoked"
    ABANDONED = "abandoned"
    RELEASED = "released"


class OwnershipEvent(Enum):
    REVOKED = "a rebalance gives the queue to another member"
    KEPT = "a rebalance leaves the queue here after all"
    ABANDONED = "the lock is lost, or the group goes on at another offset"
    RELEASED = "no listener works on it, or the consumer closes: it is gone"


class LockState(Enum):
    """Whether the broker's lock on a queue is ours; how long it can be trusted is ``QueueLock``'s matter."""

    FREE = "never asked for"
    HELD = "held"
    LOST = "lost"


class LockEvent(Enum):
    GRANTED = "the broker granted or renewed it"
    LOST = "the broker refused it, it was renewed too late, or it was given back"


class RunState(Enum):
    """What an orderly consumer does with a queue."""

    IDLE = "idle"
    RUNNING = "running"
    RESTING = "resting"


class RunEvent(Enum):
    BEGUN = "messages wait, and a task consumes them one batch after the other"
    FAILED = "a message failed: the queue rests before it is tried again"
    ENDED = "no messages wait, or they may not be handed out"
    RESTED = "the rest is over"


_Own, _Lock, _Run = Ownership, LockState, RunState

OWNERSHIP: Final[Mapping[Ownership, Mapping[OwnershipEvent, Ownership]]] = {
    _Own.OWNED: {
        OwnershipEvent.REVOKED: _Own.REVOKED,
        OwnershipEvent.ABANDONED: _Own.ABANDONED,
        OwnershipEvent.RELEASED: _Own.RELEASED,  # the consumer closes
    },
    _Own.REVOKED: {
        OwnershipEvent.REVOKED: _Own.REVOKED,  # the next rebalance decides the same, and the listener is still busy
        OwnershipEvent.KEPT: _Own.OWNED,
        OwnershipEvent.ABANDONED: _Own.ABANDONED,
        OwnershipEvent.RELEASED: _Own.RELEASED,
    },
    _Own.ABANDONED: {
        OwnershipEvent.REVOKED: _Own.ABANDONED,  # a rebalance may still want it gone; it is going already
        OwnershipEvent.ABANDONED: _Own.ABANDONED,  # for a second reason
        OwnershipEvent.RELEASED: _Own.RELEASED,
    },
    _Own.RELEASED: {},  # the end
}

LOCK: Final[Mapping[LockState, Mapping[LockEvent, LockState]]] = {
    _Lock.FREE: {LockEvent.GRANTED: _Lock.HELD},
    _Lock.HELD: {LockEvent.GRANTED: _Lock.HELD, LockEvent.LOST: _Lock.LOST},
    _Lock.LOST: {LockEvent.LOST: _Lock.LOST},  # no way back: another member may have had the queue meanwhile
}

RUN: Final[Mapping[RunState, Mapping[RunEvent, RunState]]] = {
    _Run.IDLE: {RunEvent.BEGUN: _Run.RUNNING},
    _Run.RUNNING: {RunEvent.FAILED: _Run.RESTING, RunEvent.ENDED: _Run.IDLE},
    _Run.RESTING: {RunEvent.RESTED: _Run.IDLE},
}

HANDS_OUT: Final = frozenset({Ownership.OWNED})
"""Messages are pulled and given to listeners (unless the application paused the queue)."""
COUNTS_VERDICTS: Final = frozenset({Ownership.OWNED, Ownership.REVOKED})
"""What a listener says of a message that it has counts: it moves the offset, or sends the message back."""

StateT = TypeVar("StateT", bound=Enum)
EventT = TypeVar("EventT", bound=Enum)


def after(table: Mapping[StateT, Mapping[EventT, StateT]], state: StateT, event: EventT) -> StateT:
    """The state that follows. Raises AssertionError for an event that cannot happen in this state."""
    follows = table[state].get(event)
    if follows is None:
        raise AssertionError(f"{type(event).__name__}.{event.name} in state {state.name}: {event.value}")
    return follows
