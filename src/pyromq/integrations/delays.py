"""Delay levels for delays: a failed message waits at one of RocketMQ's levels, which brokers may set otherwise."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

_S, _MIN, _H = 1_000, 60_000, 3_600_000
LEVELS_MS: Final = (
    *(1 * _S, 5 * _S, 10 * _S, 30 * _S),
    *(minutes * _MIN for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(1 * _H, 2 * _H),
)
"""RocketMQ's usual levels; level n is at index n - 1."""


def level_after(delay_ms: int) -> int:
    """The shortest level that is not shorter than this delay, or the longest of all."""
    return min(bisect_left(LEVELS_MS, delay_ms) + 1, len(LEVELS_MS))


def level_before(delay_ms: int) -> int:
    """The longest level that is not longer than this delay, or the shortest of all."""
    return max(bisect_right(LEVELS_MS, delay_ms), 1)
