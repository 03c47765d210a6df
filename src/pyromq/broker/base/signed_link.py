"""A link whose requests are signed: how a broker shows name servers who it is."""

from __future__ import annotations

from typing import Any

from pyromq.net.link import Link
from pyromq.security.settings import InnerCredentials
from pyromq.wire.command import Ext
from pyromq.wire.ext import header_to_ext
from pyromq.wire.received import Received
from pyromq.wire.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign


class SignedLink(Link):
    """``credentials`` is set before the first request."""

    credentials: InnerCredentials

    async def request(self, code: int, header: Ext = None, body: bytes = b"", *, timeout_ms: int) -> Received[Any]:
        credentials, ext = self.credentials, header_to_ext(header)
        ext[ACCESS_KEY] = credentials.access_key
        if credentials.security_token:
            ext[SECURITY_TOKEN] = credentials.security_token
        ext[SIGNATURE] = sign(ext, body, credentials.secret_key)
        return await super().request(code, ext, body, timeout_ms=timeout_ms)
