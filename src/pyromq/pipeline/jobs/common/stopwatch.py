"""Elapsed time of a job: what its summary tells as ``took_s``."""

from __future__ import annotations

from pyromq.clock import Clock


class Stopwatch:
    """Runs from the moment it is made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_ms = clock.monotonic_ms()

    @property
    def seconds(self) -> float:
        return (self._clock.monotonic_ms() - self._started_ms) / 1000
