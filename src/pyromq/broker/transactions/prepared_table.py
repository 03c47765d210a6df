"""Table of prepared messages that wait for a decision: one byte for each since the oldest that does.

    first                                     end
    │ 0   gone   3   gone   gone   0   …        0 … 250: it waits, and so often its producer was asked about it

Only memory: the op records say which are gone, and how often a producer was asked may be forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

CHECKS_MAX: Final = 250
_GONE: Final = 255
_next_waiting = re.compile(rb"[\x00-\xfa]").search
_each_checked = re.compile(rb"[\x01-\xfa]").finditer


class PreparedTable:
    """Offsets below ``first`` are gone; those the table has not grown to yet wait."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._states = bytearray()  # checks of each, or _GONE

    @property
    def end(self) -> int:
        return self.first + len(self._states)

    @property
    def waiting(self) -> int:
        """How many wait, as far as the table has grown."""
        return len(self._states) - self._states.count(_GONE)

    def grow(self, end: int) -> None:
        """The half topic reaches up to ``end`` now."""
        if end > self.end:
            self._states += bytes(end - self.end)

    def is_waiting(self, offset: int) -> bool:
        index = offset - self.first
        return index >= len(self._states) or (index >= 0 and self._states[index] != _GONE)

    def checks(self, offset: int) -> int:
        """How often a producer was asked about one that waits, since this broker started."""
        index = offset - self.first
        return self._states[index] if index < len(self._states) else 0

    def checked(self, count_max: int) -> dict[int, int]:
        """How often producers were asked about the first ``count_max`` of the prepared messages that they were asked
        about.
        """
        found = islice(_each_checked(self._states), count_max)
        return {self.first + each.start(): self._states[each.start()] for each in found}

    def count_check(self, offset: int) -> None:
        self.grow(offset + 1)
        self._states[offset - self.first] = min(CHECKS_MAX, self.checks(offset) + 1)

    def forget_checks(self, offset: int) -> None:
        if self.first <= offset < self.end:
            self._states[offset - self.first] = 0

    def remove(self, offset: int) -> None:
        """It needs no decision any more."""
        if offset >= self.first:
            self.grow(offset + 1)
            self._states[offset - self.first] = _GONE

    def remove_all(self, offsets: Sequence[int]) -> None:
        """Remove many prepared messages at once."""
        self.grow(max(offsets, default=-1) + 1)
        states, first = self._states, self.first
        for offset in offsets:
            if offset >= first:
                states[offset - first] = _GONE

    def next_waiting(self, offset: int, end: int) -> int | None:
        """The first in [offset, end) that waits."""
        found = _next_waiting(self._states, max(0, offset - self.first), max(0, end - self.first))
        return self.first + found.start() if found else None

    def advance(self) -> None:
        """Forget those in front that are gone."""
        if self._states and self._states[0] == _GONE:
            found = _next_waiting(self._states)
            count = found.start() if found else len(self._states)
            del self._states[:count]
            self.first += count
