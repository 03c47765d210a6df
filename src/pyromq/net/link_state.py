"""The life of a link as a table of moves, without sockets and timers.

    phase         wanted                         connected   failed        lost                          closed
    IDLE          CONNECT → CONNECTING                                                                   → CLOSED
    CONNECTING    JOIN                           → READY     → BACKING_OFF                               → CLOSED
    READY         USE                                                      → IDLE, or BACKING_OFF if it   → CLOSED
                                                                           never heard from the peer
    BACKING_OFF   WAIT; once it is time:                                                                 → CLOSED
                  CONNECT → CONNECTING
    CLOSED        REFUSE                         (drop it)   (nothing)     (nothing)                     (nothing)

Failures in a row lengthen the wait; a connection on which the peer was heard ends the row. So a server that accepts and
hangs up at once is not run against without pause, and one that was restarted is reached again without delay.
"""

from __future__ import annotations

from enum import Enum
from random import Random

from pyromq.net.backoff import Backoff


class Phase(Enum):
    IDLE = "idle"
    CONNECTING = "connecting"
    READY = "ready"
    BACKING_OFF = "backing off"
    CLOSED = "closed"


class LinkStep(Enum):
    """What whoever wants a connection has to do."""

    CONNECT = "open one"
    JOIN = "wait for the one that is being opened"
    USE = "use the one there is"
    WAIT = "come back at retry_at_ms"
    REFUSE = "give up, the link is closed"


class LinkState:
    """Decides; ``Link`` acts."""

    def __init__(self, backoff: Backoff, rng: Random) -> None:
        self.phase = Phase.IDLE
        self.failures = 0  # in a row
        self.retry_at_ms = 0  # while backing off
        self._backoff = backoff
        self._rng = rng

    def wanted(self, now_ms: int) -> LinkStep:
        match self.phase:
            case Phase.READY:
                return LinkStep.USE
            case Phase.CONNECTING:
                return LinkStep.JOIN
            case Phase.CLOSED:
                return LinkStep.REFUSE
            case Phase.BACKING_OFF if now_ms < self.retry_at_ms:
                return LinkStep.WAIT
        self.phase = Phase.CONNECTING
        return LinkStep.CONNECT

    def connected(self) -> bool:
        """False if nobody wants the connection any more: close it."""
        if self.phase is not Phase.CONNECTING:
            return False
        self.phase = Phase.READY
        return True

    def failed(self, now_ms: int) -> None:
        """The attempt to connect ended without a connection."""
        if self.phase is Phase.CONNECTING:
            self._back_off(now_ms)

    def lost(self, now_ms: int, *, was_heard: bool) -> None:
        """The connection ended; ``was_heard``: the peer had sent at least a byte."""
        if self.phase is not Phase.READY:
            return
        if was_heard:
            self.phase, self.failures = Phase.IDLE, 0
        else:
            self._back_off(now_ms)

    def closed(self) -> None:
        self.phase = Phase.CLOSED

    def _back_off(self, now_ms: int) -> None:
        self.phase = Phase.BACKING_OFF
        self.retry_at_ms = now_ms + self._backoff.delay_ms(self.failures, self._rng)
        self.failures += 1
