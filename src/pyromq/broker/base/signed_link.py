"""Signed requests, and a link that sends no others: how a broker shows name servers and its master who it is."""

from __future__ import annotations

from typing import Any

from pyromq.net.link import Link
from pyromq.security.settings import InnerCredentials
from pyromq.wire.command import Ext
from pyromq.wire.ext import header_to_ext
from pyromq.wire.received import Received
from pyromq.wire.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign


def signed(credentials: InnerCredentials, header: Ext = None, body: bytes = b"") -> dict[str, str]:
    """The fields of a request, with its signature."""
    ext = header_to_ext(header)
    ext[ACCESS_KEY] = credentials.access_key
    if credentials.security_token:
        ext[SECURITY_TOKEN] = credentials.security_token
    ext[SIGNATURE] = sign(ext, body, credentials.secret_key)
    return ext


class SignedLink(Link):
    """``credentials`` is set before the first request."""

    credentials: InnerCredentials

    async def request(self, code: int, header: Ext = None, body: bytes = b"", *, timeout_ms: int) -> Received[Any]:
        return await super().request(code, signed(self.credentials, header, body), body, timeout_ms=timeout_ms)
