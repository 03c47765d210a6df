"""Counters of a broker and how fast they grow: totals, and averages over the last 10, 60 and 600 seconds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields

from pyromq.clock import Clock

WINDOWS_S = (10, 60, 600)


@dataclass(slots=True)
class Counters:
    """Plain numbers, counted up directly where things happen."""

    put_messages: int = 0
    put_bytes: int = 0
    put_refused: int = 0
    pulls_found: int = 0
    pulls_missed: int = 0
    pulled_messages: int = 0
    pulled_bytes: int = 0

    def copy(self) -> Counters:
        return Counters(*(getattr(self, each.name) for each in fields(self)))


class Stats:
    """Owns the counters; ``snapshot`` once a second lets it tell rates."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.counters = Counters()
        self._history: deque[tuple[int, Counters]] = deque(maxlen=WINDOWS_S[-1] + 1)
        self.snapshot()

    def snapshot(self) -> None:
        self._history.append((self._clock.monotonic_ms(), self.counters.copy()))

    def rates(self, name: str) -> tuple[float, ...]:
        """Growth per second of one counter, over each window (or as much of it as has passed)."""
        now, current = self._clock.monotonic_ms(), getattr(self.counters, name)
        found = []
        for window_s in WINDOWS_S:
            at_ms, then = next(
                (entry for entry in self._history if entry[0] >= now - window_s * 1000), self._history[-1]
            )
            elapsed_s = (now - at_ms) / 1000
            found.append((current - getattr(then, name)) / elapsed_s if elapsed_s > 0 else 0.0)
        return tuple(found)

    def rates_text(self, *names: str) -> str:
        """Three numbers in a row, as RocketMQ's tools expect them; several counters are added up."""
        columns = zip(*(self.rates(name) for name in names), strict=True)
        return " ".join(f"{sum(column):.2f}" for column in columns)
