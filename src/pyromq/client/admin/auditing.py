"""The audit logs of brokers: who changed what, and what was refused."""

from __future__ import annotations

from heapq import merge
from itertools import islice

import msgspec

from pyromq.client.admin.base import AdminBase
from pyromq.security.audit import AuditEntry, Question
from pyromq.wire.codes import RequestCode


class AuditAdmin(AdminBase):
    """Of ``Admin``: audit logs. Apache RocketMQ keeps none."""

    async def audit(self, question: Question | None = None, *, broker: str = "") -> list[AuditEntry]:
        """Entries of all masters, or of one broker, newest first."""
        question = question or Question()
        body = msgspec.json.encode(question)
        responses = await self._ask_all(await self._masters(broker=broker), RequestCode.QUERY_AUDIT_LOG, None, body)
        found = [msgspec.json.decode(response.body, type=list[AuditEntry]) for response in responses]
        return list(islice(merge(*found, key=lambda entry: -entry.time_ms), question.limit))
