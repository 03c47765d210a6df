"""How a group shares queues out: arithmetic that members and brokers must agree on, or a queue has two owners.

Each function takes all queues, sorted, how many members there are and the number of one of them, and gives its queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def share_evenly(queues: Sequence[T], members: int, index: int) -> list[T]:
    """Consecutive blocks, the first ones larger by one; with more members than queues the last members get none."""
    size, larger = divmod(len(queues), members)
    start = index * size + min(index, larger)
    return list(queues[start : start + size + (index < larger)])


def share_in_circle(queues: Sequence[T], members: int, index: int) -> list[T]:
    """Dealt out one by one."""
    return list(queues[index::members])
