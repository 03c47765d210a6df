"""Requests in the name of somebody: credentials added, and a signature over all fields and the body."""

from __future__ import annotations

from pyromq.client.core.settings import Credentials
from pyromq.wire.command import Ext
from pyromq.wire.ext import header_to_ext
from pyromq.wire.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign


class Signer:
    """Without credentials it leaves requests as they are."""

    def __init__(self, credentials: Credentials | None) -> None:
        self._credentials = credentials

    @property
    def is_needed(self) -> bool:
        return self._credentials is not None

    def signed(self, header: Ext, body: bytes = b"") -> Ext:
        """The fields of a request as they are sent."""
        return header if self._credentials is None else self.signed_fields(header_to_ext(header), body)

    def signed_fields(self, ext: dict[str, str], body: bytes) -> dict[str, str]:
        """The same map with credentials and signature added; there must be credentials."""
        who = self._credentials
        assert who is not None
        ext[ACCESS_KEY] = who.access_key
        if who.security_token:
            ext[SECURITY_TOKEN] = who.security_token
        ext[SIGNATURE] = sign(ext, body, who.secret_key)
        return ext
