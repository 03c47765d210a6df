"""Signed requests."""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.client.core.settings import Credentials
from pyromq.client.core.signing import Signer
from pyromq.wire.headers.nameserver import GetRouteHeader
from pyromq.wire.signature import verify


def test_signed_requests_can_be_verified() -> None:
    signer = Signer(Credentials("key", "geheim", "token"))
    ext = signer.signed(GetRouteHeader(topic="t"), b"body")
    assert isinstance(ext, Mapping) and ext["SecurityToken"] == "token"
    assert verify(dict(ext), b"body", "geheim")
    assert Signer(None).signed({"a": "b"}) == {"a": "b"}
