"""The audit logs of brokers and name servers: who changed what, and what was refused."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import Any

import msgspec

from pyromq.client.admin.base import AdminBase, gather
from pyromq.client.core.errors import error_of
from pyromq.net import Link
from pyromq.security.audit import AuditEntry, AuditSearch
from pyromq.wire.codes import RequestCode, ResponseCode
from pyromq.wire.received import Received


class AuditAdmin(AdminBase):
    """Of ``Admin``: audit logs. Apache RocketMQ keeps none."""

    async def audit(self, question: AuditSearch | None = None, *, broker: str = "") -> list[AuditEntry]:
        """Entries of all name servers and masters, or of one broker, newest first."""
        question = question or AuditSearch()
        body = msgspec.json.encode(question)
        responses = await self._ask_all(await self._masters(broker=broker), RequestCode.QUERY_AUDIT_LOG, None, body)
        if not broker:
            responses += await gather([self._ask_log(link, body) for link in self.client.nameservers.links])
        found = [msgspec.json.decode(response.body, type=list[AuditEntry]) for response in responses if response.body]
        return list(islice(merge(*found, key=lambda entry: -entry.time_ms), question.limit))

    async def _ask_log(self, link: Link, body: bytes) -> Received[Any]:
        """Those that keep no log, and Apache's, do not know the request: then there is no body."""
        ext = self.client.signer.signed(None, body)
        timeout_ms = self.client.settings.request_timeout_ms
        response = await link.request(RequestCode.QUERY_AUDIT_LOG, ext, body, timeout_ms=timeout_ms)
        if response.code not in (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
            raise error_of(response)
        return response
