"""RocketMQ's delay levels: how long each of them is, unless a broker says otherwise (``messageDelayLevel``)."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import Final

from pyromq.errors import ConfigError

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_STEP: Final = re.compile(r"([0-9]+)(ms|[smhd])")


def parse_ladder(text: str) -> tuple[int, ...]:
    """Delays in milliseconds of levels 1, 2, … from a text such as ``1s 5s 1m``. Raises ConfigError."""
    steps = [_STEP.fullmatch(word) for word in text.split()]
    if not all(steps):
        raise ConfigError(f"delay ladder {text!r}: each step is a number followed by ms, s, m, h or d")
    return tuple(int(step[1]) * _UNIT_MS[step[2]] for step in steps if step)


DELAY_LADDER: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
LEVELS_MS: Final = parse_ladder(DELAY_LADDER)
"""By level, from 1 on."""


def level_of(delay_ms: int) -> int:
    """The level that is exactly this long. Raises ConfigError where there is none."""
    if delay_ms not in LEVELS_MS:
        raise ConfigError(f"no delay level is {delay_ms / 1000:g} s long; there are {DELAY_LADDER}")
    return LEVELS_MS.index(delay_ms) + 1


def level_after(delay_ms: int) -> int:
    """The shortest level that is not shorter than this delay, or the longest of all."""
    return min(bisect_left(LEVELS_MS, delay_ms) + 1, len(LEVELS_MS))


def level_before(delay_ms: int) -> int:
    """The longest level that is not longer than this delay, or the shortest of all."""
    return max(bisect_right(LEVELS_MS, delay_ms), 1)
