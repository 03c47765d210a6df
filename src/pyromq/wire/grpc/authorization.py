"""Who signed a call: the metadata ``authorization``.

    MQv2-HMAC-SHA1 Credential=alice, SignedHeaders=x-mq-date-time, Signature=8A3C…

The signature is HMAC-SHA1 with the secret key over the value of ``x-mq-date-time`` and nothing else, in hexadecimal
digits of either case. Behind a slash a credential may have more words; the user stands before the first.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from typing import Final, NamedTuple

from pyromq.errors import RemoteProtocolError

_ALGORITHM: Final = "MQv2-HMAC-SHA1"


class AuthorizationError(RemoteProtocolError):
    """Text that is not in the form above."""


class GrpcAuthorization(NamedTuple):
    user: str
    signature: str  # base64, as the remoting protocol writes it


def parse_authorization(text: str) -> GrpcAuthorization:
    """Parse the authorization of a gRPC call. Raises AuthorizationError."""
    algorithm, _, rest = text.strip().partition(" ")
    if algorithm != _ALGORITHM:
        raise AuthorizationError(f"authorization begins with {algorithm[:40]!r}, {_ALGORITHM} is expected")
    items = dict(_item(part) for part in rest.split(","))
    try:
        signature = binascii.unhexlify(items["Signature"])
        return GrpcAuthorization(items["Credential"].partition("/")[0], b64encode(signature).decode())
    except (KeyError, ValueError) as error:
        raise AuthorizationError("authorization has no Credential, or no Signature in hexadecimal digits") from error


def _item(part: str) -> tuple[str, str]:
    name, _, value = part.strip().partition("=")
    return name, value
