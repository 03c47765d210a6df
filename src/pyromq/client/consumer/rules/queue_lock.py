"""The lock on a queue as its consumer sees it: the broker grants it for 60 s, the consumer trusts it for 30.

The 30 s between are for clocks that run apart and for messages under way. Times are monotonic; the loop owns the lock.
Which state follows which is written in ``queue_state.LOCK``.
"""

from __future__ import annotations

from typing import Final

from pyromq.client.consumer.rules.queue_state import LOCK, LockEvent, LockState, after
from pyromq.clock import Clock

TRUSTED_MS: Final = 30_000
RENEW_MS: Final = 20_000


class QueueLock:
    """Free at first; ``granted`` again and again while the broker says so."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state = LockState.FREE
        self.granted_ms = clock.monotonic_ms()

    def granted(self) -> None:
        self._state = after(LOCK, self._state, LockEvent.GRANTED)
        self.granted_ms = self._clock.monotonic_ms()

    def lost(self) -> None:
        """The broker gave the queue to another member, or it was given back."""
        self._state = after(LOCK, self._state, LockEvent.LOST)

    @property
    def locked(self) -> bool:
        """Whether the broker granted it last, however long ago."""
        return self._state is LockState.HELD

    @property
    def expired(self) -> bool:
        return self._clock.monotonic_ms() - self.granted_ms > TRUSTED_MS

    @property
    def held(self) -> bool:
        """Whether messages may be consumed: granted, and not too long ago."""
        return self._state is LockState.HELD and not self.expired
