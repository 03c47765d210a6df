"""Signed requests: credentials added, and a signature over all fields and the body."""

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
        """Add credentials and signature to the fields of a request; there must be credentials."""
        credentials = self._credentials
        assert credentials is not None
        ext[ACCESS_KEY] = credentials.access_key
        if credentials.security_token:
            ext[SECURITY_TOKEN] = credentials.security_token
        ext[SIGNATURE] = sign(ext, body, credentials.secret_key)
        return ext
