"""The audit logs of brokers and name servers: who changed what, and what was refused."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TypeAlias

import msgspec

from pyromq.client.admin.requests import AdminRequests
from pyromq.client.core.tasks import gather
from pyromq.security.audit import AuditEntry, AuditSearch
from pyromq.wire.codes import RequestCode

_Entries: TypeAlias = list[AuditEntry]  # the facet has a method ``list``


class AuditFacet:
    """``admin.audit``: audit logs. Apache RocketMQ keeps none."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def list(self, question: AuditSearch | None = None, *, broker: str = "") -> _Entries:
        """Return entries of all name servers and masters, or of one broker, newest first."""
        question = question or AuditSearch()
        masters = await self._requests.directory.masters(broker=broker)
        found = await gather([self._requests.brokers.audit_log(address, question) for address in masters])
        if not broker:
            found += await self._of_nameservers(question)
        return [*islice(merge(*found, key=lambda entry: -entry.time_ms), question.limit)]

    async def _of_nameservers(self, question: AuditSearch) -> tuple[_Entries, ...]:
        body, code = msgspec.json.encode(question), RequestCode.QUERY_AUDIT_LOG
        responses = await self._requests.nameservers.ask_those_that_know(code, None, body)
        return tuple(msgspec.json.decode(each.body, type=_Entries) for each in responses if each.body)
