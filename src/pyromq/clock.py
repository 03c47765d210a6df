"""Clocks: time comes in through the door, as an argument."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock and monotonic time in milliseconds."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may jump when the machine's clock is set."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
