"""What a signature covers, of a JSON header, in one step: access key, signature, and the values in their order.

The plain form is ``signed_content`` of the ext fields as a map, at three times the cost. Fields that no client of ours,
Java's or Go's sends with that code, numbers instead of strings, and whatever else is odd take the plain way: the reader
says None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from pyromq.wire.ext import JSON_ERRORS
from pyromq.wire.headers import REQUEST_HEADERS
from pyromq.wire.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, UNIQUE_KEY_QUERY

SignedFields = tuple[str, str, bytes]
"""Access key, signature, content without body."""

Reader = Callable[[bytes], SignedFields | None]
MORE_FIELDS: Final = ("ReqT", "bname", "lo", "ns", "nsd", "oway")
"""What Java's clients add to any request."""


def _compiled(names: set[str]) -> Reader:
    """A reader of headers that have no other fields than these."""
    ordered = sorted({*names, *MORE_FIELDS, ACCESS_KEY, SECURITY_TOKEN}, key=lambda name: name.encode("utf-16-be"))
    attributes = {name: f"f{number}" for number, name in enumerate((*ordered, SIGNATURE))}
    fields = msgspec.defstruct(
        "SignedFields",
        [(attribute, str, "") for attribute in attributes.values()],
        rename={attribute: name for name, attribute in attributes.items()},
        forbid_unknown_fields=True,
        gc=False,
    )
    header = msgspec.defstruct("SignedHeader", [("extFields", fields)], gc=False)
    decode = msgspec.json.Decoder(header).decode
    values = "".join(f"{{f.{attributes[name]}}}" for name in ordered)
    source = f"lambda f: (f.{attributes[ACCESS_KEY]}, f.{attributes[SIGNATURE]}, f'{values}'.encode())"
    picked: Callable[[Any], SignedFields] = eval(source)

    def read(text: bytes) -> SignedFields | None:
        try:
            return picked(decode(text).extFields)  # type: ignore[attr-defined]
        except JSON_ERRORS:
            return None

    return read


def _never(_: bytes) -> SignedFields | None:
    return None


_readers: dict[int, Reader] = {}


def signed_fields(code: int, header: bytes) -> SignedFields | None:
    """Read the signed fields from the JSON text of a header; None: decode it the plain way."""
    reader = _readers.get(code)
    if reader is None:
        header_type = REQUEST_HEADERS.get(code)  # type: ignore[call-overload]
        if header_type is None:
            return None
        names = {field.encode_name for field in msgspec.structs.fields(header_type)}
        reader = _readers[code] = _never if UNIQUE_KEY_QUERY in names else _compiled(names)
    return reader(header)
