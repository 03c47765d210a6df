"""ACL signature of a request: proof of its sender.

    Signature = base64(HMAC-SHA1(secret key, content))
    content   = the values of all ext fields but Signature, in the order of their names, then the body

Nothing separates the values and neither names nor code are covered; so it is, and so every client signs. The sender
adds AccessKey (and SecurityToken) first, both are covered. A difference to the expected signature takes the same time
to find wherever it is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection, Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
_UNIQUE_KEY_QUERY_UNSIGNED_UNTIL: Final = 399  # 4.9.3


class SigningKey:
    """A secret key made ready: RFC 2104 with both padded blocks hashed once, at half the cost of ``hmac.digest``."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret_key: str) -> None:
        key = _utf8(secret_key)
        block = (hashlib.sha1(key, usedforsecurity=False).digest() if len(key) > _BLOCK_BYTES else key).ljust(
            _BLOCK_BYTES, b"\0"
        )
        self._inner = hashlib.sha1(block.translate(_INNER_PAD))
        self._outer = hashlib.sha1(block.translate(_OUTER_PAD))

    def sign(self, fields: bytes, body: bytes = b"") -> bytes:
        """The value for the field Signature, over the values of the fields and the body."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(fields)
        if body:
            inner.update(body)
        outer.update(inner.digest())
        return _base64(outer.digest(), newline=False)

    def matches(self, claimed: str, fields: bytes, body: bytes = b"") -> bool:
        """Whether that is the signature of the content; found out in constant time."""
        inner, outer = self._inner.copy(), self._outer.copy()  # as ``sign``: a call less for each request
        inner.update(fields)
        if body:
            inner.update(body)
        outer.update(inner.digest())
        return _equal(_base64(outer.digest(), newline=False), claimed.encode("utf-8", "replace"))


_base64 = binascii.b2a_base64
_equal = hmac.compare_digest
_BLOCK_BYTES: Final = 64
_INNER_PAD: Final = bytes(each ^ 0x36 for each in range(256))
_OUTER_PAD: Final = bytes(each ^ 0x5C for each in range(256))


def unsigned_fields(version: int) -> frozenset[str]:
    """The fields that a client of that version leaves out of the content: what to hand in as ``exclude``."""
    return frozenset((UNIQUE_KEY_QUERY,)) if version <= _UNIQUE_KEY_QUERY_UNSIGNED_UNTIL else frozenset()


def sign(
    ext_fields: Mapping[str, str | None], body: bytes | None, secret_key: str, *, exclude: Collection[str] = ()
) -> str:
    """The value for the field Signature; fields without value are skipped."""
    content = signed_content(ext_fields, body, exclude=exclude)
    return base64.b64encode(hmac.digest(_utf8(secret_key), content, "sha1")).decode()


def verify(
    ext_fields: Mapping[str, str | None], body: bytes | None, secret_key: str, *, exclude: Collection[str] = ()
) -> bool:
    """Whether the fields carry the signature that the holder of the key would give; a missing one is wrong."""
    claimed = ext_fields.get(SIGNATURE) or ""
    expected = sign(ext_fields, body, secret_key, exclude=exclude)
    return hmac.compare_digest(_utf8(expected), _utf8(claimed))


def signed_content(ext_fields: Mapping[str, str | None], body: bytes | None, *, exclude: Collection[str] = ()) -> bytes:
    names = sorted((name for name in ext_fields if name != SIGNATURE and name not in exclude), key=_java_order)
    return b"".join(_utf8(ext_fields[name] or "") for name in names) + (body or b"")


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _utf8(text: str) -> bytes:
    """Java's bytes of a text: half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace")
