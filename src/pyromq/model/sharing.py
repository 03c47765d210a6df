"""How a group shares queues out: arithmetic that members and brokers must agree on, or a queue has two owners.

A share function takes all queues, sorted, how many members there are and the number of one of them, and gives its
queues. ``share_of`` finds that number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pyromq.model.queue import QueueId

T = TypeVar("T")

Share = Callable[[Sequence[QueueId], int, int], list[QueueId]]
"""All queues sorted, how many members, the number of one of them → its queues."""


def share_of(member: str, members: Iterable[str], queues: Iterable[QueueId], share: Share) -> list[QueueId]:
    """The queues of one member; none when it is not on the list of members. Lists may have any order."""
    ids = sorted_members(members)
    return share(sorted(set(queues)), len(ids), ids.index(member)) if member in ids else []


def sorted_members(members: Iterable[str]) -> list[str]:
    """Sort client ids as Java compares strings, by UTF-16 units: all members compute the same order."""
    return sorted(set(members), key=lambda member: member.encode("utf-16-be", "surrogatepass"))


def share_evenly(queues: Sequence[T], members: int, index: int) -> list[T]:
    """Consecutive blocks, the first ones larger by one; with more members than queues the last members get none."""
    size, larger = divmod(len(queues), members)
    start = index * size + min(index, larger)
    return list(queues[start : start + size + (index < larger)])


def share_in_circle(queues: Sequence[T], members: int, index: int) -> list[T]:
    """Dealt out one by one."""
    return list(queues[index::members])
