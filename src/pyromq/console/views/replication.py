"""Replication: masters with their replicas, how far behind these are, and what is wrong with it."""

from __future__ import annotations

from typing import Final

import msgspec

from pyromq.console.desk import Desk
from pyromq.operate.replication import BrokerCopy

_AGE_MS: Final = 3_000


class ReplicationView(msgspec.Struct, frozen=True, kw_only=True):
    copies: list[BrokerCopy]

    @property
    def is_replicated(self) -> bool:
        """Whether there is a replica, or a master that expects one."""
        return any(each.number or each.role not in ("", "alone") for each in self.copies)


async def replication_view(desk: Desk) -> ReplicationView:
    return ReplicationView(copies=await desk.cache.get("replication", _AGE_MS, desk.admin.replication.list))
