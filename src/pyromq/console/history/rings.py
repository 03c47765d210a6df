"""Rings: the last samples of one number, one for each slot of time; four bytes each. Pure."""

from __future__ import annotations

import math
from array import array

_NAN = math.nan


class Ring:
    """The newest ``slots`` samples; a slot without one is a gap."""

    __slots__ = ("_values", "last")

    def __init__(self, slots: int) -> None:
        self._values = array("f", [_NAN]) * slots
        self.last = -1
        """The newest slot that has a sample."""

    def put(self, slot: int, value: float) -> None:
        """Keep a sample; one of a slot that is too old is left out."""
        count = len(self._values)
        if slot > self.last:
            for skipped in range(max(self.last + 1, slot - count + 1), slot):
                self._values[skipped % count] = _NAN
            self.last = slot
        elif slot <= self.last - count:
            return
        self._values[slot % count] = value

    def rewind(self, slot: int) -> None:
        """Make ``slot`` the newest one: samples after it, of a clock that was ahead, are forgotten."""
        count = len(self._values)
        for later in range(max(slot, self.last - count) + 1, self.last + 1):
            self._values[later % count] = _NAN
        self.last = min(self.last, slot)

    def get(self, slot: int) -> float | None:
        """The sample of a slot; None for a gap, and for what is older or newer than the ring."""
        if not self.last - len(self._values) < slot <= self.last:
            return None
        value = self._values[slot % len(self._values)]
        return None if math.isnan(value) else value

    def window(self, begin: int, end: int) -> list[tuple[int, float | None]]:
        """Samples of the slots [begin, end), with its gaps."""
        return [(slot, self.get(slot)) for slot in range(max(begin, self.last - len(self._values) + 1), end)]

    def mean(self, begin: int, end: int) -> float | None:
        """Mean over the slots [begin, end); None where there is no sample in it."""
        found = [value for slot in range(begin, end) if (value := self.get(slot)) is not None]
        return sum(found) / len(found) if found else None
