"""Replication: masters with their replicas, how far behind these are, and what is wrong with it."""

from __future__ import annotations

from typing import Final

import msgspec

from pyromq.console.desk import Desk
from pyromq.operate.replication import BrokerCopy, troubles_of

_AGE_MS: Final = 3_000


class CopyView(msgspec.Struct, frozen=True, kw_only=True):
    copy: BrokerCopy
    findings: list[str]


class ReplicationView(msgspec.Struct, frozen=True, kw_only=True):
    copies: list[CopyView]

    @property
    def is_replicated(self) -> bool:
        """Whether there is a replica, or a master that expects one."""
        return any(each.copy.number or each.copy.role not in ("", "alone") for each in self.copies)


async def replication_view(desk: Desk) -> ReplicationView:
    copies = await desk.cache.get("replication", _AGE_MS, desk.admin.replication.list)
    findings = troubles_of(copies)
    return ReplicationView(copies=[CopyView(copy=each, findings=findings.get(each.name, [])) for each in copies])
