"""Errors about headers, in a module of their own because codecs below and commands above raise them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyromq.errors import RemoteProtocolError

if TYPE_CHECKING:
    from pyromq.wire.received import Received


class UndecodableHeaderError(RemoteProtocolError):
    """A frame is sound, but its header is not: the connection must be closed, there is no request to answer."""


class HeaderFieldError(RemoteProtocolError):
    """A header was decoded, but one of its ext fields is missing or does not hold what its code calls for.

    The stream is intact, so unlike after other remote protocol errors the connection may go on: a server answers the
    request, of which ``received`` tells everything except the typed header.
    """

    def __init__(self, *, header: str, field: str, reason: str) -> None:
        super().__init__(f"field {field!r} of {header} {reason}")
        self.header = header
        self.field = field
        self.reason = reason
        self.received: Received[Any] | None = None
