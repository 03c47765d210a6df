"""State machine of a link: the lasting connection to one server, without sockets and timers.

A link has at most one connection. It is opened when a caller *wants* it, not before; while it is being opened, other
callers *join* the wait. An attempt that *fails* makes the link *back off*: callers wait until ``retry_at_ms``, and each
failure in a row makes that wait longer. A connection may be *lost* at any time. If the peer was *heard* on it (it sent
at least a byte), the row of failures ends and the next caller opens another at once: a server that was restarted is
reached again without delay. If it was not, the loss counts as a failure: a server that accepts and hangs up at once is
not run against without pause. A *closed* link stays closed, and whatever is reported late (the attempt ended, the
connection is gone) changes nothing.

``MOVES`` and ``STEPS`` are all there is: an event that a phase does not list leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from random import Random
from typing import Final

from pyromq.net.backoff import Backoff


class Phase(Enum):
    IDLE = "idle"
    CONNECTING = "connecting"
    READY = "ready"
    BACKING_OFF = "backing off"
    CLOSED = "closed"


class LinkEvent(Enum):
    WANTED = "a caller wants a connection"
    DUE = "a caller wants one, and the wait after a failure is over"
    CONNECTED = "the attempt to connect succeeded"
    FAILED = "the attempt to connect ended without a connection"
    LOST = "the connection ended, and the peer had been heard on it"
    LOST_UNHEARD = "the connection ended before the peer sent anything"
    CLOSED = "the link is closed"


class LinkStep(Enum):
    """What a caller that wants a connection has to do."""

    CONNECT = "open one"
    JOIN = "wait for the one that is being opened"
    USE = "use the one there is"
    WAIT = "come back at retry_at_ms"
    REFUSE = "give up, the link is closed"


MOVES: Final[Mapping[Phase, Mapping[LinkEvent, Phase]]] = {
    Phase.IDLE: {
        LinkEvent.WANTED: Phase.CONNECTING,
        LinkEvent.CLOSED: Phase.CLOSED,
    },
    Phase.CONNECTING: {
        LinkEvent.CONNECTED: Phase.READY,
        LinkEvent.FAILED: Phase.BACKING_OFF,
        LinkEvent.CLOSED: Phase.CLOSED,
    },
    Phase.READY: {
        LinkEvent.LOST: Phase.IDLE,
        LinkEvent.LOST_UNHEARD: Phase.BACKING_OFF,
        LinkEvent.CLOSED: Phase.CLOSED,
    },
    Phase.BACKING_OFF: {
        LinkEvent.DUE: Phase.CONNECTING,
        LinkEvent.CLOSED: Phase.CLOSED,
    },
    Phase.CLOSED: {},
}

STEPS: Final[Mapping[Phase, LinkStep]] = {
    Phase.IDLE: LinkStep.CONNECT,
    Phase.CONNECTING: LinkStep.JOIN,
    Phase.READY: LinkStep.USE,
    Phase.BACKING_OFF: LinkStep.WAIT,  # CONNECT once it is DUE
    Phase.CLOSED: LinkStep.REFUSE,
}
"""What a caller has to do that finds the link in this phase."""


class LinkState:
    """Decides; ``Link`` acts. Its methods are the events; nothing else writes the phase."""

    def __init__(self, backoff: Backoff, rng: Random) -> None:
        self.phase = Phase.IDLE
        self.failures = 0  # in a row
        self.retry_at_ms = 0  # while backing off
        self._backoff = backoff
        self._rng = rng

    def wanted(self, now_ms: int) -> LinkStep:
        found = self.phase
        is_due = found is Phase.BACKING_OFF and now_ms >= self.retry_at_ms
        is_moved = self._move(LinkEvent.DUE if is_due else LinkEvent.WANTED)
        return LinkStep.CONNECT if is_moved else STEPS[found]

    def connected(self) -> bool:
        """False if the connection is not wanted any more: close it."""
        return self._move(LinkEvent.CONNECTED)

    def failed(self, now_ms: int) -> None:
        """The attempt to connect ended without a connection."""
        if self._move(LinkEvent.FAILED):
            self._lengthen_wait(now_ms)

    def lost(self, now_ms: int, *, was_heard: bool) -> None:
        """The connection ended; ``was_heard``: the peer had sent at least a byte."""
        if self._move(LinkEvent.LOST if was_heard else LinkEvent.LOST_UNHEARD):
            if was_heard:
                self.failures = 0
            else:
                self._lengthen_wait(now_ms)

    def closed(self) -> None:
        self._move(LinkEvent.CLOSED)

    def _move(self, event: LinkEvent) -> bool:
        """False when the event changes nothing in this phase."""
        follows = MOVES[self.phase].get(event)
        if follows is None:
            return False
        self.phase = follows
        return True

    def _lengthen_wait(self, now_ms: int) -> None:
        self.retry_at_ms = now_ms + self._backoff.delay_ms(self.failures, self._rng)
        self.failures += 1
