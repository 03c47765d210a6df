"""The clock that all commands read. A test puts another in its place: ``monkeypatch.setattr(clock, "in_use", …)``."""

from __future__ import annotations

import time

from pyromq.clock import Clock, SystemClock

in_use: Clock = SystemClock()


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return in_use.now_ms()


def pause(seconds: float) -> None:
    """What commands that repeat themselves do in between; likewise a test has another."""
    time.sleep(seconds)
