"""Time spans that charts show, and the tiers that samples are kept in. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Tier:
    """Samples in steps of one size: slot n is the time from ``n * step_ms`` on."""

    name: str
    step_ms: int
    slots: int

    @property
    def span_ms(self) -> int:
        return self.step_ms * self.slots

    def slot(self, time_ms: int) -> int:
        return time_ms // self.step_ms


RECENT: Final = Tier("recent", 5_000, 192)  # sixteen minutes
DAY: Final = Tier("day", 3 * MINUTE_MS, 488)
WEEK: Final = Tier("week", 15 * MINUTE_MS, 676)
TIERS: Final = (RECENT, DAY, WEEK)


class TimeSpan(Enum):
    """What the field ``range`` of a page's query says: the last quarter of an hour, day or week."""

    QUARTER = "quarter"
    DAY = "day"
    WEEK = "week"

    @classmethod
    def of(cls, text: str) -> TimeSpan:
        """The span of that name; a quarter of an hour for anything else."""
        return next((each for each in cls if each.value == text), cls.QUARTER)

    @property
    def every(self) -> list[TimeSpan]:
        return list(TimeSpan)

    @property
    def is_default(self) -> bool:
        return self is TimeSpan.QUARTER

    @property
    def label(self) -> str:
        return {TimeSpan.QUARTER: "15 min", TimeSpan.DAY: "24 h", TimeSpan.WEEK: "7 d"}[self]

    @property
    def ms(self) -> int:
        return {TimeSpan.QUARTER: 15 * MINUTE_MS, TimeSpan.DAY: DAY_MS, TimeSpan.WEEK: 7 * DAY_MS}[self]

    def begin_ms(self, now_ms: int, first_ms: int) -> int:
        """Where a chart begins: with the span, or with the first sample while there are few, which then have room."""
        least_ms = {TimeSpan.QUARTER: 2 * MINUTE_MS, TimeSpan.DAY: 3 * HOUR_MS, TimeSpan.WEEK: DAY_MS}[self]
        return min(max(now_ms - self.ms, first_ms), now_ms - least_ms)

    @property
    def tier(self) -> Tier:
        return {TimeSpan.QUARTER: RECENT, TimeSpan.DAY: DAY, TimeSpan.WEEK: WEEK}[self]
