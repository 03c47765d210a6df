"""What a consumer knows of its lock on a queue: the broker grants it for 60 s, the consumer trusts it for 30.

The 30 s between are for clocks that run apart and for messages under way. Times are monotonic; the loop owns the lock.
"""

from __future__ import annotations

from typing import Final

from pyromq.clock import Clock

TRUSTED_MS: Final = 30_000
RENEW_MS: Final = 20_000


class QueueLock:
    """Free at first; ``granted`` again and again while the broker says so."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.locked = False
        self.granted_ms = clock.monotonic_ms()
        self.unlocks_tried = 0  # how often a listener that was still busy kept the queue from being given up

    def granted(self) -> None:
        self.locked, self.granted_ms = True, self._clock.monotonic_ms()

    def lost(self) -> None:
        """The broker gave the queue to somebody else, or it was given back."""
        self.locked = False

    @property
    def expired(self) -> bool:
        return self._clock.monotonic_ms() - self.granted_ms > TRUSTED_MS

    @property
    def held(self) -> bool:
        """Whether messages may be consumed: granted, and not too long ago."""
        return self.locked and not self.expired
