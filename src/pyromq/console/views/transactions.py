"""Prepared messages, neither committed nor rolled back; and whether their producers could be asked."""

from __future__ import annotations

import msgspec

from pyromq.console.desk import Desk
from pyromq.errors import MQError
from pyromq.operate.transactions import OpenTransaction


class HalfMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Oldest first. ``producers``: how many of each producer group are connected; -1 where it is not known."""

    messages: tuple[OpenTransaction, ...]
    producers: dict[str, int]


async def read_half_messages(desk: Desk, topic: str = "") -> HalfMessages:
    found = await desk.admin.transactions.list(topic)
    groups = sorted({each.producer_group for each in found if each.producer_group})
    return HalfMessages(messages=tuple(found), producers={group: await _connected(desk, group) for group in groups})


async def _connected(desk: Desk, group: str) -> int:
    try:
        return len(await desk.admin.members.producers_of(group))
    except MQError:  # a detail of the page, which shows the rest
        return -1
