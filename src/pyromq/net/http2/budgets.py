"""Budgets of one connection for frames that cost a peer nothing and a server something.

Each kind of frame has its own; time refills it, and so does honest work where that is what makes such frames.
``limits`` names the attacks that they end.
"""

from __future__ import annotations

from pyromq.clock import Clock
from pyromq.wire.http2.frames import Http2Code, Http2Error


class FrameBudget:
    """Grows with time and with honest work, up to ``most``; spending more than there is ends a connection."""

    __slots__ = ("_left", "_most", "_per_s", "_seen_ms")

    def __init__(self, most: int, per_s: int) -> None:
        self._left: float = most
        self._most = most
        self._per_s = per_s
        self._seen_ms = 0

    def spend(self, now_ms: int) -> bool:
        """Whether there was something left."""
        if self._left < 1:
            self._left = min(self._most, self._left + (now_ms - self._seen_ms) * self._per_s / 1000)
            self._seen_ms = now_ms
        self._left -= 1
        return self._left >= 0

    def earn(self, count: int = 1) -> None:
        if self._left < self._most:
            self._left = min(self._most, self._left + count)


class AttackBudgets:
    """All budgets of one connection; spending more than one has raises Http2Error, which ends the connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.resets = FrameBudget(1_000, 100)
        self.updates = FrameBudget(100_000, 20_000)
        self.pings = FrameBudget(1_000, 100)
        self.settings = FrameBudget(100, 10)
        self.empties = FrameBudget(1_000, 100)  # frames that carry nothing

    def spend(self, budget: FrameBudget, what: str) -> None:
        """Count one frame. Raises Http2Error."""
        if not budget.spend(self._clock.monotonic_ms()):
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM, f"too many {what}")

    def finished(self, count: int = 1) -> None:
        """So many calls were answered whole: that pays for resets and window updates."""
        self.resets.earn(count)
        self.updates.earn(count)
