"""Windowed counters: what each topic and each group did in the last minute, hour and day.

    tally = calls << 128 | messages << 64 | bytes      one number, so that counting is one addition to a dict

Snapshots of all totals every 10 seconds, 10 minutes and hour are kept for as long as their window reaches back; what
did not move for a day is forgotten.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from pyromq.clock import Clock

K = TypeVar("K")

MESSAGE: Final = 1 << 64
CALL: Final = 1 << 128
ONE_MESSAGE: Final = CALL | MESSAGE  # plus its bytes: a call with one message
_MASK: Final = MESSAGE - 1


class Window(Enum):
    """How often a snapshot is taken, and how many are kept."""

    MINUTE = (10_000, 7)
    HOUR = (600_000, 7)
    DAY = (3_600_000, 25)


class WindowGrowth(NamedTuple):
    """What happened in a window."""

    calls: int = 0
    messages: int = 0
    size_bytes: int = 0
    elapsed_ms: int = 0


@dataclass(slots=True)
class _Snapshots(Generic[K]):
    interval_ms: int
    kept: deque[tuple[int, dict[K, int]]] = field(default_factory=deque)


class WindowCounters(Generic[K]):
    """Totals by key, counted up where things happen: ``counted[key] += ONE_MESSAGE + size``."""

    def __init__(self, clock: Clock) -> None:
        self.counted: defaultdict[K, int] = defaultdict(int)  # tallies since the start; ``totals`` is for readers
        self.before_look: Callable[[], None] = lambda: None  # who counts elsewhere brings it here
        self._clock = clock
        now = clock.monotonic_ms()
        self._due_ms = now  # when to look at the windows again
        self._windows = {
            window: _Snapshots[K](interval_ms, deque([(now, {})], maxlen=kept))
            for window, (interval_ms, kept) in ((each, each.value) for each in Window)
        }

    @property
    def totals(self) -> defaultdict[K, int]:
        """Totals since the start."""
        self.before_look()
        return self.counted

    def tick(self) -> None:
        """Take the snapshots that are due; call it every second or so."""
        now = self._clock.monotonic_ms()
        if now < self._due_ms:
            return
        for window, snapshots in self._windows.items():
            if now - snapshots.kept[-1][0] >= snapshots.interval_ms:
                snapshots.kept.append((now, dict(self.totals)))
                if window is Window.DAY and len(snapshots.kept) == snapshots.kept.maxlen:
                    self._forget_idle(snapshots.kept[0][1])
        self._due_ms = min(each.kept[-1][0] + each.interval_ms for each in self._windows.values())

    def _forget_idle(self, day_ago: Mapping[K, int]) -> None:
        for key in [key for key, total in self.totals.items() if day_ago.get(key) == total]:
            del self.counted[key]
            for snapshots in self._windows.values():
                for _, totals in snapshots.kept:
                    totals.pop(key, None)

    def growth(self, key: K, window: Window) -> WindowGrowth:
        at_ms, then = self._windows[window].kept[0]
        return _growth(self.totals.get(key, 0) - then.get(key, 0), self._clock.monotonic_ms() - at_ms)

    def growth_of_all(self, window: Window) -> WindowGrowth:
        at_ms, then = self._windows[window].kept[0]
        return _growth(sum(self.totals.values()) - sum(then.values()), self._clock.monotonic_ms() - at_ms)


def _growth(tally: int, elapsed_ms: int) -> WindowGrowth:
    return WindowGrowth(tally >> 128, tally >> 64 & _MASK, tally & _MASK, elapsed_ms)
